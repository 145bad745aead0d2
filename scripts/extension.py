"""Build Essentials 7's operator both ways and try it on this GPU; each part in a process of its own, saved by itself.

    python scripts/extension.py --output results/local/extension.json

Needs a GPU, nvcc, ninja and a C++ compiler; about a minute and a half on two cores. A part that raises leaves what it
raised under its name, and the others run all the same.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SECONDS = 240  # for one part
DEVICE = "cuda"


def jit() -> dict[str, Any]:
    """Built when needed; what is not compiled yet is compiled now."""
    from lessons_src.examples import matmul_operator

    began = time.perf_counter()
    matmul_operator.build_now()
    import torch

    schema = str(torch.ops.matmul_ext.matmul.default._schema)
    return {"schema": schema, "build seconds": time.perf_counter() - began}


def ahead() -> dict[str, Any]:
    """Built ahead of time by setup.py, and imported by another process."""
    folder = Path(os.environ["TORCH_EXTENSIONS_DIR"])
    build = [sys.executable, "setup.py", "build_ext", "--build-lib", folder / "ahead", "--build-temp", folder / "temp"]
    where = ROOT / "lessons_src/examples/matmul_ext"
    done = subprocess.run(build, cwd=where, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-900:])
    built = next((folder / "ahead").glob("matmul_ext*.so"))
    script = (
        "import torch, matmul_ext\n"
        "a, b = torch.randn(130, 70, device='cuda'), torch.randn(70, 40, device='cuda')\n"
        "c = torch.ops.matmul_ext.matmul(a, b)\n"
        "print(float((c.double() - a.double() @ b.double()).abs().max()), torch.ops.matmul_ext.matmul.default._schema)"
    )
    path = os.pathsep.join([str(folder / "ahead"), os.environ.get("PYTHONPATH", "")])
    told = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    return {"file": built.name, "bytes": built.stat().st_size, "said": told.stdout.strip() or told.stderr[-400:]}


def graphs_of(call: Callable) -> int:
    """How many graphs torch.compile makes of relu, `call` and an addition."""
    import torch

    made = []

    def keep(graph, _examples):
        made.append(graph)
        return graph.forward

    torch._dynamo.reset()
    a, b = torch.randn(64, 32, device=DEVICE), torch.randn(32, 16, device=DEVICE)
    torch.compile(lambda a, b: call(torch.relu(a), b) + 1.0, backend=keep)(a, b)
    return len(made)


def without_a_fake() -> dict[str, Any]:
    """Graphs of the operator as the library registers it."""
    import torch

    jit()
    return {"graphs": graphs_of(torch.ops.matmul_ext.matmul)}


def with_a_fake() -> dict[str, Any]:
    """Graphs of the operator with its fake."""
    return {"graphs": graphs_of(registered())}


def registered() -> Callable:
    """The operator with fake and gradient, which were registered before anybody called it."""
    import torch

    from lessons_src.examples import matmul_operator

    jit()
    matmul_operator.register()
    return torch.ops.matmul_ext.matmul


def operands() -> tuple:
    """a, b and an upstream gradient, seeded."""
    import torch

    generator = torch.Generator(DEVICE).manual_seed(7)
    a = torch.randn(130, 70, device=DEVICE, generator=generator, requires_grad=True)
    b = torch.randn(70, 40, device=DEVICE, generator=generator, requires_grad=True)
    return a, b, torch.randn(130, 40, device=DEVICE, generator=generator)


def values() -> dict[str, float]:
    """Largest errors of the result and of both gradients, beside float64."""
    multiply = registered()
    a, b, upstream = operands()
    out = multiply(a, b)
    out.backward(upstream)
    exact = (a.double() @ b.double(), upstream.double() @ b.double().t(), a.double().t() @ upstream.double())
    names = ("forward", "grad a", "grad b")
    return {n: float((x.double() - y).abs().max()) for n, x, y in zip(names, (out, a.grad, b.grad), exact)}


def gradients(call: Callable) -> dict[str, Any]:
    """How far the gradients of the compiled call are from those of the eager one; None where there is none."""
    import torch

    a, b, upstream = operands()
    eager = torch.autograd.grad(call(a, b), (a, b), upstream)
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: call(a, b) * 1.0, backend="aot_eager")
    out = compiled(a, b)
    if not out.requires_grad:
        return {"compiled result": "records no gradient"}
    there = torch.autograd.grad(out, (a, b), upstream, allow_unused=True)
    return {
        name: None if new is None else float((new - old).abs().max())
        for name, old, new in zip(("grad a", "grad b"), eager, there)
    }


def opcheck(call: Callable) -> dict[str, str]:
    """The four tries of opcheck; one that fails leaves its sentence."""
    import torch

    a, b, _ = operands()
    given = (a.detach()[:64, :32].clone().requires_grad_(), b.detach()[:32, :16].clone().requires_grad_())
    found = torch.library.opcheck(call.default, given, raise_exception=False)
    return {name: str(verdict).partition(". ")[0] for name, verdict in found.items()}


def checked() -> dict[str, str]:
    """opcheck, of an operator that was registered before it was called."""
    return opcheck(registered())


def compiled() -> dict[str, Any]:
    """Gradients under torch.compile, of an operator that was registered before it was called."""
    return gradients(registered())


def late() -> dict[str, Any]:
    """The same operator, compiled once before its gradient is registered; then PyTorch's memory of it is cleared."""
    import torch

    from lessons_src.examples import matmul_operator

    jit()
    multiply = torch.ops.matmul_ext.matmul
    graphs_of(multiply)
    matmul_operator.register()
    found = {"opcheck": opcheck(multiply), "gradients": gradients(multiply)}
    multiply.default._dispatch_cache.clear()
    return {**found, "opcheck, memory cleared": opcheck(multiply), "gradients, memory cleared": gradients(multiply)}


