#!/usr/bin/env bash
# Shows that the models find bugs: runs every mutant of mutants/list.txt under the model that
# is to find it, and prints what was found and how fast; then, if scripts/loom.sh has run before,
# the table of all models with the mutants that each one finds.
#
#   scripts/mutants.sh                    all of them: some ten minutes
#   scripts/mutants.sh --slice 1/3        a third of the files that find them, the second; models
#                                         that scripts/loom.sh has explored are not explored again
#   scripts/mutants.sh --slice 1/3 --within 600
#                                         the same; 600 seconds after the build no more is begun
#   scripts/mutants.sh recycled-at-once   some of them
#   scripts/mutants.sh --check            only whether all patches apply, and are those of the list
#   scripts/mutants.sh --tree             puts the source with the mutants in it into
#                                         target/mutants/tree, to look at or to change
#   scripts/mutants.sh --record           makes the patches of mutants/ anew from that
#
# The exit status is 1 if a mutant survives, if a patch does not apply, if a mutant is in a patch
# and not in the list or the other way round, or if a model fails without one.
set -euo pipefail
source "$(dirname "$0")/help.sh"
cd "$(dirname "$0")/.."
exec python3 scripts/mutants.py "$@"
