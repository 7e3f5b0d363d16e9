#!/usr/bin/env bash
# Builds and runs the tests of the C++ binding (bindings/cpp/) with g++, and with clang++ where there
# is one: as C++17, as C++20 under AddressSanitizer, as C++17 under ThreadSanitizer, without a
# warning. Mistakes that are planted must be reported, and programs that must not compile do not.
#
#   scripts/cpp.sh           all of it: under a minute on two cores, beyond the build of the library
#   scripts/cpp.sh --teeth   also shows that the tests find mistakes that are built into the headers
#   scripts/cpp.sh --cost    only counts the instructions of a push, by C++ and by C (valgrind)
#
# Under ThreadSanitizer a program needs TSAN_OPTIONS=ignore_noninstrumented_modules=1, and the shared
# library: the sanitizer then leaves out what the library does, and the headers say what it orders.
#
# Exit status: 0 all is well; 1 something is wrong; 2 wrong arguments; 3 there is no g++ or valgrind.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

what=tests
case "${1:-}" in
    "") ;;
    --teeth) what=teeth ;;
    --cost) what=cost ;;
    *) echo "usage: scripts/cpp.sh [--teeth | --cost]" >&2 && exit 2 ;;
esac
command -v g++ >/dev/null || { echo "skipped: there is no g++" && exit 3; }

wrong() {
    echo "wrong: $*" >&2
    exit 1
}
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --release --locked --package seriatim_c
mkdir -p "$target/cpp"
work=$(cd "$target/cpp" && pwd) libraries=$(cd "$target/release" && pwd)
begin=$SECONDS
say() {
    printf '[%2d s] %s\n' "$((SECONDS - begin))" "$*"
}

warnings=(-Wall -Wextra -Wpedantic -Werror)
headers=bindings/cpp/include
include=(-I"$headers" -Icapi/include)
link=(-L"$libraries" -lseriatim_c "-Wl,-rpath,$libraries" -pthread)
export TSAN_OPTIONS="exitcode=66 history_size=4 ignore_noninstrumented_modules=1"
export ASAN_OPTIONS="exitcode=66 detect_leaks=1"

