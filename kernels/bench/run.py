"""One run of the bench over operators: check, then time, then record, case by case."""

import importlib.util
import inspect
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from kernels.bench.results import Limit, Record, Writer, complete, hash_today
from kernels.bench.timer import (
    Arm,
    Cache,
    DeviceFailure,
    Implausible,
    Mode,
    buffer_sets,
    check_plausible,
    first_call,
    measure,
)

COMPILED = "torch.compile"


class UsageError(ValueError):
    """A choice on the command line that cannot be met."""


@dataclass(frozen=True)
class Contender:
    """An implementation or a variant of our launcher, ready to be called."""

    name: str
    call: Callable[..., Any]
    needs: str
    source: str
    ours: bool
    dtypes: tuple[str, ...] | None = None
    config: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What is measured and how."""

    timing: Mode = "graph"
    cache: Cache = "cold"
    samples: int = 50
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    compile: bool = False
    variants: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


def parse_shape(text: str) -> tuple[int, ...]:
    """`4096x1024` as (4096, 1024). Raises UsageError with a sentence."""
    parts = text.lower().replace("×", "x").split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(f"--shape {text!r} is not a shape; write sizes with x between them, such as 4096x1024.")
    return tuple(int(part) for part in parts)


def launcher(op: Any) -> tuple[Callable[..., Any], dict[str, inspect.Parameter]]:
    """The operator's launcher with knobs, and the knobs: `launch_<module>` of its module, keyword-only parameters."""
    module = op.implementation("triton").source.partition(":")[0]
    call = getattr(import_module(module), f"launch_{module.rpartition('.')[2]}", None)
    if call is None:
        raise UsageError(f"{op.name} has no launcher whose block size or warps could be varied.")
    parameters = inspect.signature(call).parameters.values()
    return call, {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def variant(op: Any, text: str) -> Contender:
    """`block=128,warps=8` as a contender named triton[block=128,warps=8].

    A knob is named in full or by an unambiguous part of its name. Raises UsageError naming the knobs there are.
    """
    call, knobs = launcher(op)
    fixed = {name: value for name, value in op.launch.items() if name in knobs}
    chosen: dict[str, int | str] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        matches = [name] if name in knobs else [knob for knob in knobs if name and name in knob]
        if not equals or len(matches) != 1 or not value:
            raise UsageError(
                f"--variant {text!r}: {part.strip()!r} does not set a knob of {op.name}; it has {', '.join(knobs)}, "
                f"each written as {next(iter(knobs), 'knob')}=VALUE."
            )
        chosen[matches[0]] = int(value) if value.isdigit() else value

    def run(*tensors: Any) -> Any:
        return call(*tensors, *new_outputs(op, tensors), **{**fixed, **chosen})

    # The same reference as the operator itself: what was measured is the kernel and its plan, not the argument checks.
    ours = op.implementation("triton")
    return Contender(f"triton[{text}]", run, "triton", ours.source, True, ours.dtypes, chosen)


def results(out: Any) -> tuple[Any, ...]:
    """What a call returned, as a tuple of tensors."""
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def new_outputs(op: Any, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Uninitialised tensors of the shapes, dtypes and layouts that the operator returns for these inputs."""
    import torch

    if op.outputs is not None:
        return results(op.outputs(*inputs))
    return (torch.empty_like(inputs[0], memory_format=torch.contiguous_format),)


def poison(outputs: Sequence[Any]) -> None:
    """Fill with what no result holds: NaN, or the lowest number of an integer dtype."""
    import torch

    for tensor in outputs:
        tensor.fill_(float("nan") if tensor.is_floating_point() else torch.iinfo(tensor.dtype).min)


def contenders(op: Any, options: Options) -> list[Contender]:
    """The operator's implementations that were asked for, then the variants."""
    found = [
        Contender(i.name, i.call, i.needs, i.source, i.ours, getattr(i, "dtypes", None))
        for i in op.implementations
        if (i.name != COMPILED or options.compile) and (not options.only or i.name in options.only)
    ]
    unknown = [name for name in options.only if name not in {i.name for i in op.implementations}]
    if unknown:
        known = ", ".join(i.name for i in op.implementations)
        raise UsageError(f"{op.name} has no implementation called {', '.join(unknown)}; it has {known}.")
    return found + [variant(op, text) for text in options.variants]


def unavailable(contender: Contender) -> str | None:
    """A sentence where the contender cannot run here."""
    if contender.needs == "cuda":
        from kernels import cuda

        return None if cuda.available() else (cuda.why_not() or "The CUDA library is not available.")
    if contender.needs == "triton":
        try:
            import triton  # noqa: F401
        except ImportError:
            return "Triton is not installed."
    elif contender.needs != "torch" and importlib.util.find_spec(contender.needs) is None:
        package = contender.needs.replace("_", "-")
        return f"{package} is not installed; pip install {package} adds it to the comparison."
    return None


@dataclass(frozen=True)
class Verdict:
    """How far an output is from the reference; None where it is not a number."""

    right: bool
    max_abs_error: float | None
    error_over_tolerance: float | None
    sentence: str


def judge(out: Any, expected: Any, tolerance: tuple[float, float]) -> Verdict:
    """Compare with the reference, element by element, at |out - expected| <= atol + rtol * |expected|.

    NaN and infinities must stand where the reference has them. Both are tensors on the same device.
    """
    import torch

    if out.shape != expected.shape:
        return Verdict(False, None, None, f"The shape is {tuple(out.shape)}; it should be {tuple(expected.shape)}.")
    if expected.numel() == 0:
        return Verdict(True, 0.0, 0.0, "")
    rtol, atol = tolerance
    got, want = out.double(), expected.double()
    same = (got == want) | (got.isnan() & want.isnan())
    error = torch.where(same, torch.zeros_like(want), (got - want).abs())
    over = torch.where(same, torch.zeros_like(want), error / (atol + rtol * want.abs()))
    bad = ~(over <= 1.0)
    worst, most = error.max().item(), over.nan_to_num(nan=math.inf).max().item()
    if not bad.any().item():
        return Verdict(True, worst, most, "")
    count, where = int(bad.sum().item()), int(bad.flatten().int().argmax().item())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(where), want.shape))
    sentence = (
        f"{count} of {want.numel()} elements are wrong; the first is {index}: {got.flatten()[where].item()!r}, "
        f"and it should be {want.flatten()[where].item()!r} (rtol {rtol:.3g}, atol {atol:.3g})."
    )
    return Verdict(False, worst if math.isfinite(worst) else None, most if math.isfinite(most) else None, sentence)


