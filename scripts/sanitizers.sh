#!/usr/bin/env bash
# Runs the tests under AddressSanitizer with leak detection (asan), ThreadSanitizer (tsan) and
# valgrind's memcheck (memcheck), after showing that each of them reports the mistakes of
# tests/sanitizer_stress/plant.rs.
#
#   scripts/sanitizers.sh [--quick] [--teeth] [--tensor] [asan|tsan|memcheck ...]
#                                  default: all three, about ten minutes on two cores
#     --quick   a subset for every change: under four minutes, builds included
#     --teeth   only the planted mistakes
#     --tensor  only the tests of tensor/, which --quick leaves out, under asan unless tsan is named
#
# ThreadSanitizer watches the standard library too where a nightly Rust with rust-src is at hand;
# elsewhere some of what it says of that library is suppressed, with the reasons in
# scripts/sanitizers/tsan.supp, and it watches the stress only.
#
# Needs Linux, Rust stable from rustup and gcc; valgrind and llvm-symbolizer are installed by
# apt-get if they are missing and the caller is root. Logs lie in the target folder, under
# sanitizers/logs.
#
# Exit status: 0 all clean, and every planted mistake reported; 1 an alarm, a failed test, or a
# planted mistake that nobody reported; 2 wrong arguments; 3 otherwise clean, but a checker was
# skipped because a tool is missing.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

quick=no teeth=no tensor=no checkers=()
for argument in "$@"; do
    case "$argument" in
        --quick) quick=yes ;;
        --teeth) teeth=yes ;;
        --tensor) tensor=only ;;
        asan | tsan | memcheck) checkers+=("$argument") ;;
        *)
            echo "usage: scripts/sanitizers.sh [--quick] [--teeth] [--tensor] [asan|tsan|memcheck ...]" >&2
            exit 2
            ;;
    esac
done
[ ${#checkers[@]} -gt 0 ] || if [ "$tensor" = only ]; then checkers=(asan); else checkers=(asan tsan memcheck); fi
# The tests of the arrays that the sanitizers watch.
arrays=(--test tensor_arrays --test tensor_dlpack --test tensor_endings --test tensor_formats --test tensor_steps)
# What takes a minute and has nothing that the others of its file have not.
arrays+=(-- --skip each_length_of_a_file_is_checked)

root=$PWD
package=$root/scripts/sanitizers
mkdir -p "${CARGO_TARGET_DIR:-target}/sanitizers/logs"
work=$(cd "${CARGO_TARGET_DIR:-target}/sanitizers" && pwd)
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
given_flags=${RUSTFLAGS:-}
# The exit status of every tool that has something to report.
alarm=66

say() {
    printf '[%3d s] %s\n' "$SECONDS" "$*"
}

rows=() failures=0 skipped=()

# ---- What is needed ----

# ensure COMMAND PACKAGE: whether the command is there, if need be after installing the package.
ensure() {
    command -v "$1" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $2, which has $1"
        if apt-get update -qq >/dev/null && apt-get install -y -qq "$2" >/dev/null; then
            command -v "$1" >/dev/null && return
        fi
    fi
    echo "skipped: there is no $1; get it with: apt-get install $2"
    return 1
}

# has_source: whether there is a nightly Rust with the source of its standard library, if need be after adding that.
has_source() {
    local sysroot
    sysroot=$(RUSTUP_TOOLCHAIN=nightly rustc --print sysroot 2>/dev/null) || return 1
    [ -e "$sysroot/lib/rustlib/src/rust/library/Cargo.lock" ] ||
        timeout 120 rustup component add --toolchain nightly rust-src >/dev/null 2>&1
}

# ---- Running ----

# The flags and options of a checker: sets and exports what cargo and the tool read.
prepare() {
    export CARGO_TARGET_DIR=$work/$1
    unset RUSTC_BOOTSTRAP RUSTUP_TOOLCHAIN ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS "${runner:?}"
    build_std=()
    export RUSTFLAGS=$given_flags
    case "$1" in
        asan)
            export RUSTC_BOOTSTRAP=1
            # Frame pointers: without them the stack of an allocation breaks off before the function that a suppression names.
            RUSTFLAGS+=" -Zsanitizer=address -Cforce-frame-pointers=yes --cfg crossbeam_sanitize"
            export ASAN_OPTIONS="detect_leaks=1 exitcode=$alarm"
            export LSAN_OPTIONS="suppressions=$package/lsan.supp print_suppressions=0"
            ;;
        tsan)
            RUSTFLAGS+=" -Zsanitizer=thread --cfg crossbeam_sanitize"
            export TSAN_OPTIONS="exitcode=$alarm history_size=4"
            if has_source; then
                # A standard library that is built with the sanitizer: nothing needs to be suppressed.
                export RUSTUP_TOOLCHAIN=nightly CARGO_TARGET_DIR=$work/tsan-std
                build_std=(-Zbuild-std)
            else
                # As it comes the standard library is not built with the sanitizer: the flag says that this is meant.
                export RUSTC_BOOTSTRAP=1
                RUSTFLAGS+=" -Cunsafe-allow-abi-mismatch=sanitizer"
                TSAN_OPTIONS+=" suppressions=$package/tsan.supp"
            fi
            ;;
        memcheck)
            # Fair scheduling: a thread that spins would otherwise keep the others from running. What is possibly lost is memory
            # that something points into the middle of, such as the thread descriptors of the C library: not an error. There is
            # no list of leaks that are meant, since what memcheck runs has none.
            export "$runner=valgrind --quiet --error-exitcode=$alarm --leak-check=full --show-leak-kinds=definite,indirect \
--errors-for-leak-kinds=definite,indirect --fair-sched=yes --num-callers=40"
            ;;
    esac
}
runner=CARGO_TARGET_$(echo "$host" | tr 'a-z-' 'A-Z_')_RUNNER

