"""Runs kernel paths one after the other, for a tool that watches the process, and says how far it is.

    python -m kernels.bench.sanitizer.worker TOOL PHASE TASKS PROGRESS

TASKS is a JSON file of [place in kernel_paths(), kernel or null]; PROGRESS takes a JSON object a line. PHASE is "warm"
(no tool: compiles, and notes what every kernel has), "clean", or "plant" (the named kernel of the path gets a fault).
Every Triton kernel runs under a name that tells its path, so that a tool's report does too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernels.bench.sanitizer import plants
from kernels.bench.sanitizer.paths import KernelPath, kernel_paths


def symbol(kernel: str, place: int) -> str:
    """The name under which a kernel of the path at that place runs."""
    return f"{kernel}__p{place}"


class Planted(Exception):
    """The kernel with the fault was launched; what the path would launch after it has no sense any more."""


class Launches:
    """Stands between the launchers and Triton: renames, plants, and notes what was launched."""

    def __init__(self, tool: str, phase: str) -> None:
        from triton import knobs
        from triton.runtime.jit import JITFunction

        self.tool, self.phase = tool, phase
        self.place, self.target = -1, None
        self.noted: dict[str, dict[str, Any]] = {}
        self.kept: list[Any] = []  # planted memory must outlive the launch
        self._hashes: dict[int, str] = {}  # by id: Triton's functions are hashed by this very text
        self._now = ""
        self._run = JITFunction.run
        launches = self
        JITFunction.run = lambda function, *arguments, **keywords: launches.run(function, arguments, keywords)
        knobs.runtime.add_stages_inspection_hook = self.stages

    def begin(self, place: int, target: str | None) -> None:
        """From here on launches belong to that path, and faults go into the kernel named `target`."""
        from kernels.ops import library, matmul_launch, softmax

        self.place, self.target = place, target
        self.noted.clear()
        self.kept.clear()
        for prepared in (library._ready, matmul_launch._ready, softmax._ready):
            prepared.clear()  # a prepared launch goes past Triton, and past us

    def run(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        name = function.fn.__name__
        planted = self.phase == "plant" and name == self.target
        if planted and self.tool not in plants.PTX_TOOLS:
            arguments = plants.planted_argument(self.tool, arguments)
            self.kept.append(arguments)
        # Triton's cache on disk goes by this hash; a renamed or planted kernel must not be taken for another one.
        own = self._hashes.setdefault(id(function), function.cache_key)
        fault = self.tool if planted and self.tool in plants.PTX_TOOLS else ""
        function.hash = f"{own}-{symbol(name, self.place)}-{fault}"
        function.device_caches.clear()
        self._now = fault
        compiled = self._run(function, *arguments, **keywords)
        entry = {"symbol": symbol(name, self.place)}
        if compiled is not None:
            entry["sees"] = dataclasses.asdict(plants.sees(compiled.asm["ptx"]))
        self.noted.setdefault(name, entry)
        if planted:
            raise Planted
        return compiled

    def stages(self, _backend: Any, stages: dict, _options: Any, _language: Any, _capability: Any) -> None:
        """Triton's hook: what comes out of the PTX stage is renamed, and planted where it is the target's."""
        make = stages["ptx"]

        def ptx(source: Any, metadata: dict) -> str:
            text = make(source, metadata)
            name, metadata["name"] = metadata["name"], symbol(metadata["name"], self.place)
            text = plants.renamed(text, name, metadata["name"])
            return plants.planted_ptx(self._now, text) if self._now else text

        stages["ptx"] = ptx


def _broken_libraries(tool: str) -> None:
    """Loads the CUDA functions from libraries with the tool's fault at every barrier, or plants their first tensor."""
    import ctypes

    from kernels.bench.sanitizer.libraries import build_planted
    from kernels.cuda import call, dequantize, essentials, fused, grid_sum, histogram, ladder, matmul, patterns

    if tool in plants.PTX_TOOLS:

        @lru_cache
        def library() -> Any:
            loaded = ctypes.CDLL(str(build_planted("library.cu", tool)))
            loaded.kernels_error_string.argtypes = (ctypes.c_int,)
            loaded.kernels_error_string.restype = ctypes.c_char_p
            return loaded

        @lru_cache
        def ladder_library(root_file: str = ladder.LADDER) -> Any:
            return ctypes.CDLL(str(build_planted(root_file, tool)))

        call.library = histogram.library = library
        ladder.ladder_library = ladder_library
        return
    launch, count, run = call._launch, histogram._launch, ladder.run_launcher

    def planted(launcher: str, tensors: tuple, extents: tuple) -> None:
        kept.append(plants.planted_argument(tool, tensors))
        launch(launcher, kept[-1], extents)

    def planted_count(launcher: str, x: Any, out: Any) -> None:
        kept.append(plants.planted_tensor(tool, x))
        count(launcher, kept[-1], out)

    def planted_run(root_file: str, launcher: str, tensors: tuple, numbers: tuple) -> None:
        kept.append(plants.planted_argument(tool, tensors))
        run(root_file, launcher, kept[-1], numbers)

    kept: list[Any] = []
    call._launch = patterns._launch = planted
    histogram._launch = planted_count
    for module in (dequantize, essentials, fused, grid_sum, matmul):
        module.run_launcher = planted_run


