"""Whether Triton is interpreted in this test run.

Triton decides when it is first imported, so the decision stands here, before any test module is imported: interpreted
on a machine without an NVIDIA GPU, compiled on one that has it. Tests of the other kind skip, or start a process.
"""

import os
from pathlib import Path

if not Path("/dev/nvidiactl").exists() and not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
