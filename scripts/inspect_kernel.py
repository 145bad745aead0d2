#!/usr/bin/env python3
"""What an operator launches and what the compiler makes of it: `inspect_kernel.py --op OP [--shape 4096x1024]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.inspect.command import app

if __name__ == "__main__":
    app(prog_name="inspect_kernel.py")
