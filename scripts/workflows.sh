#!/usr/bin/env bash
# Whether the workflows of the hosted CI (.github/workflows) are what the host takes: its schema,
# as check-jsonschema has it, a time limit for each job, and the rules of this repository: no action
# but actions/checkout@v4, no right but to read, no script that is not there.
#
#   scripts/workflows.sh            checks them: some seconds
#   scripts/workflows.sh --teeth    and shows that broken ones are refused
#
# Needs python3 with venv and, the first time, PyPI for check-jsonschema, of a pinned version. It
# starts no workflow: what a job does on its machine, only that machine can say.
#
# Exit status: 0 if all is well; 1 if not; 2 wrong arguments; 3 if check-jsonschema is not to be had,
# and the rules of this repository hold.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."

case "${1:-}" in
    "" | --teeth) ;;
    *)
        echo "workflows.sh: unknown argument $1; scripts/workflows.sh --help says more" >&2
        exit 2
        ;;
esac
checker=check-jsonschema==0.39.0
environment=${CARGO_TARGET_DIR:-target}/workflows-venv

# rules FILE: the rules of this repository. Says what is wrong.
rules() {
    local wrong=0 script
    if grep -nE '^ *(- )?uses:' "$1" | grep -vE 'uses: actions/checkout@v4$'; then
        echo "$1: an action other than actions/checkout@v4"
        wrong=1
    fi
    if [ "$(grep -A1 -E '^ *permissions:' "$1")" != $'permissions:\n  contents: read' ]; then
        echo "$1: rights other than to read"
        wrong=1
    fi
    for script in $(sed 's/#.*//' "$1" | grep -oE '(scripts|perf|\.ci)/[A-Za-z0-9_.-]+'); do
        [ -x "$script" ] || { echo "$1: there is no script $script"; wrong=1; }
    done
    return $wrong
}
# Made anew when the pinned version changes.
get_checker() {
    [ "$(cat "$environment/made-from" 2>/dev/null)" = "$checker" ] && return
    rm -rf "$environment"
    if python3 -m venv "$environment" && timeout 120 "$environment/bin/pip" install --quiet --disable-pip-version-check "$checker"; then
        echo "$checker" >"$environment/made-from"
    else
        rm -rf "$environment"
        return 1
    fi
}
schema() {
    "$environment/bin/check-jsonschema" --builtin-schema vendor.github-workflows "$1" &&
        "$environment/bin/check-jsonschema" --builtin-schema custom.github-workflows-require-timeout "$1"
}

for file in .github/workflows/*; do rules "$file"; done
get_checker || {
    echo "workflows.sh: skipped: $checker is not to be had (needs python3-venv and PyPI)" >&2
    exit 3
}
for file in .github/workflows/*; do schema "$file"; done
[ "${1:-}" = --teeth ] || exit 0

folder=$(mktemp -d "${TMPDIR:-/tmp}/seriatim-workflows.XXXXXX")
trap 'rm -rf "$folder"' EXIT
# refused CHECK WHAT SED-SCRIPT: a copy that is changed so is another one, and CHECK refuses it.
refused() {
    local copy=$folder/ci.yml
    sed "$3" .github/workflows/ci.yml >"$copy"
    if cmp -s "$copy" .github/workflows/ci.yml || "$1" "$copy" >"$folder/said" 2>&1; then
        echo "FAILED: not noticed: $2" >&2
        exit 1
    fi
    echo "noticed: $2"
}
refused schema "text that is not YAML" 's/^jobs:/jobs: [/'
refused schema "a key that the host does not know" 's/runs-on:/run-on:/'
refused schema "a step that does nothing" 's/- run: .ci\/run/- name: nothing/'
refused schema "a job without a time limit" '/timeout-minutes: 60/d'
refused rules "an action of somebody else" 's/actions\/checkout@v4/somebody\/checkout@v4/'
refused rules "an action of no version" 's/actions\/checkout@v4/actions\/checkout@main/'
refused rules "a right to write" 's/contents: read/contents: write/'
refused rules "a job with rights of its own" 's/^    name: macOS/    permissions: write-all/'
refused rules "a script that is not there" 's/scripts\/msrv.sh/scripts\/no.sh/'