def judge_all(outs: Sequence[Any], expected: Sequence[Any], tolerance: tuple[float, float]) -> Verdict:
    """`judge` for each of several results: the first that is wrong, otherwise the largest errors."""
    if len(outs) != len(expected):
        return Verdict(False, None, None, f"There are {len(outs)} results; there should be {len(expected)}.")
    verdicts = [judge(out, want, tolerance) for out, want in zip(outs, expected, strict=True)]
    for index, verdict in enumerate(verdicts):
        if not verdict.right:
            which = f"Result {index} of {len(outs)}: " if len(outs) > 1 else ""
            return replace(verdict, sentence=which + verdict.sentence)
    worst, most = (max(getattr(v, name) for v in verdicts) for name in ("max_abs_error", "error_over_tolerance"))
    return Verdict(True, worst, most, "")


def blank(op: Any, contender: Contender, shape: tuple[int, ...], dtype: str, options: Options) -> Record:
    """A record with everything known before the measurement."""
    return Record(
        op=op.name,
        implementation=contender.name,
        ours=contender.ours,
        source=contender.source,
        source_hash=(hash_today(contender.source) or "") if contender.source else "",
        shape=list(shape),
        dtype=dtype,
        config=contender.config,
        status="ok",
        bytes_moved=op.bytes_moved(shape, dtype),
        flops=op.flops(shape),
        timing=options.timing,
        cache=options.cache,
        tolerance=list(op.tolerance(dtype, shape)),
    )


def check(device: Any, op: Any, contender: Contender, record: Record) -> None:
    """First call, then two rounds of fresh inputs against the reference. A wrong result is recorded and never timed."""
    shape, dtype = tuple(record.shape), record.dtype
    for turn in range(2):
        seed = secrets.randbelow(1 << 31)
        inputs = op.inputs(shape, dtype, device.where, seed, padding=0)
        expected = op.reference(*inputs)
        if turn == 0:
            timed = first_call(device, lambda given=inputs: contender.call(*given))
            record.first_call_ms, record.compile_ms = timed.first_call_ms, timed.compile_ms
            settled = getattr(contender.call, "configuration", None)  # of an implementation that tunes itself
            if settled:
                record.config, record.tune_ms = settled(*inputs), contender.call.tune_ms(*inputs)
        # The allocator hands a freed block out again: let it hold NaN, so that an element nobody wrote shows.
        poison(new_outputs(op, inputs))
        out = contender.call(*inputs)
        device.synchronize()
        verdict = judge_all(results(out), results(expected), op.tolerance(dtype, shape))
        record.max_abs_error, record.error_over_tolerance = verdict.max_abs_error, verdict.error_over_tolerance
        if not verdict.right:
            record.status, record.reason = "wrong", f"Seed {seed}: {verdict.sentence}"
            return


