#!/usr/bin/env bash
# Test the operators on the pinned Triton of .venv and on the newest one of constraints/newest.txt, in .venv-newest.
#
#   scripts/test_newest_triton.sh [pytest options]
#   PYTHON=python3.12 scripts/test_newest_triton.sh
#
# Exits with a status other than 0 when either run fails.
set -euo pipefail
cd "$(dirname "$0")/.."

pinned=.venv/bin/python
newest=.venv-newest/bin/python
wanted=constraints/newest.txt

if [ ! -x "$pinned" ]; then
  echo "There is no .venv yet; run 'make test' or 'make site' once, which create it." >&2
  exit 2
fi

if ! cmp -s "$wanted" .venv-newest/installed.txt; then
  echo "Installing $wanted into .venv-newest"
  rm -rf .venv-newest
  "${PYTHON:-python3}" -m venv .venv-newest
  grep -v '^triton==' "$wanted" >.venv-newest/first.txt
  "$newest" -m pip install --quiet -r .venv-newest/first.txt hypothesis pytest pytest-timeout pytest-xdist
  # Apart, because torch asks for the one Triton it was released with.
  "$newest" -m pip install --quiet --no-deps "$(grep '^triton==' "$wanted")"
  cp "$wanted" .venv-newest/installed.txt
fi

status=0
for python in "$pinned" "$newest"; do
  "$python" -c 'import sys, torch, triton; print(f"Triton {triton.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}")'
  PYTHONPATH="$PWD" "$python" -m pytest tests/ops -q "$@" || status=1
done
exit $status
