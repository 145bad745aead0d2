#!/usr/bin/env bash
# Make .venv and install the project with its pinned toolchain. Usage: scripts/install.sh [cuda|cpu]
set -euo pipefail
cd "$(dirname "$0")/.."
torch="${1:-cuda}"
python="${PYTHON:-python3}"

"$python" - <<'CHECK' || exit 2
import sys
if sys.version_info < (3, 11):
    sys.exit(f"This Python is {sys.version.split()[0]}; the project needs 3.11 or newer. Set PYTHON=python3.12, say.")
CHECK
if [ ! -x .venv/bin/python ]; then
  echo "Making .venv with $("$python" --version)"
  "$python" -m venv .venv || {
    echo "Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2
    exit 2
  }
fi
if [ "$torch" = cuda ]; then
  echo "Installing the pinned toolchain: about 6 GB with torch's CUDA libraries, a few minutes (TORCH=cpu: about 2.5 GB)"
else
  echo "Installing the pinned toolchain with a CPU build of torch: about 2.5 GB"
fi
log="$(mktemp)"
tell() { # a line now and then, for as long as pip works: what it has said last
  local seconds=0 found
  while sleep "${INSTALL_TELL_S:-20}"; do
    seconds=$((seconds + ${INSTALL_TELL_S:-20}))
    found="$(grep -c '^Collecting' "$log" || true) packages"
    if grep -q '^Installing collected' "$log"; then # pip says nothing more until all are there
      echo "  $seconds s: installing $found"
    else
      echo "  $seconds s: $found looked up; $(tail -n 1 "$log" | cut -c 1-90)"
    fi
  done
}
tell &
teller=$!
trap 'kill "$teller" 2>/dev/null || true; rm -f "$log"' EXIT
if ! .venv/bin/python -m pip install --disable-pip-version-check --progress-bar "${PIP_PROGRESS:-off}" \
  --constraint constraints/site.txt --constraint "constraints/torch-$torch.txt" \
  --editable ".[site,triton,cuda,test]" >"$log"; then
  tail -n 20 "$log" >&2
  exit 1
fi
kill "$teller" 2>/dev/null || true
rm -f .venv/.installed-*
touch ".venv/.installed-$torch"
echo "Installed: $(.venv/bin/python -c 'import importlib.metadata as m; print(", ".join(f"{n} {m.version(n)}" for n in ("torch", "triton", "mkdocs", "mkdocs-material")))')"
