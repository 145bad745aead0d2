"""The text of a Triton kernel after each stage of the compiler, in a process of its own: requests on stdin, as JSON."""

from __future__ import annotations

import sys
from typing import Any

from kernels.inspect.launches import STAGES
from kernels.inspect.triton_worker import answer_requests, compile_request


def _stages(request: dict[str, Any]) -> dict[str, str]:
    compiled = compile_request(request)
    return {stage: compiled.asm[stage] for stage in STAGES if stage in compiled.asm}


if __name__ == "__main__":
    sys.exit(answer_requests(_stages))
