"""The Essentials' pairs of kernels, good and bad, timed against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernels.bench.essentials import Row, Topic
from kernels.bench.essentials_probes import hashes, sm_mhz
from kernels.bench.rates import median, spread
from kernels.bench.timer import Arm, measure

SAMPLES = 9
SQUARE = 8192  # rows and columns of the matrices


def timed(device: Any, arms: Sequence[tuple[str, dict, Callable[[], object]]], samples: int = SAMPLES) -> list[Row]:
    """A row an arm, with its median and spread in µs. The arms take turns; their data are larger than the L2 cache, or
    stay where they are."""
    found = measure(device, [Arm(name, call) for name, _, call in arms], [()], samples=samples, warm_up_us=5_000.0)
    return [
        Row(name=name, settings=settings, values={"us": median(each.samples_us), "spread_us": spread(each.samples_us)})
        for (name, settings, _), each in zip(arms, found, strict=True)
    ]


def copies(device: Any) -> Topic:
    """One element a thread, its neighbours' elements nearer or farther; and 16 bytes a thread."""
    import torch

    from kernels.cuda import essentials, patterns

    n = 1 << 25
    x = torch.ones(64 * n, device="cuda")
    short = x[: n + 4].contiguous()
    square = x[: SQUARE * SQUARE].view(SQUARE, SQUARE)
    arms = [
        (f"stride {stride}", {"stride": stride, "first": 0}, lambda s=stride: essentials.copy_strided(x, n, s))
        for stride in (1, 2, 4, 8, 16, 32, 64)
    ]
    arms += [
        ("one element off", {"stride": 1, "first": 1}, lambda: essentials.copy_strided(short, n, 1, 1)),
        ("float4", {"stride": 1, "bytes_an_access": 16}, lambda: essentials.copy_float4(short[:n])),
        ("torch.clone", {"stride": 1}, lambda: short[:n].clone()),
    ]
    rows = timed(device, arms)
    for row in rows:
        row.settings["elements"] = n
        row.values["gb_per_s"] = 8 * n / row.values["us"] / 1e3
    walks = [(f.__name__, {}, lambda f=f: f(square)) for f in (patterns.copy_rows, patterns.copy_columns)]
    for row in timed(device, walks):
        row.settings["elements"] = SQUARE * SQUARE
        row.values["gb_per_s"] = 8 * SQUARE * SQUARE / row.values["us"] / 1e3
        rows.append(row)
    return Topic(
        what="copies whose lanes read neighbours, or not",
        hashes=hashes("copy_strided", "copy_float4", file="cuda/strided.cu")
        | hashes("copy_rows", "copy_columns", file="cuda/patterns.cu"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )


def transposes(device: Any) -> Topic:
    """Five transposes of a square matrix beside a copy of it, and a walk through shared memory alone."""
    import torch

    from kernels.cuda import essentials, patterns

    x = torch.randn(SQUARE, SQUARE, device="cuda")
    want = x.T.contiguous()
    calls = {
        "copy_rows": patterns.copy_rows,
        "transpose_direct": essentials.transpose_direct,
        "transpose_tile_32": patterns.transpose_tile_32,
        "transpose_tile_33": patterns.transpose_tile_33,
        "transpose_swizzled": essentials.transpose_swizzled,
        "torch": lambda matrix: matrix.T.contiguous(),
    }
    for name, call in calls.items():
        if not torch.equal(call(x), x if name == "copy_rows" else want):
            raise ValueError(f"{name} gave a wrong matrix")
    rows = timed(device, [(name, {"kind": "matrix"}, lambda f=call: f(x)) for name, call in calls.items()])
    for row in rows:
        row.values["gb_per_s"] = 2 * x.nbytes / row.values["us"] / 1e3
    words = torch.ones(essentials.WALK_WORDS, device="cuda")
    blocks, rounds = 8 * device.sm_count, 4096
    arms = [
        (
            f"words {stride} apart",
            {"kind": "walk", "stride": stride},
            lambda s=stride: essentials.shared_walk(words, blocks, s, rounds),
        )
        for stride in (1, 2, 4, 8, 16, 32, 33)
    ]
    for row in timed(device, arms, samples=5):
        row.values["gb_per_s"] = blocks * 256 * rounds * 4 / row.values["us"] / 1e3
        rows.append(row)
    return Topic(
        what="transposes, and reads of shared memory whose lanes meet in a bank",
        hashes=hashes("transpose_direct", "transpose_swizzled", "shared_walk", file="cuda/transposes.cu")
        | hashes("transpose_tile_32", "transpose_tile_33", "copy_rows", file="cuda/patterns.cu"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )


def reductions(device: Any) -> Topic:
    """A block's sum, by shuffles, through shared memory and by atomics, many times over on a full GPU."""
    import torch

    from kernels.cuda import essentials

    rows = []
    for blocks_each, rounds in ((1, 2000), (8, 1000)):
        blocks = blocks_each * device.sm_count
        x = torch.ones(blocks * 256, device="cuda")
        arms = [
            (
                way,
                {"way": way, "blocks_a_multiprocessor": blocks_each},
                lambda x=x, w=way, r=rounds: essentials.block_sums(x, w, r),
            )
            for way in ("shuffle", "shared", "atomic")
        ]
        for row in timed(device, arms, samples=5):
            row.values["ns_a_sum"] = row.values["us"] * 1e3 / rounds
            rows.append(row)
    return Topic(
        what="sums over 256 threads",
        hashes=hashes("block_sums_shuffle", "block_sums_shared", "block_sums_atomic", file="cuda/reductions.cu"),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )


def divergence(device: Any) -> Topic:
    """One kernel, one launch, several layouts of the data that it branches on."""
    import torch

    from kernels.cuda import essentials

    n, steps = 1 << 22, 1024
    x, lane = torch.ones(n, device="cuda"), torch.arange(n, device="cuda", dtype=torch.int32)
    torch.manual_seed(6)
    mixed = torch.randint(0, 2, (n,), device="cuda", dtype=torch.int32)
    kinds = {
        "all one kind": torch.zeros_like(lane),
        "one kind a warp": lane // 32 % 2,
        "half of each warp": lane % 32 // 16,
        "every other lane": lane % 2,
        "one lane in 32": (lane % 32 == 0).int(),
        "at random": mixed,
        "at random, sorted": torch.sort(mixed).values.contiguous(),
    }
    arms = [(name, {}, lambda k=kind: essentials.two_paths(x, k, steps)) for name, kind in kinds.items()]
    return Topic(
        what=f"two chains of {steps} operations; which one a lane takes is in the data",
        hashes=hashes("two_paths", file="cuda/divergence.cu"),
        rows=timed(device, arms, samples=5),
        sm_mhz=sm_mhz(device),
    )


def residency(device: Any) -> Topic:
    """A copy with 1 to 8 resident blocks a multiprocessor; kernels that were told to leave room; 48 KiB and more."""
    import torch

    from kernels.cuda import essentials
    from kernels.inspect.limits import shared_limit_bytes
    from kernels.inspect.occupancy import MULTIPROCESSORS, RESERVED_BYTES

    arch = 90
    has = MULTIPROCESSORS[arch].shared_bytes
    x = torch.ones(1 << 27, device="cuda")
    limit, refusals = shared_limit_bytes(arch), []  # first: a limit that was raised once stays raised
    for shared, allow in (
        (48 << 10, False),
        ((48 << 10) + 1, False),
        ((48 << 10) + 1, True),
        (limit, True),
        (limit + 1, True),
    ):
        said = "launched"
        try:
            essentials.copy_resident(x[:1024].contiguous(), 1, 256, shared, 1, allow)
            device.synchronize()
        except RuntimeError as error:
            said = str(error)
        refusals.append(
            Row(
                name=f"{shared} bytes",
                settings={"kind": "launch", "shared_bytes": shared, "allow": int(allow)},
                said=said,
            )
        )
    arms = []
    for resident in (1, 2, 3, 4, 6, 8):
        ballast = min(has // resident - RESERVED_BYTES, shared_limit_bytes(arch)) // 128 * 128
        for loads in (1, 4):
            blocks = resident * device.sm_count
            arms.append(
                (
                    f"{resident} blocks, {loads} loads a thread",
                    {
                        "kind": "copy",
                        "blocks_a_multiprocessor": resident,
                        "warps": 8 * resident,
                        "loads": loads,
                        "shared_bytes": ballast,
                    },
                    lambda b=blocks, s=ballast, k=loads: essentials.copy_resident(x, b, 256, s, k),
                )
            )
    rows = timed(device, arms, samples=5)
    for row in rows:
        row.values["gb_per_s"] = 2 * x.nbytes / row.values["us"] / 1e3
    strip = x[: essentials.STRIP << 20].view(essentials.STRIP, 1 << 20)
    bounds = [
        (f"room for {b}", {"kind": "bounds", "blocks": b}, lambda b=b: essentials.strip_products(strip, b))
        for b in (1, 3, 4, 6)
    ]
    for row in timed(device, bounds):
        row.values["gb_per_s"] = strip.nbytes / row.values["us"] / 1e3
        rows.append(row)
    rows += refusals
    return Topic(
        what="how many warps share a multiprocessor",
        hashes=hashes(
            "copy_resident",
            "copy_resident_4",
            "strip_products_1",
            "strip_products_3",
            "strip_products_4",
            "strip_products_6",
            file="cuda/residency.cu",
        ),
        rows=rows,
        sm_mhz=sm_mhz(device),
    )
