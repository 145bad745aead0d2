"""A GPU played by the host: its traces written as the recorder would write them. Used by the tests of this folder."""

import re
from pathlib import Path

import numpy as np

from kernels.sources import Sources
from kernels.trace import gpu_record
from kernels.trace.gpu_log import ACCESS, HEADER, read_log, to_case, to_trace
from kernels.trace.gpu_record import Origin, Record
from kernels.trace.ground_truth import accesses, host_trace, recorded

ROOT = Path(__file__).parents[2]
SMALL = {"rows": 7, "columns": 33, "x_stride": 40, "out_stride": 36}
NOBODY = Origin(gpu="none", driver="", compiler="", flags="", tool="", commit=None, dirty=None, command="", utc="")


def launchers():
    """Every kernel with a launcher, and its file."""
    files = Sources().cuda_files()
    return {
        name.removeprefix("launch_"): path
        for path in ("cuda/kernels.cu", "cuda/patterns.cu")
        for name, symbol in files[path].symbols.items()
        if symbol.exported
    }


def written_shapes():
    """The shapes that the test programs name, for each family of kernels, read from their sources."""
    test = (ROOT / "cuda" / "portfolio_test.cuh").read_text()
    driver = (ROOT / "cuda" / "gpu_trace" / "driver.cu").read_text()
    softmax = [tuple(map(int, found)) for found in re.findall(r"\{(\d+), (\d+), (\d+), (\d+), Scores::", test)]
    block = driver.partition("kPatternShapes[] = {")[2].partition("};")[0]
    pattern = [tuple(map(int, found)) for found in re.findall(r"\{(\d+), (\d+), (\d+)\}", block)]
    return softmax, pattern


def shapes_of(kernel):
    softmax, pattern = written_shapes()
    if kernel == "vector_add":
        return [{"n": n} for n in (1, 257, 1000003)]
    names = ("rows", "columns", "x_stride", "out_stride")
    if kernel.startswith("softmax"):
        return [dict(zip(names, shape, strict=True)) for shape in softmax]
    wide = kernel.startswith("transpose")
    return [dict(zip(names, (r, c, c + p, (r if wide else c) + p), strict=True)) for r, c, p in pattern]


# ---- a file such as the recorder writes, made from a host trace ------------------------------------------------------


def log_of(trace, path, *, end=True, asked=0, reserved=1024, change=None):
    """The trace's accesses as the recorder would have written them; `change` edits the rows. Returns the buffers."""
    launch, column = trace.launches[0], trace.columns
    places = {b.name: (0x7F0000000000 + 0x1000000 * i) for i, b in enumerate(trace.buffers)}
    rows = np.zeros(len(trace), ACCESS)
    numbers = column["block"].astype(np.int64)
    rows["block_x"], rows["block"][:, 0] = numbers % launch.grid[0], numbers // launch.grid[0] % launch.grid[1]
    rows["thread"][:, 0], rows["thread"][:, 1] = (
        column["thread"] % launch.block[0],
        column["thread"] // launch.block[0],
    )
    shared = np.array([b.space == "shared" for b in trace.buffers])[column["buffer"]]
    items = np.array([b.itemsize for b in trace.buffers])[column["buffer"]]
    bases = np.array([reserved if b.space == "shared" else places[b.name] for b in trace.buffers])[column["buffer"]]
    rows["address"] = bases + column["element"] * items
    rows["size"], rows["what"] = column["size"], column["what"] + 16 * shared
    rows["pc"] = 0x100 + 16 * column["site"].astype(np.uint64)
    rows = rows if change is None else change(rows)
    header = np.zeros(1, HEADER)
    header["magic"], header["grid"], header["block"] = b"KLAUNCH1", launch.grid, launch.block
    header["recorded"], header["asked"], header["access_bytes"] = len(rows), asked or len(rows), ACCESS.itemsize
    header["name_bytes"] = len(launch.kernel)
    path.write_bytes(header.tobytes() + launch.kernel.encode() + rows.tobytes() + (b"KLEND..1" if end else b""))
    return {b.name: {"address": places[b.name], "bytes": b.extent * 4} for b in trace.buffers if b.space == "global"}


def through_a_file(kernel, shape, path, **more):
    """Host accesses, and the same after a way through the recorder's file, a record and its text."""
    source = launchers()[kernel]
    trace = host_trace(source, kernel, shape)
    buffers = log_of(trace, path / "log.bin", **more)
    (launch,) = read_log(path / "log.bin")
    case = to_case(launch, to_trace(launch, buffers, 1024), shape, buffers)
    made = Record(kernel=kernel, source=source, source_hash="", origin=NOBODY, cases=[case])
    gpu_record.write(made, path / f"{kernel}.json")
    back = gpu_record.read(path / f"{kernel}.json")
    assert back == made
    return accesses(trace), recorded(back.cases[0])
