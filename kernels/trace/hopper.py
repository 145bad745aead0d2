"""The rungs on Hopper's own instructions as one source that the host build can run."""

from __future__ import annotations

import re
from pathlib import Path

from kernels.sources import project_root

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.M)


def hopper_on_cpu(folder: Path, root_file: str = "ladder_hopper.cu") -> Path:
    """Writes a file of cuda/ with all that it includes into one source in `folder`, and returns its path.

    In the place of cuda/hopper.cuh stands cuda/host/hopper.cuh, which does on a CPU what each instruction does to
    memory.
    A launcher of the result can be traced (`trace_cuda_launcher(..., source=path)`), with clusters of one block:
    replace "constexpr int kHopperCluster = 2;" by "... = 1;".
    """
    cuda = project_root() / "cuda"
    seen: set[str] = set()

    def text_of(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        path = cuda / "host" / name if name == "hopper.cuh" else cuda / name
        text = path.read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda match: text_of(match[1]), text)

    target = folder / f"{Path(root_file).stem}_on_cpu.cu"
    target.write_text(text_of(root_file), encoding="utf-8")
    return target
