#!/usr/bin/env bash
# Runs a command that runs tests, and ends it when it takes too long: then says which tests were
# running.
#
#   scripts/timed.sh target/release/deps/life-0123456789abcdef
#   TEST_LIMIT=120 scripts/timed.sh cargo test --doc
#
# TEST_LIMIT is in seconds: 600 if not set. The tests are known by what Rust's test harness prints:
# from 60 seconds on it names each test that still runs. scripts/test.sh runs every test binary by
# this.
#
# Exit status: that of the command; 124 if it was ended.
set -euo pipefail

case "${1:---help}" in
    --help | -h)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
esac
limit=${TEST_LIMIT:-600}
log=$(mktemp "${TMPDIR:-/tmp}/seriatim-timed.XXXXXX")
trap 'rm -f "$log"' EXIT

# The whole group of the command is ended, its child processes included.
status=0
timeout --kill-after=10 "$limit" "$@" | tee "$log" || status=${PIPESTATUS[0]}
[ "$status" = 124 ] || [ "$status" = 137 ] || exit "$status"

# With one thread a name is printed when the test begins, with more when it has run for a minute.
running=$(awk '
    /^test .* has been running for over/ { running[$2] = 1; next }
    /^test [^ ]+ .*\.\.\. / { delete running[$2]; last = "" }
    /^test [^ ]+ .*\.\.\. $/ { last = $2 }
    END { for (name in running) print name; if (last != "" && !(last in running)) print last }' "$log")
if [ -z "$running" ] && [ -x "$1" ] && "$1" --list --format terse >"$log.list" 2>/dev/null; then
    sed -n 's/^test \([^ ]*\) .*\.\.\. .*/\1/p' "$log" | sort >"$log.ended"
    running=$(sed -n 's/: test$//p' "$log.list" | sort | comm -23 - "$log.ended")
    rm -f "$log.ended"
fi
rm -f "$log.list"
printf '\nTIME LIMIT: %s did not end within %s s. These tests were running, or had not begun:\n%s\n' \
    "$(basename "$1")" "$limit" "$(sed 's/^/    /' <<<"${running:-(it names no tests)}")" >&2
exit 124