# run CHECKER WHAT SECONDS CARGO-ARGUMENTS: runs tests, adds to the checker's account. What they say goes to a log.
run() {
    local checker=$1 what=$2 limit=$3 status=0 count
    shift 3
    local log=$work/logs/$checker-$what.log
    say "$checker: $what"
    timeout "$limit" cargo test --quiet "${build_std[@]}" --target "$host" "$@" >"$log" 2>&1 || status=$?
    count=$(grep -cE 'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|^==[0-9]+== [A-Z].*(definitely|indirectly) lost in|^==[0-9]+== (Invalid|Conditional|Use of uninit|Syscall)' "$log" || true)
    alarms=$((alarms + count))
    ran+="${ran:+, }$what"
    if [ "$status" != 0 ]; then
        failures=$((failures + 1))
        [ "$status" != 124 ] || echo "it did not end within $limit s"
        echo "FAILED with $count alarms; the end of $log:"
        grep -E 'SUMMARY|panicked|^test .*FAILED|error' "$log" | sort | uniq -c | head -20 || true
        tail -n 25 "$log" | cut -c1-200
    elif [ "$count" != 0 ]; then
        failures=$((failures + 1))
        echo "FAILED: $count alarms in $log"
    fi
}

# plant CHECKER MISTAKE PATTERN: the checker must report the mistake, by a line like this.
plant() {
    local log=$work/logs/$1-planted-$2.log status=0
    SERIATIM_PLANT=$2 timeout 120 cargo test --quiet "${build_std[@]}" --manifest-path "$package/Cargo.toml" --target "$host" \
        --test sanitizer_stress >"$log" 2>&1 || status=$?
    if [ "$status" != 0 ] && grep -qE "$3" "$log"; then
        say "$1: reports the planted mistake '$2'"
        planted+="${planted:+, }$2"
    else
        failures=$((failures + 1))
        planted+="${planted:+, }$2: MISSED"
        echo "FAILED: $1 does not report the planted mistake '$2'; the end of $log:"
        tail -n 15 "$log" | cut -c1-200
    fi
}

# tests CHECKER WHAT SECONDS ARGUMENTS: as run, for the tests of the small package.
tests() {
    local checker=$1 what=$2 limit=$3
    shift 3
    run "$checker" "$what" "$limit" --manifest-path "$package/Cargo.toml" "$@"
}

asan() {
    # Limits the address space until threads are refused, which the sanitizer needs for each of them as well.
    local few=(-- --skip threads_that_the_system_refuses)
    plant asan use-after-free 'heap-use-after-free'
    plant asan leak 'LeakSanitizer: detected memory leaks'
    [ "$teeth" = no ] || return 0
    if [ "$tensor" = only ]; then
        tests asan tensor 600 "${arrays[@]}"
        return
    fi
    if [ "$quick" = yes ]; then
        SERIATIM_STRESS_MS=10000 tests asan stress 120 --test sanitizer_stress
        SERIATIM_ORACLE_OPS=30000 tests asan oracle 120 --test oracle
        tests asan errors 120 --test errors "${few[@]}"
        return
    fi
    SERIATIM_STRESS_MS=30000 tests asan stress 120 --test sanitizer_stress
    SERIATIM_ORACLE_OPS=300000 tests asan oracle 600 --test oracle
    tests asan life 600 --test life
    tests asan errors 600 --test errors "${few[@]}"
    tests asan tensor 600 "${arrays[@]}"
    # Those that are left out measure memory: the sanitizer keeps what was freed, to see who still uses it.
    tests asan hazards 600 --test hazards -- --skip leave_nothing_behind
    tests asan peer_semantics 600 --test peer_semantics -- --skip memory_grows_with_the_backlog_only_without_a_bound
    # Not the example in C, which another compiler builds.
    run asan capi 600 --package seriatim_c --test completions --test deleters --test engine --test environment --test refusals
}