def one_shape(
    device: Any,
    op: Any,
    arms: Sequence[Contender],
    shape: tuple[int, ...],
    dtype: str,
    options: Options,
    limit: Limit | None,
) -> Iterator[Record]:
    """Every contender on one shape and dtype: checked one by one, timed together, yielded in order."""
    made = [(c, blank(op, c, shape, dtype, options)) for c in arms if c.dtypes is None or dtype in c.dtypes]
    for contender, record in made:
        missing = unavailable(contender)
        if missing:
            record.status, record.reason = "unavailable", missing
            continue
        try:
            check(device, op, contender, record)
        except ValueError as error:
            if contender.config:  # our launcher refuses this choice for this shape, and says why
                record.status, record.reason = "unavailable", str(error)
            else:
                _fail(device, record, error)
        except Exception as error:
            _fail(device, record, error)
    timed = [(c, r) for c, r in made if r.status == "ok" and (r.bytes_moved or r.flops)]
    if timed:
        try:
            _time(device, op, timed, shape, dtype, options, options.samples)
        except Exception:
            _time_the_others(device, op, timed, shape, dtype, options)
    for _, record in made:
        yield _finish(device.name, record, limit)


def _fail(device: Any, record: Record, error: Exception) -> None:
    """Record a failure. Where the device no longer answers nothing else can be measured: raises DeviceFailure."""
    record.status, record.reason, record.samples_us = "failed", _first_line(error), []
    if not device.usable():
        raise DeviceFailure(f"{record.op} {record.implementation}: {_first_line(error)}") from error


def _time_the_others(
    device: Any,
    op: Any,
    timed: Sequence[tuple[Contender, Record]],
    shape: tuple[int, ...],
    dtype: str,
    options: Options,
) -> None:
    """After a failed measurement: find the arms that fail alone, record them, and time the rest together."""
    sound = []
    for pair in timed:
        try:
            _time(device, op, [pair], shape, dtype, options, samples=1)
            sound.append(pair)
        except Exception as error:
            _fail(device, pair[1], error)
    if sound:
        try:
            _time(device, op, sound, shape, dtype, options, options.samples)
        except Exception as error:
            for _, record in sound:
                _fail(device, record, error)


def _time(
    device: Any,
    op: Any,
    timed: Sequence[tuple[Contender, Record]],
    shape: tuple[int, ...],
    dtype: str,
    options: Options,
    samples: int,
) -> None:
    sets, note = buffer_sets(timed[0][1].bytes_moved, device.l2_bytes, options.cache)
    inputs = device.rotated(op.inputs(shape, dtype, device.where, secrets.randbelow(1 << 31), padding=0), sets)
    results = measure(
        device,
        [Arm(c.name, c.call) for c, _ in timed],
        inputs,
        mode=options.timing,
        samples=samples,
    )
    for (_, record), result in zip(timed, results, strict=True):
        record.samples_us, record.launches = result.samples_us, result.launches
        record.in_l2, record.cache_note = note is not None or options.cache == "warm", note
        record.buffer_sets, record.graph_nodes = result.buffer_sets, result.nodes


def _finish(gpu: str, record: Record, limit: Limit | None) -> Record:
    complete(record, None if record.in_l2 else limit)
    try:
        check_plausible(gpu, record.dtype, record.in_l2, record.gb_per_s, record.tflop_per_s)
    except Implausible as error:
        record.status, record.reason = "implausible", str(error)
        complete(record)
    return record


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


def dtypes_of(op: Any, options: Options) -> tuple[str, ...]:
    """Of the dtypes that were asked for, those that the operator takes; otherwise those that its record names."""
    if options.dtypes:
        return tuple(dtype for dtype in options.dtypes if dtype in op.dtypes)
    return op.bench_dtypes or op.dtypes


def run(device: Any, ops: Sequence[Any], options: Options, writer: Writer, tell: Callable[[str], None]) -> list[Record]:
    """Measure everything, writing each case as it finishes. Raises DeviceFailure where the device gave up."""
    limit = writer.document.limits[0] if writer.document.limits else None
    records: list[Record] = []
    for op in ops:
        arms = contenders(op, options)
        for dtype in dtypes_of(op, options):
            for shape in options.shapes or tuple(case.shape for case in op.benches):
                tell(f"{op.name} {dtype} {'x'.join(map(str, shape))}")
                for record in one_shape(device, op, arms, shape, dtype, options, limit):
                    writer.add(record)
                    records.append(record)
    return records
