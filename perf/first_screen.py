"""Whether a flamegraph opens on the picture: the frame of all samples, and most of the frames below
it, are to be on the first screen. Exit status 0 if so, 1 if not."""

import sys
import xml.etree.ElementTree as tree

SCREEN = 900


def frames(svg):
    """The place of each frame: how far down, and how wide, of the drawing's width."""
    for group in tree.parse(svg).getroot().iter():
        if group.get("id") == "frames":
            for rect in group.iter("{http://www.w3.org/2000/svg}rect"):
                yield float(rect.get("y")), float(rect.get("width").rstrip("%")) / 100


def main(svg):
    places = list(frames(svg))
    whole = [y for y, width in places if width > 0.999]
    inside = sum(width for y, width in places if y < SCREEN)
    total = sum(width for _, width in places)
    if not whole or min(whole) > SCREEN / 4 or inside < total / 2:
        print(f"{svg}: the first screen shows {inside:.1f} of {total:.1f} rows of frames", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
