"""What `nvcc -maxrregcount` makes of a source: the same limit for every kernel of a file, from the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from kernels.inspect.cuda import FLAGS, own_name
from kernels.inspect.facts import InspectionFailed, Resources, read_ptxas_log
from kernels.sources import project_root
from kernels.sources.processes import COMPILE_S, TooLong, answered


def with_register_limit(
    source: str, limit: int | None, arch: int = 90, replace: Mapping[str, str] | None = None
) -> dict[str, Resources]:
    """The resources of each kernel of a CUDA source, by its name, under a limit of registers a thread; None for none.

    Args:
        source: the file, relative to the project.
        limit: as for `-maxrregcount`. A kernel with `__launch_bounds__` does not obey it.
        arch: compute capability, such as 90.
        replace: texts to exchange first.

    Raises:
        ValueError: a text to replace does not occur, or the architecture is unknown.
        kernels.cuda.CompilerMissing: there is no usable nvcc.
        InspectionFailed: the source, or its variant, does not compile.
    """
    from kernels.cuda.building import sources_of, substitute
    from kernels.cuda.toolchain import compiler

    nvcc = compiler()
    nvcc.check_architecture(arch)
    sources = substitute(sources_of(project_root() / source), replace)
    with tempfile.TemporaryDirectory(prefix="limit_") as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = [
            str(nvcc.nvcc),
            *nvcc.flags,
            *FLAGS,
            f"-arch=sm_{arch}",
            "-cubin",
            "-Xptxas",
            "-v",
            "-o",
            "out.cubin",
        ]
        command += [] if limit is None else [f"-maxrregcount={limit}"]
        try:
            done = answered([*command, Path(source).name], COMPILE_S, cwd=folder)
        except TooLong as error:
            raise InspectionFailed(str(error)) from None
    if done.returncode != 0:
        raise InspectionFailed(f"nvcc {nvcc.version} could not compile {source} for sm_{arch}:\n{done.stderr}")
    return {own_name(name): used for name, used in read_ptxas_log(done.stderr).items()}
