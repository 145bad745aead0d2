"""Asks the driver how many blocks fit on a multiprocessor, for every kernel of cuda/*.cu, and compares the calculator.

The driver's `cuOccupancyMaxActiveBlocksPerMultiprocessor` is what the runtime's `cudaOccupancyMaxActiveBlocksPer...`
calls. The kernels are compiled to machine code for this GPU and loaded without being launched.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.bench.essentials import Row, Topic
from kernels.inspect.facts import read_ptxas_log
from kernels.inspect.limits import shared_limit_bytes
from kernels.inspect.occupancy import occupancy
from kernels.sources import Sources, fingerprint, project_root
from kernels.sources.processes import COMPILE_S, answered

THREADS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
DYNAMIC_BYTES = (0, 8 << 10, 40 << 10, 100 << 10)
MAX_THREADS_PER_BLOCK, SHARED_SIZE_BYTES, NUM_REGS, MAX_DYNAMIC_SHARED = 0, 1, 4, 8  # CUfunction_attribute
_PLAIN = re.compile(r"_Z(?:N\d+_GLOBAL__N__\w+?)?(\d+)")


@dataclass(frozen=True)
class Asked:
    """One question to the driver about one kernel, with both answers."""

    threads: int
    dynamic_bytes: int
    driver: int
    ours: int


def sources_with_kernels() -> list[str]:
    """The .cu files below cuda/ that define kernels themselves, sorted."""
    root = project_root()
    texts = {path: (root / path).read_text(encoding="utf-8") for path in Sources().cuda_files()}
    return sorted(
        path for path, text in texts.items() if path.endswith(".cu") and path.count("/") == 1 and "__global__" in text
    )


def compile_cubin(source: str, arch: int, folder: Path) -> tuple[Path, list[str]]:
    """The machine code of one source, and the (mangled) names of its kernels.

    Raises:
        RuntimeError: nvcc refused it, and the message ends with its words; or it took too long.
    """
    from kernels.cuda.toolchain import compiler

    nvcc = compiler()
    target = folder / f"{Path(source).stem}.cubin"
    feature = "a" if arch >= 90 else ""  # wgmma and TMA exist in the architecture-specific target only
    command = [str(nvcc.nvcc), *nvcc.flags, "-std=c++17", "-O3", f"-arch=sm_{arch}{feature}", "-cubin", "-Xptxas", "-v"]
    command += ["-o", str(target), str(project_root() / source)]
    done = answered(command, COMPILE_S)
    if done.returncode != 0:
        raise RuntimeError(f"nvcc could not compile {source} for sm_{arch}{feature}:\n{done.stderr}")
    return target, list(read_ptxas_log(done.stderr))


class Driver:
    """The few functions of libcuda that are needed, on the context that PyTorch made."""

    def __init__(self) -> None:
        import torch

        torch.zeros(1, device="cuda")  # makes the context
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> None:
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name} failed: {(text.value or b'?').decode()} ({status}).")

    def load(self, cubin: Path) -> ctypes.c_void_p:
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin.read_bytes())
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def attribute(self, function: ctypes.c_void_p, which: int) -> int:
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), which, function)
        return value.value

    def blocks(self, function: ctypes.c_void_p, threads: int, dynamic_bytes: int) -> int:
        found = ctypes.c_int()
        self.call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(found),
            function,
            ctypes.c_int(threads),
            ctypes.c_size_t(dynamic_bytes),
        )
        return found.value


def ask(driver: Driver, function: ctypes.c_void_p, arch: int) -> tuple[int, int, list[Asked]]:
    """Registers, static shared bytes, and the answers for all block sizes and dynamic sizes that the kernel allows."""
    registers = driver.attribute(function, NUM_REGS)
    static = driver.attribute(function, SHARED_SIZE_BYTES)
    most = driver.attribute(function, MAX_THREADS_PER_BLOCK)
    found = []
    for dynamic in DYNAMIC_BYTES:
        if static + dynamic > shared_limit_bytes(arch):
            continue
        if static + dynamic > 48 << 10:  # or the driver says that no block fits
            driver.call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, ctypes.c_int(dynamic))
        for threads in (t for t in THREADS if t <= most):
            ours = occupancy(arch, threads, registers, static + dynamic).blocks
            found.append(Asked(threads, dynamic, driver.blocks(function, threads, dynamic), ours))
    return registers, static, found


def plain(mangled: str) -> str:
    """A function's own name in a mangled one."""
    match = _PLAIN.match(mangled)
    return mangled[match.end() : match.end() + int(match[1])] if match else mangled


def check_driver(device: Any) -> Topic:
    """A row a kernel: what it uses, how many questions were asked, and how many answers differ from ours."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    arch = 10 * major + minor
    driver, rows = Driver(), []
    with tempfile.TemporaryDirectory(prefix="occupancy_") as folder, ThreadPoolExecutor(8) as pool:
        sources = sources_with_kernels()
        for source, (cubin, names) in zip(
            sources, pool.map(lambda s: compile_cubin(s, arch, Path(folder)), sources), strict=True
        ):
            module = driver.load(cubin)
            for name in names:
                registers, static, found = ask(driver, driver.function(module, name), arch)
                wrong = [each for each in found if each.driver != each.ours]
                said = "; ".join(
                    f"{w.threads} threads, {w.dynamic_bytes} bytes: {w.driver}, not {w.ours}" for w in wrong[:3]
                )
                usual = next((each for each in found if each.threads == 256 and not each.dynamic_bytes), found[-1])
                rows.append(
                    Row(
                        name=plain(name),
                        settings={
                            "source": source,
                            "registers": registers,
                            "shared_bytes": static,
                            "threads": usual.threads,
                        },
                        values={"asked": len(found), "differ": len(wrong), "driver": usual.driver, "ours": usual.ours},
                        said=said,
                    )
                )
    return Topic(
        what="resident blocks by the driver and by the calculator, for every kernel of cuda/*.cu",
        hashes={"kernels.inspect.occupancy:occupancy": fingerprint("kernels.inspect.occupancy:occupancy")},
        rows=rows,
    )
