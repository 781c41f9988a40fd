#!/usr/bin/env bash
# Runs live tests: ranks, daemons and networks beside one another on the same processors.
#
# A test that fails there is tried once more, alone: what fails again is broken. What passes alone was disturbed by its
# neighbours, is named, and does not fail the run. More than MOST_DISTURBED at once are no neighbour's doing.
set -euo pipefail
cd "$(dirname "$0")/.."

MOST_DISTURBED=5
pytest=(.venv/bin/python -m pytest "$@")

code=0
"${pytest[@]}" || code=$?
# 1: tests have failed. Anything else is an interrupted run, or one that could not begin.
[ "$code" -eq 1 ] || exit "$code"

failed=$(.venv/bin/python -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")')
if [ "$(wc -l <<<"$failed")" -gt "$MOST_DISTURBED" ]; then
    exit "$code"
fi
printf '\033[1mOnce more, alone: what has failed beside other tests\033[0m\n%s\n' "$failed"
"${pytest[@]}" --last-failed --last-failed-no-failures none -n 0
printf '\033[1mDisturbed by other tests, passed alone:\033[0m\n%s\n' "$failed"