@lru_cache
def _machine_code(source: str) -> dict[str, list[str]]:
    """The instructions of each kernel of a CUDA source on this GPU, all instances of a template together."""
    import tempfile

    import torch

    from kernels.bench.occupancy import compile_cubin, plain
    from kernels.inspect.disassembler import disassemble
    from kernels.inspect.facts import opcodes

    major, minor = torch.cuda.get_device_capability()
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cubin, _ = compile_cubin(source, 10 * major + minor, Path(folder))
        for mangled, sass in disassemble(cubin).items():
            found.setdefault(plain(mangled), []).extend(opcodes(sass))
    return found


def _cuda_facts(path: KernelPath) -> dict[str, Any]:
    """What the CUDA kernel's machine code has."""
    code = _machine_code(path.source.partition(":")[0])[path.cuda]
    return {"symbol": path.cuda, "sees": dataclasses.asdict(plants.sees_in_sass(code))}


def _on_gpu(tensor: Any) -> Any:
    """A copy in an allocation of its own, with gaps where the original has them, that ends with its last element."""
    import torch

    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")
    return made.copy_(tensor)


def main(tool: str, phase: str, tasks_file: str, progress_file: str) -> int:
    """Run the tasks of the file. 0 at the end, 7 where the context is lost and the rest cannot run."""
    with Path(progress_file).open("a", encoding="utf-8") as progress:

        def say(**words: Any) -> None:
            progress.write(json.dumps(words) + "\n")
            progress.flush()

        say(pid=os.getpid())
        import torch

        torch.cuda.init()
        paths, launches = kernel_paths(), Launches(tool, phase)
        tasks = json.loads(Path(tasks_file).read_text(encoding="utf-8"))
        if phase == "plant" and any(paths[place].cuda for place, _ in tasks):
            _broken_libraries(tool)
        for place, kernel in tasks:
            path = paths[place]
            say(begin=[place, kernel])
            launches.begin(place, kernel)
            error = None
            try:
                with contextlib.suppress(Planted):
                    path.call(*map(_on_gpu, path.inputs()))
                torch.cuda.synchronize()
                if path.cuda:
                    launches.noted[path.cuda] = _cuda_facts(path) if phase == "warm" else {"symbol": path.cuda}
            except Exception as problem:
                first = (str(problem).strip().splitlines() or ["no message"])[0]
                error = f"{type(problem).__name__}: {first}"
            say(done=[place, kernel], launched=launches.noted, error=error)
            try:
                torch.zeros(1, device="cuda").item()
            except Exception:
                say(lost=[place, kernel])
                return 7
        say(end=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