tsan() {
    plant tsan race 'SUMMARY: ThreadSanitizer: data race .*plant\.rs'
    plant tsan race-with-a-stream 'SUMMARY: ThreadSanitizer: data race .*(plant|world)\.rs'
    [ "$teeth" = no ] || return 0
    if [ "$tensor" = only ]; then
        [ ${#build_std[@]} -eq 0 ] || tests tsan tensor 600 "${arrays[@]}"
        return
    fi
    local seed
    for seed in $([ "$quick" = yes ] && echo 1 || echo 1 2 3); do
        SERIATIM_STRESS_SEED=$seed SERIATIM_STRESS_MS=20000 tests tsan "stress-$seed" 300 --test sanitizer_stress
    done
    # The test harness, its channels and its locks are of the standard library.
    [ ${#build_std[@]} -gt 0 ] || return 0
    SERIATIM_ORACLE_OPS=$([ "$quick" = yes ] && echo 10000 || echo 200000) tests tsan oracle 900 --test oracle
    [ "$quick" = no ] || return 0
    tests tsan hazards 600 --test hazards -- --skip leave_nothing_behind
    tests tsan life 600 --test life
}

memcheck() {
    plant memcheck leak 'definitely lost in loss record'
    plant memcheck uninitialised 'depends on uninitialised value'
    plant memcheck use-after-free 'Invalid read'
    [ "$teeth" = no ] || return 0
    local stress=60000 operations=10000
    [ "$quick" = no ] || stress=10000 operations=1000
    SERIATIM_STRESS_MS=$stress tests memcheck stress 600 --test sanitizer_stress
    SERIATIM_ORACLE_OPS=$operations tests memcheck oracle 600 --test oracle -- \
        a_million_random_operations_run_in_one_serial_order
}

# The small package has no lock file of its own: it takes the versions that the workspace has.
cp Cargo.lock "$package/Cargo.lock"

for checker in "${checkers[@]}"; do
    begin=$SECONDS alarms=0 ran="" planted="" tool=llvm-symbolizer from=llvm
    # The sanitizers need the names of functions, or their suppressions match nothing.
    [ "$checker" != memcheck ] || tool=valgrind from=valgrind
    if ! ensure "$tool" "$from"; then
        skipped+=("$checker")
        rows+=("$checker|skipped: no $tool|||")
        continue
    fi
    prepare "$checker"
    targets=(--test sanitizer_stress --test oracle)
    [ "$checker" != tsan ] || [ ${#build_std[@]} -gt 0 ] || targets=(--test sanitizer_stress)
    [ "$checker" != asan ] || targets+=(--test errors)
    [ "$tensor" = no ] || targets=(--test sanitizer_stress "${arrays[@]}") # Cargo builds what comes before the `--`.
    say "$checker: building"
    cargo test --quiet "${build_std[@]}" --manifest-path "$package/Cargo.toml" --target "$host" --no-run "${targets[@]}" 2>&1 | tail -n 30
    # By -Zbuild-std a program without Rust's harness has another build of all crates, for which
    # the two minutes of a planted mistake may be too few.
    [ ${#build_std[@]} -eq 0 ] || cargo test --quiet "${build_std[@]}" --manifest-path "$package/Cargo.toml" --target "$host" \
        --no-run --test sanitizer_stress 2>&1 | tail -n 30
    "$checker"
    rows+=("$checker|${ran:-nothing else}|$((SECONDS - begin)) s|$alarms|$planted")
done

printf '\n%-9s| %-62s| %-7s| %-7s| %s\n' checker "what ran" time alarms "planted mistakes reported"
for row in "${rows[@]}"; do
    IFS='|' read -r checker ran time alarms planted <<<"$row"
    printf '%-9s| %-62s| %-7s| %-7s| %s\n' "$checker" "$ran" "$time" "$alarms" "$planted"
done
if [ "$failures" != 0 ]; then
    echo "NOT CLEAN: $failures failures, see above"
    exit 1
elif [ ${#skipped[@]} != 0 ]; then
    echo "INCOMPLETE: skipped ${skipped[*]} for want of a tool, see above; the rest is clean"
    exit 3
fi
echo "clean"
