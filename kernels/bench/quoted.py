"""Two figures that the Essentials meet as quotations, measured on a GPU.

`bins`: atomics in global memory against counting in shared memory first, by the number of bins. `slowdown`: the time of
a few kernels under each tool of compute-sanitizer, over their time without.

`python -m kernels.bench.quoted [--topic NAME] [--output FILE.json]` measures them, in about half a minute, and
`python -m kernels.bench.quoted --watched` is the program that the tools look at. The document is one of
`kernels.bench.essentials`, in a file of its own. A topic that the file has already, of the same GPU, stays.

Exit status: 0 measured, 1 a topic failed, 2 wrong usage, 3 there is no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.bench.essentials import Essentials, Found, Row, Topic, decode, run, write
from kernels.bench.results import RESULTS

FILE = "essentials-quoted.json"
COMMAND = f"python -m kernels.bench.quoted --output results/local/{FILE}"
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
BINS = (256, 1024, 4096, 12288, 1 << 16, 1 << 20, 1 << 24)
COUNTED = 1 << 26
LIMIT_S = 45  # of one tool; they start side by side and take turns on the GPU
SAMPLES = 3


def read_quoted(topic: str, gpu: str = "h200") -> Found | None:
    """One of the two topics as it was recorded on a GPU; None where it was not measured there, or failed."""
    path = RESULTS / gpu / "experiments" / FILE
    if not path.is_file():
        return None
    return decode(path.read_bytes(), path.name).found(topic)


def missing(topic: str, gpu: str = "H200") -> str:
    """The sentence for a page that has no record to show."""
    return f"Not measured yet on an {gpu}. This measures it: {COMMAND} --topic {topic}"


def bins(device: Any) -> Topic:
    """The plain and the two staged histograms on evenly spread numbers, with more and more bins.

    Raises:
        ValueError: a kernel counted wrong.
    """
    import torch

    from kernels.bench.essentials_kernels import timed
    from kernels.bench.essentials_probes import hashes, sm_mhz
    from kernels.cuda import histogram as counting

    names = ("histogram_plain", "histogram_shared", "histogram_replicated")
    generator = torch.Generator(device="cuda").manual_seed(8)
    rows = []
    for count in BINS:
        x = torch.randint(0, count, (COUNTED,), device="cuda", dtype=torch.int32, generator=generator)
        want = torch.bincount(x, minlength=count)
        chosen = [name for name in names if name == "histogram_plain" or count <= counting.MAX_SHARED_BINS]
        calls = {name: getattr(counting, name) for name in chosen}
        for name, call in calls.items():
            if not torch.equal(call(x, count), want):
                raise ValueError(f"{name} counted wrong with {count} bins")
        arms = [(name, {"bins": count}, lambda f=call, x=x, c=count: f(x, c)) for name, call in calls.items()]
        rows += timed(device, arms)
    return Topic(
        what="atomics in global memory, and in shared memory first, by the number of bins",
        hashes=hashes(*names, file="cuda/histogram.cu"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )


def launches() -> list[tuple[str, Callable[[], object]]]:
    """What is timed under the tools: each with one kind of access, or hardly any."""
    import torch

    from kernels.cuda import essentials

    copied = torch.ones(1 << 26, device="cuda")
    threads = torch.ones(1056 * 256, device="cuda")
    words = torch.ones(essentials.WALK_WORDS, device="cuda")
    summed = torch.ones(1 << 20, device="cuda")
    return [
        ("fma_chain", lambda: essentials.fma_chain(threads, 1056, 256, 4, 4096)),
        ("copy_float4", lambda: essentials.copy_float4(copied)),
        ("shared_walk", lambda: essentials.shared_walk(words, 1056, 1, 512)),
        ("block_sums_shared", lambda: essentials.block_sums(summed, "shared", 20)),
    ]


def watched() -> dict[str, float]:
    """The median µs of each launch in this process, its start by the host included."""
    import torch

    torch.cuda.init()
    with _turn():
        return {name: _median_us(call) for name, call in launches()}


def _median_us(call: Callable[[], object]) -> float:
    import torch

    taken = []
    for _ in range(1 + SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        call()
        end.record()
        end.synchronize()
        taken.append(1e3 * begin.elapsed_time(end))
    return sorted(taken[1:])[SAMPLES // 2]  # the first one loads the kernel


class _turn:
    """While this is held, no other process of the same run uses the GPU. The file comes from KERNELS_TURN."""

    def __enter__(self) -> None:
        self.file = None
        if path := os.environ.get("KERNELS_TURN"):
            import fcntl

            self.file = Path(path).open("a")
            fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *raised: object) -> None:
        if self.file:
            self.file.close()


def slowdown(device: Any) -> Topic:
    """A row a tool and kernel: the launch's time under the tool. The tool `none` is the program by itself.

    Raises:
        ProfileError: there is no compute-sanitizer, or a run of the program gave no times.
    """
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    from kernels.bench.essentials_probes import hashes
    from kernels.bench.profile_metrics import ProfileError
    from kernels.bench.profiling import tool

    sanitizer = tool("compute-sanitizer")
    if sanitizer is None:
        raise ProfileError("compute-sanitizer is not on this machine.")
    for _, call in launches():
        call()  # so that the kernels are compiled before a tool is there
    device.synchronize()
    with tempfile.TemporaryDirectory(prefix="turn_") as folder, ThreadPoolExecutor(1 + len(TOOLS)) as pool:
        environment = {**os.environ, "KERNELS_TURN": str(Path(folder) / "turn")}
        found = list(pool.map(lambda name: _rows(name, sanitizer, environment), ("none", *TOOLS)))
    return Topic(
        what="the same launches under the tools of compute-sanitizer",
        hashes=hashes("fma_chain")
        | hashes("copy_float4", file="cuda/strided.cu")
        | hashes("shared_walk", file="cuda/transposes.cu")
        | hashes("block_sums_shared", file="cuda/reductions.cu"),
        rows=[row for rows in found for row in rows],
    )


def _rows(name: str, sanitizer: Path, environment: dict[str, str]) -> list[Row]:
    from kernels.sources import project_root

    program = [sys.executable, "-m", "kernels.bench.quoted", "--watched"]
    command = program if name == "none" else [str(sanitizer), "--tool", name, *program]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            cwd=project_root(),
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [Row(name=name, settings={"status": -1}, said=f"not done after {LIMIT_S} s")]
    return rows_of(name, done.returncode, done.stdout, done.stderr)


def rows_of(name: str, status: int, text: str, errors: str = "") -> list[Row]:
    """What the program printed under a tool as rows: a line of times, among the tool's own."""
    times = next((json.loads(line) for line in text.splitlines() if line.startswith("{")), None)
    said = "; ".join(line.removeprefix("=========").strip() for line in text.splitlines() if "SUMMARY" in line)
    if not times:
        last = (errors.strip() or text.strip() or "nothing was printed").splitlines()[-1]
        return [Row(name=name, settings={"status": status}, said=f"no times: {last}")]
    return [
        Row(name=name, settings={"status": status, "kernel": kernel}, values={"us": us}, said=said)
        for kernel, us in times.items()
    ]


