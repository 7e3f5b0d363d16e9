"""inlined.py EXECUTABLE: adds the inlined functions to what `perf script` prints, from standard
input to standard output.

`perf` can do so itself only where it was built with libbfd, as Debian's is not. This asks
addr2line, all addresses at once; without that program the stacks go through as they are.
"""

import re
import shutil
import struct
import subprocess
import sys

FRAME = re.compile(r"^(\s+)([0-9a-f]+) (.+) \((.+)\)$")


def main():
    executable = sys.argv[1]
    lines = sys.stdin.read().splitlines()
    # A caller's address is that of its next instruction, which may belong to something else: one
    # byte before is within the call.
    wanted, places, innermost = set(), [], True
    for line in lines:
        frame = FRAME.match(line)
        ours = frame is not None and frame[4] == executable
        place = int(frame[2], 16) - (0 if innermost else 1) if ours else None
        innermost = frame is None
        places.append(place)
        if ours:
            wanted.add(place)
    names = look_up(executable, sorted(wanted)) if shutil.which("addr2line") else {}
    for line, place in zip(lines, places):
        frame = FRAME.match(line)
        *inlined, outermost = names.get(place) or [None]
        # Only if both programs mean the same function.
        if outermost and outermost.split("::")[-1] in frame[3]:
            for name in inlined:
                print(f"{frame[1]}{frame[2]} {name} ({frame[4]})")
        # The outermost keeps the name that `perf` gave it, with its path.
        print(line)


def segments(executable):
    """Where the parts of a 64-bit little-endian ELF file lie: (offset in the file, size,
    address)."""
    with open(executable, "rb") as file:
        content = file.read()
    headers, (size, count) = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<HH", content, 54)
    for header in range(headers, headers + size * count, size):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", content, header)
        if kind == 1:
            yield offset, length, address


def look_up(executable, places):
    """The functions at each place of the file, innermost first: `perf script` prints offsets,
    addr2line wants addresses."""
    parts = list(segments(executable))
    address_of = {place: place - offset + address
                  for place in places for offset, length, address in parts if offset <= place < offset + length}
    found = functions_at(executable, address_of.values())
    return {place: found.get(address, []) for place, address in address_of.items()}


def functions_at(executable, addresses):
    """The functions at each address, innermost first."""
    command = ["addr2line", "--exe", executable, "--inlines", "--functions", "--demangle", "--addresses"]
    asked = "".join(f"{address:#x}\n" for address in addresses)
    answer = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    found, names, function = {}, [], True
    for line in answer.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            names = found.setdefault(int(line, 16), [])
            function = True
        else:
            if function:
                # Without type arguments, which make names long; and a semicolon would end the
                # frame.
                names.append(re.sub(r"<.*>", "", line).replace(";", ",") or line)
            function = not function
    return found


main()
