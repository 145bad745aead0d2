"""Whether this machine can run the checks of an exercise."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path


def lacking(needs: str) -> str:
    """A sentence that says what is missing for "cpu", "triton" or "gpu" and what to run; "" where nothing is.

    `LESSONS_WITHOUT=triton,gpu` hides abilities, to see what others would see.
    """
    hidden = [name.strip() for name in os.environ.get("LESSONS_WITHOUT", "").split(",")]
    wanted = {"cpu": (), "triton": ("triton",), "gpu": ("triton", "gpu")}[needs]
    for need in wanted:
        if need in hidden:
            return f"{need} is hidden by LESSONS_WITHOUT={os.environ['LESSONS_WITHOUT']}; run without that variable."
    if needs == "cpu":
        return ""
    for name in ("numpy", "torch", "triton"):
        if importlib.util.find_spec(name) is None:
            if name == "triton" and not sys.platform.startswith("linux"):
                system = platform.system()
                return f"Triton is not installed, and has no wheels for {system}; run this in Linux (WSL has it)."
            return f'{name} is not installed; run: make install, or: python -m pip install -e ".[triton]"'
    devices = ("/dev/nvidia0", "/dev/dxg", "/dev/nvidiactl")
    if needs == "gpu" and os.name != "nt" and not any(Path(path).exists() for path in devices):
        return "this machine has no NVIDIA GPU (no /dev/nvidia0); run this on one that has."
    return ""
