"""The libraries of cuda/*.cu for the sanitizers: as they are, and with a tool's fault in every kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from kernels.bench.sanitizer.plants import CUDA_ROOTS, PTX_TOOLS, cuda_replacements


def build_planted(root_file: str, tool: str | None = None) -> Path:
    """Builds one library, with the fault of a tool of PTX_TOOLS or, without one, as it is; returns its path in build/.

    Raises:
        CompilerMissing, ValueError, BuildFailed: as `kernels.cuda.build` does.
    """
    from kernels.cuda.building import build, sources_of
    from kernels.cuda.ladder import build_ladder
    from kernels.sources import project_root

    replace = cuda_replacements(tool, root_file, sources_of(project_root() / "cuda" / root_file)) if tool else None
    return build(replace=replace) if root_file == "library.cu" else build_ladder(root_file, replace)


def build_all(say: Callable[[str], None]) -> None:
    """Builds all of them side by side; says which one could not be built."""

    def make(root_file: str, tool: str | None) -> None:
        try:
            build_planted(root_file, tool)
        except Exception as error:  # the paths that need it say so themselves
            say(f"A CUDA library was not built: {str(error).splitlines()[0]}")

    builders = [threading.Thread(target=make, args=(root, tool)) for tool in (None, *PTX_TOOLS) for root in CUDA_ROOTS]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