# compile COMPILER OBJECT SOURCE FLAGS…: one file, without a warning.
compile() {
    local compiler=$1 object=$2 source=$3
    shift 3
    "$compiler" "$@" "${warnings[@]}" "${include[@]}" -c "$source" -o "$object"
}
one_is_done() {
    wait -n || wrong "a file of $name does not compile"
    running=$((running - 1))
}
sources=(values failures semantics asynchronous graphs memory modes main counting)
# build NAME COMPILER FLAGS…: the tests as $work/NAME, two files at a time.
build() {
    local name=$1 compiler=$2 source running=0
    shift 2
    rm -rf "$work/$name.d" && mkdir -p "$work/$name.d"
    for source in "${sources[@]/%/.cpp}"; do
        source=bindings/cpp/tests/$source
        if [ "$running" = 2 ]; then one_is_done; fi
        compile "$compiler" "$work/$name.d/$(basename "$source").o" "$source" "$@" &
        running=$((running + 1))
    done
    while [ "$running" -gt 0 ]; do one_is_done; done
    "$compiler" "$@" "$work/$name.d"/*.o "${link[@]}" -o "$work/$name"
}
# runs NAME GROUP…: the tests, but not for ever.
runs() {
    timeout 120 "$work/$1" "${@:2}" >"$work/$1.log" 2>&1 || { tail -n 40 "$work/$1.log" && wrong "$1 ${*:2}: see $work/$1.log"; }
    say "$1: $(grep -c ': well' "$work/$1.log") groups of tests"
}

if [ "$what" = cost ]; then
    command -v valgrind >/dev/null || { echo "skipped: there is no valgrind" && exit 3; }
    g++ -std=c++17 -O2 "${warnings[@]}" "${include[@]}" bindings/cpp/cost/cost.cpp "${link[@]}" -o "$work/cost"
    instructions() {
        valgrind --tool=callgrind --callgrind-out-file=/dev/null "$work/cost" "$@" 2>&1 | sed -n 's/.*Collected : //p'
    }
    printf '%-8s %6s %6s %6s\n' push C C++ more
    for case in empty one three; do
        counts=()
        for by in c cpp; do
            few=$(instructions "$case" "$by" 2000) many=$(instructions "$case" "$by" 12000)
            counts+=($(((many - few + 5000) / 10000)))
        done
        printf '%-8s %6s %6s %6s\n' "$case" "${counts[@]}" "$((counts[1] - counts[0]))"
    done
    exit 0
fi

# planted NAME MISTAKE REPORT: the mistake must be reported.
planted() {
    local status=0
    timeout 60 "$work/$1" "$2" >"$work/planted.log" 2>&1 || status=$?
    if [ "$status" != 66 ] || ! grep -q "$3" "$work/planted.log"; then
        tail -n 20 "$work/planted.log"
        wrong "$1 does not report the planted mistake '$2' (status $status)"
    fi
}

# ---- The tests ----

build plain g++ -std=c++17 -O1 -g
runs plain
build asan g++ -std=c++20 -O0 -g -fsanitize=address
runs asan
build tsan g++ -std=c++17 -O1 -g -fsanitize=thread
runs tsan

source=bindings/cpp/tests/planted/planted.cpp
planted_by() {
    g++ -std=c++17 -O1 -g "${@:2}" "${warnings[@]}" "${include[@]}" "$source" "${link[@]}" -o "$work/$1"
}
planted_by planted-tsan -fsanitize=thread &
planted_by planted-asan -fsanitize=address
wait $!
for mistake in race undeclared no-wait reader graph; do
    planted planted-tsan "$mistake" 'SUMMARY: ThreadSanitizer: data race.*planted\.cpp'
done
planted planted-asan use-after-free 'heap-use-after-free'
planted planted-asan leak 'LeakSanitizer: detected memory leaks'
say "seven planted mistakes are reported"

# ---- What must not compile ----

refused=bindings/cpp/tests/refused.cpp
# The headers are compiled once, and found before the headers themselves.
rm -rf "$work/compiled" && mkdir -p "$work/compiled/seriatim"
g++ -std=c++17 "${include[@]}" -x c++-header "$headers/seriatim/seriatim.hpp" -o "$work/compiled/seriatim/seriatim.hpp.gch"
refuse() {
    local number=$1 expected said
    expected=$(sed -n "s/^#e*l*if REFUSED == $number  \/\/ //p" "$refused")
    if said=$(LC_ALL=C g++ -std=c++17 -fsyntax-only -I"$work/compiled" "${include[@]}" "-DREFUSED=$number" "$refused" 2>&1); then
        echo "wrong: program $number of $refused compiles" >&2 && return 1
    fi
    grep -qF -- "$expected" <<<"$said" || { echo "wrong: program $number does not say '$expected': $said" >&2 && return 1; }
}
g++ -std=c++17 -fsyntax-only "${warnings[@]}" "${include[@]}" -DREFUSED=0 "$refused"
programs=$(grep -c 'if REFUSED == ' "$refused")
for ((number = 1; number <= programs; number += 2)); do
    refuse "$number" &
    [ "$number" = "$programs" ] || refuse "$((number + 1))"
    wait $!
done
say "$programs programs are refused"

# ---- The documents' programs, and the example ----

for document in bindings/cpp/README.md docs/src/cpp.md; do
    awk '/^```cpp$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$document" >"$work/document.cpp"
    g++ -std=c++17 "${warnings[@]}" "${include[@]}" "$work/document.cpp" "${link[@]}" -o "$work/document"
    timeout 60 "$work/document" >"$work/document.log" || wrong "the program of $document"
    grep -qx 5000 "$work/document.log" || wrong "the program of $document says: $(cat "$work/document.log")"
done
say "the programs of the documents run"

if command -v clang++ >/dev/null; then
    build clang clang++ -std=c++17 -O1 -g
    runs clang
else
    say "there is no clang++: only g++ was tried"
fi
[ "$what" = teeth ] || exit 0

# ---- Mistakes in the headers ----

# bite NAME FILE FROM TO BUILD GROUP: a copy of the headers with one change; the group must fail.
bite() {
    local name=$1 file=$2 from=$3 to=$4 how=$5 group=$6
    rm -rf "$work/bitten-headers" && cp -r bindings/cpp/include "$work/bitten-headers"
    python3 - "$work/bitten-headers/seriatim/$file" "$from" "$to" <<'END'
import sys
path, before, after = sys.argv[1:]
text = open(path).read()
sys.exit(f"{path} does not have: {before}") if before not in text else open(path, "w").write(text.replace(before, after))
END
    include=(-I"$work/bitten-headers" -Icapi/include) sources=("$group" main counting)
    case "$how" in
        plain) build bitten g++ -std=c++17 -O1 -g "-DONLY=run_$group" ;;
        tsan) build bitten g++ -std=c++17 -O1 -g -fsanitize=thread "-DONLY=run_$group" ;;
    esac
    if timeout 60 "$work/bitten" >"$work/bitten.log" 2>&1; then wrong "the tests do not find '$name'"; fi
    say "found: $name"
}
bite "a pool that does not acquire what comes back" detail/pool.hpp \
    'returned_.exchange(nullptr, std::memory_order_acquire)' 'returned_.exchange(nullptr, std::memory_order_relaxed)' tsan memory
bite "cells that go back to the wrong list" detail/pool.hpp \
    'if (cell->home == own_shelf) {' 'if (true) {' tsan memory
bite "headers that say nothing to the sanitizer" detail/sanitizer.hpp '__tsan_acquire(clock);' '' tsan values
bite "a wait that says nothing to the sanitizer" engine.hpp \
    'detail::writes_are_seen(variable);' '' tsan semantics
bite "operations that say nothing of their reads" detail/sanitizer.hpp \
    'for (SeriatimVariable variable : reads_) acquire(write_clock(variable));' '' tsan values
bite "a value that its last handle deletes at once" detail/core.hpp \
    'core.keep(this, status == SERIATIM_STATUS_ENGINE_FULL);' 'delete this;' plain values
bite "deletions that are not asked for again" detail/core.hpp \
    'core.ask_again();' '' plain values
bite "names that are not compared" access.hpp \
    'if ((changes[one] || changes[other]) && owners[one] == owners[other]) refuse_twice();' '' plain values
bite "an exception that is wrapped" error.hpp \
    'if (void* carried = seriatim_last_error_object(delete_exception)) {' \
    'if (void* carried = nullptr) {' plain failures
bite "a completion that is dropped while its function throws" completion.hpp \
    'return frame->came_back_ = true;' 'return false;' plain asynchronous
bite "a last handle that ends the engine in a destructor" detail/core.hpp \
    'if (deleters > 0) {' 'if (false) {' plain values
bite "a copy that is left out" reduction.hpp 'stride < count; stride *= 2' 'stride < count; stride *= 4' plain modes
bite "a part that is not noted" reduction.hpp 'owner->part_is_lent();' '' plain modes
bite "a guard that hears of no part" guard.hpp \
    'for (SeriatimVariable part : parts) check(seriatim_wait_for_variable(lease_.engine(), part));' '' plain modes
bite "functions that are never deleted" detail/call.hpp \
    'put_cell(made);' '' plain memory