def stream() -> dict[str, bool]:
    """Whether a product on a side stream waits for that stream, and is right."""
    import torch

    from lessons_src.examples.matmul_operator import keeps_to_its_stream

    multiply = registered()
    a, b = torch.randn(512, 512, device=DEVICE), torch.randn(512, 512, device=DEVICE)
    side = torch.cuda.Stream()
    multiply(a, b)  # a first launch loads the kernel, and waits for every stream while it does
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        out = multiply(a, b)
        event = torch.cuda.Event()
        event.record()
    torch.cuda.default_stream().synchronize()
    early = event.query()
    side.synchronize()
    error = float((out.double() - a.double() @ b.double()).abs().max())
    return {
        "done when the default stream was": early,
        "largest error": error,
        "keeps to its stream": keeps_to_its_stream(a, b),
    }


def wrong(name: str) -> dict[str, str]:
    """What the operator says to arguments that do not fit."""
    import torch

    multiply = registered()
    good = torch.randn(4, 5, device=DEVICE)
    pairs = {
        "inner sizes": (good, good),
        "dtypes": (good, good.double().t()),
        "devices": (good, torch.randn(5, 4)),
        "dimensions": (good, good[0]),
    }
    try:
        multiply(*pairs[name])
    except (RuntimeError, NotImplementedError) as error:
        return {"said": str(error).split("\n")[0][:200]}
    return {"said": "no complaint"}


BUILDS = {"ahead": ahead, "jit": jit}
PARTS = {
    "jit again": jit, "without a fake": without_a_fake, "with a fake": with_a_fake, "values": values,
    "opcheck": checked, "compiled": compiled, "late": late, "stream": stream,
}  # fmt: skip
WRONG = ("inner sizes", "dimensions", "dtypes", "devices")
PARTS |= {f"wrong {name}": functools.partial(wrong, name) for name in WRONG}


def run_apart(name: str) -> dict[str, Any]:
    """One part in a process of its own: what it found and its seconds, or what it raised."""
    began = time.perf_counter()
    try:
        command = [sys.executable, "-X", "faulthandler", __file__, "--part", name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            raise ValueError(f"status {done.returncode} after {done.stdout[-200:]!r}: {done.stderr[-500:]}")
        found = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        found = {"error": f"{type(error).__name__}: {str(error)[-700:]}"}
    return {name: found, f"{name} seconds": round(time.perf_counter() - began, 2)}


def raised(record: dict[str, Any]) -> list[str]:
    """The parts of a record that raised."""
    return [name for name in (*BUILDS, *PARTS) if set(record.get(name, ())) == {"error"}]


def main() -> int:
    """Run all parts, or one; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument("--part", choices=sorted({*BUILDS, *PARTS}), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        print(json.dumps({**BUILDS, **PARTS}[asked.part]()))
        return 0
    from kernels.bench.device import gpu_missing

    if asked.output is None:
        parser.error("name a file: --output results/local/extension.json")
    if missing := gpu_missing():
        print(f"{missing} The extension is tried on one.", file=sys.stderr)
        return 3
    import torch

    major, minor = torch.cuda.get_device_capability()
    os.environ.setdefault("TORCH_CUDA_ARCH_LIST", f"{major}.{minor}")
    os.environ.setdefault("MAX_JOBS", "2")
    record: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
        os.environ["TORCH_EXTENSIONS_DIR"] = folder
        for together in (BUILDS, PARTS):
            for found in pool.map(run_apart, together):
                record |= found
                asked.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if failed := raised(record):
        print(f"These parts raised: {', '.join(failed)}. What they said stands in {asked.output}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
