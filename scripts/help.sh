# To be sourced by scripts, first of all: with --help or -h among the arguments (before a --) prints
# the comment at the script's head, and exits.
for argument in "$@"; do
    case "$argument" in
        --) break ;;
        --help | -h) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" && exit 0 ;;
    esac
done