MEASURES: dict[str, Callable[[Any], Topic]] = {"bins": bins, "slowdown": slowdown}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure two figures that the Essentials quote.")
    parser.add_argument("--topic", action="append", choices=tuple(MEASURES), help="one topic (default: both)")
    parser.add_argument("--output", type=Path, default=RESULTS / "local" / FILE, metavar="FILE.json")
    parser.add_argument("--watched", action="store_true", help="only time the launches that the tools look at")
    chosen = parser.parse_args(arguments)

    from kernels.bench.device import CudaDevice, gpu_missing

    if absent := gpu_missing():
        print(f"{absent} These measurements need one.", file=sys.stderr)
        return 3
    if chosen.watched:
        print(json.dumps(watched()))
        return 0

    from kernels.bench import provenance
    from kernels.bench.results import ResultsError

    try:
        before = decode(chosen.output.read_bytes(), chosen.output.name) if chosen.output.is_file() else None
    except (OSError, ResultsError) as error:
        print(f"{error} Move it away, or name another --output.", file=sys.stderr)
        return 2
    device = CudaDevice()
    document = Essentials(provenance=provenance.provenance(device))
    if before:
        gpus = [before.provenance.gpu, document.provenance.gpu]
        if gpus[0] != gpus[1]:
            print(f"{chosen.output} was measured on {gpus[0]}, and this is {gpus[1]}.", file=sys.stderr)
            return 2
        document.keep(before)
    device.warm_clocks()

    def save(made: Essentials) -> None:
        made.clocks_after = provenance.clocks()
        write(chosen.output, made)

    wanted = {name: MEASURES[name] for name in MEASURES if not chosen.topic or name in chosen.topic}
    run(document, wanted, device, save, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"Written: {chosen.output}", file=sys.stderr)
    return 1 if any(topic.failed for topic in document.topics.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
