#!/usr/bin/env python3
"""Is a softmax faster because more rows are under way? `rows_under_way.py [--output FILE.json]`. Needs a GPU.

Each kernel of Lab 6 is launched several times over, and asks for shared memory that it never touches: so much that
three, two or one of its programs fit on a multiprocessor. Code, grid and result stay the same. Shared memory and the
L1 cache are one memory, and every limited arm leaves L1 equally little, so compare limited arms with one another.
`--plan` compiles the kernels without a GPU and says how many bytes each arm will ask for.
"""

import argparse
import copy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHAPE, DTYPE = (8192, 16384), "bfloat16"
KINDS = {"twice": ("_softmax_twice", 8), "hold": ("_softmax_rows", 32), "hold, 8 warps": ("_softmax_rows", 8)}


def shared_for(arch: int, rows: int) -> int:
    """Bytes of shared memory a program, with which `rows` fit on a multiprocessor and one more does not.

    Raises ValueError for fewer rows than one, or where the table of `kernels.inspect.occupancy` lacks `arch`.
    """
    from kernels.inspect.limits import shared_limit_bytes
    from kernels.inspect.occupancy import MULTIPROCESSORS, RESERVED_BYTES, SHARED_UNIT

    if rows < 1:
        raise ValueError(f"{rows} programs cannot be the limit of a multiprocessor; expected 1 or more.")
    if arch not in MULTIPROCESSORS:
        raise ValueError(f"The shared memory of sm_{arch} is not in the table of kernels/inspect/occupancy.py.")
    share = MULTIPROCESSORS[arch].shared_bytes // rows // SHARED_UNIT * SHARED_UNIT
    return min(share - RESERVED_BYTES, shared_limit_bytes(arch))


def with_shared(compiled, shared: int):
    """A copy of a compiled kernel that is launched with `shared` bytes in place of its own; ValueError for fewer."""
    from triton.compiler.compiler import make_backend

    if shared < compiled.metadata.shared:
        raise ValueError(f"{compiled.name} uses {compiled.metadata.shared} bytes of shared memory; {shared} are fewer.")
    other = copy.copy(compiled)
    other.metadata = compiled.metadata._replace(shared=shared)
    other.packed_metadata = make_backend(other.metadata.target).pack_metadata(other.metadata)
    other.module = other.function = other._run = None  # loaded anew at its first launch, with its own attribute
    return other


def arguments(name: str, x, out) -> tuple:
    """What the kernel is given, without its constants."""
    rows = (x.shape[0],) if name == "_softmax_rows" else ()
    return (x, out, *rows, x.shape[1], *x.stride(), out.stride(0))


def constants(name: str) -> dict[str, int]:
    return {"BLOCK_M": 1, "BLOCK_N": SHAPE[1]} if name == "_softmax_rows" else {"BLOCK_N": SHAPE[1]}


def arms(x):
    """The contenders on matrices like x, each with its choices: as launched, then with 1, 2, ... rows at most.

    Raises RuntimeError where the driver says that another number of programs would fit.
    """
    import ctypes

    import torch

    from kernels.bench.occupancy import Driver
    from kernels.ops import softmax
    from lessons_src.examples.timed_arms import Timed

    major, minor = torch.cuda.get_device_capability()
    driver, found = Driver(), []

    def fits(compiled) -> int:
        compiled[1, 1, 1]  # loads it
        return driver.blocks(
            ctypes.c_void_p(compiled.function), 32 * compiled.metadata.num_warps, compiled.metadata.shared
        )

    def arm(kind, name, compiled, limit):
        def call(each):
            out = torch.empty_like(each)
            compiled[each.shape[0], 1, 1](*arguments(name, each, out), *constants(name).values())
            return out

        at_most = f"{kind}, {limit} row{'s' * (limit > 1)}" if limit else f"{kind}, as launched"
        choices = {"kernel": kind, "warps": compiled.metadata.num_warps, "registers": compiled.n_regs}
        choices |= {"rows": fits(compiled), "limited": int(limit > 0), "shared_bytes": compiled.metadata.shared}
        if limit and choices["rows"] != limit:
            raise RuntimeError(f"The driver fits {choices['rows']} programs of {at_most}; {limit} were wanted.")
        found.append((Timed(at_most, f"kernels.ops.softmax:{name}", call), choices))

    for kind, (name, warps) in KINDS.items():
        kernel, out = getattr(softmax, name), torch.empty_like(x)
        plain = kernel[(x.shape[0],)](*arguments(name, x, out), **constants(name), num_warps=warps)
        arm(kind, name, plain, 0)
        for rows in range(fits(plain), 0, -1):
            arm(kind, name, with_shared(plain, shared_for(10 * major + minor, rows)), rows)
    return found


def records(device, samples):
    """Every arm, checked against float64 and timed. Yields kernel-bench records."""
    from kernels.ops.softmax import OP
    from lessons_src.examples import timed_arms

    tensors = OP.inputs(SHAPE, DTYPE, device.where, 1, 0)
    found = arms(*tensors)
    exact = OP.reference(*tensors)
    timed = timed_arms.records(device, OP, SHAPE, DTYPE, tensors, exact, [each for each, _ in found], samples)
    for record, (_, choices) in zip(timed, found, strict=True):
        record.config = choices
        yield record


def plan(arch: int) -> int:
    """Print, without a GPU, what the arms will ask for: registers by the compiler, programs by the calculator."""
    from kernels.inspect import TritonRequest, compile_triton_many
    from kernels.inspect.occupancy import occupancy

    m, n = SHAPE
    given = {"x_ptr": "*bf16", "out_ptr": "*bf16", "N": n, "x_stride_m": n, "x_stride_n": 1, "out_stride_m": n}
    wanted = [
        TritonRequest(
            f"kernels.ops.softmax:{name}",
            given | constants(name) | ({"M": m} if name == "_softmax_rows" else {}),
            arch,
            warps,
        )
        for name, warps in KINDS.values()
    ]
    for kind, fact, (_, warps) in zip(KINDS, compile_triton_many(wanted), KINDS.values(), strict=True):
        most = occupancy(arch, 32 * warps, fact.registers, fact.shared_bytes).blocks
        print(f"{kind}: {warps} warps, {fact.registers} registers, {fact.shared_bytes} bytes used: {most} rows")
        for rows in range(most, 0, -1):
            asked = shared_for(arch, rows)
            left = occupancy(arch, 32 * warps, fact.registers, asked).blocks
            print(f"    asks for {asked:>7,} bytes: {left} row{'s' * (left > 1)}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Time two softmax kernels with fewer rows under way.")
    parser.add_argument("--output", type=Path, default=Path("results/local/rows-under-way.json"), metavar="FILE.json")
    parser.add_argument("--iters", type=int, default=20, help="samples of each arm")
    parser.add_argument("--plan", action="store_true", help="print what each arm will ask for; needs no GPU")
    parser.add_argument("--arch", type=int, default=90, help="for --plan: 90 is an H200")
    chosen = parser.parse_args()
    if chosen.plan:
        return plan(chosen.arch)
    from lessons_src.examples.timed_arms import run

    return run(records, chosen.output, chosen.iters)


if __name__ == "__main__":
    sys.exit(main())
