"""Every operator on a GPU that is not the current one: results, the current device, memory of the other card, streams.

A call must launch on the GPU of its tensors and on that GPU's current stream, allocate nothing elsewhere, and leave the
current device as it was. The inputs hold poison until a copy on that stream, behind a wait, fills them in: a launch on
any other stream reads the poison.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kernels.bench import documents
from kernels.bench.results import Provenance
from kernels.sources.files import write_whole

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).with_name("two_devices.schema.json")
FORMS = ("direct", "gradient", "CUDA", "compiled")
WAIT_CYCLES = 20_000_000  # about 10 ms on the stream before the inputs are filled in
NO_TIME = "The time of the run was over."


class Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One call: the operator and how it was called, where its tensors were and which device was current."""

    op: str
    form: str
    dtype: str
    tensors_on: int
    current: int
    status: Literal["ok", "failed", "not run"] = "not run"
    reason: str | None = None


class TwoDevices(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One run."""

    schema_version: int = SCHEMA_VERSION
    provenance: Provenance
    gpus: list[str]
    seconds: float
    cases: list[Case]


@dataclass(frozen=True)
class Observation:
    """What a call did. allocations: made on the other card meanwhile. wrong: how the results differ, None if not."""

    device_of_results: tuple[int, ...]
    current_before: int
    current_after: int
    allocations: int
    wrong: str | None


def fault(seen: Observation, device: int) -> str | None:
    """What is wrong with a call on tensors of `device`, as sentences; None where nothing is."""
    found = []
    if seen.current_after != seen.current_before:
        found.append(f"The current device was {seen.current_before} before the call and {seen.current_after} after it.")
    if set(seen.device_of_results) != {device}:
        found.append(f"Results are on {sorted(set(seen.device_of_results))}; expected device {device}.")
    if seen.allocations:
        found.append(f"{seen.allocations} allocations were made on the other device.")
    if seen.wrong:
        found.append(f"The results are wrong, as of another stream or card: {seen.wrong}")
    return " ".join(found) or None


def cases() -> Iterator[Case]:
    """Every operator: direct in each dtype, and where there is one the gradient, the CUDA functions, and compiled; with
    tensors on the second device while the first is current, and the other way round. Compiled ones come last."""
    for form in FORMS:
        for op in _operators():
            for dtype in _dtypes(op, form):
                for tensors_on in (1, 0):
                    yield Case(op=op.name, form=form, dtype=dtype, tensors_on=tensors_on, current=1 - tensors_on)
    for op in _operators():
        if _tensor_inputs(op) > 1:
            yield Case(op=op.name, form="tensors on both", dtype=op.dtypes[0], tensors_on=0, current=0)


def _operators() -> list[Any]:
    from kernels.ops import registry, unmeasured

    return [*registry.OPS.values(), *(r for file in unmeasured.NAMES for r in registry._records(file))]


def _dtypes(op: Any, form: str) -> tuple[str, ...]:
    if form == "direct":
        return op.dtypes
    if form == "gradient":
        return op.dtypes[:1] if op.gradient_tolerance else ()
    if form == "CUDA":
        twins = [each for each in op.implementations if each.needs == "cuda"]
        return tuple(dict.fromkeys(dtype for twin in twins for dtype in twin.dtypes))
    return op.dtypes[:1]


def _shape(op: Any) -> tuple[int, ...]:
    return next(case.shape for case in op.checks if case.shape and min(case.shape) > 0)


def _tensor_inputs(op: Any) -> int:
    return len(op.inputs(_shape(op), op.dtypes[0], "cpu", seed=0))


def _calls(op: Any, form: str, dtype: str) -> list[Callable]:
    """What is called with the tensors, each returning a tuple of tensors."""
    import torch

    ours = op.implementation("triton").call

    def several(call: Callable) -> Callable:
        def run(*tensors: Any) -> tuple:
            out = call(*tensors)
            return out if isinstance(out, tuple) else (out,)

        return run

    if form == "compiled":
        return [several(torch.compile(ours, dynamic=False))]
    if form == "CUDA":
        return [several(e.call) for e in op.implementations if e.needs == "cuda" and dtype in e.dtypes]
    if form == "gradient":
        return [gradients(ours)]
    return [several(ours)]


def gradients(call: Callable) -> Callable:
    """A function that returns the gradients of `call`'s inputs, for upstream gradients that every dtype holds."""

    def run(*tensors: Any) -> tuple:
        import torch

        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        out = call(*leaves)
        outs = out if isinstance(out, tuple) else (out,)
        upstream = [
            (torch.arange(each.numel(), device=each.device) % 5 - 2.0).reshape(each.shape).to(each.dtype)
            for each in outs
        ]
        return torch.autograd.grad(outs, leaves, upstream)

    return run


def observe(call: Callable, expected: tuple, tolerance: tuple[float, float], values: tuple, device: int) -> Observation:
    """Call on `device` while the other one is current, on a stream of its own, and say what happened."""
    import torch

    other = 1 - device
    inputs = [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) for v in values]
    torch.cuda.set_device(device)
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)
    with torch.no_grad():
        for buffer in inputs:
            buffer.fill_(float("nan") if buffer.is_floating_point() else -1)
    torch.cuda.synchronize(device)
    try:
        torch.cuda.set_stream(stream)  # of that device; the current one is chosen below
        torch.cuda._sleep(WAIT_CYCLES)
        with torch.no_grad():
            for buffer, value in zip(inputs, values):
                buffer.copy_(value)
        torch.cuda.set_device(other)
        made = torch.cuda.memory_stats(other).get("allocation.all.allocated", 0)
        results = call(*inputs)
        after = torch.cuda.current_device()
        allocations = torch.cuda.memory_stats(other).get("allocation.all.allocated", 0) - made
        stream.synchronize()
    finally:
        torch.cuda.set_stream(before)
        torch.cuda.set_device(other)
    wrong, (rtol, atol) = None, tolerance
    for got, wanted in zip(results, expected, strict=True):
        try:
            torch.testing.assert_close(got.double(), wanted.double(), rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            wrong = " ".join(str(error).split())[:300]
    places = tuple(result.get_device() for result in results)
    return Observation(places, other, after, allocations, wrong)


def run_case(case: Case) -> str | None:
    """Run one case: None where all is well, otherwise what is not."""
    import torch

    op = next(op for op in _operators() if op.name == case.op)
    shape = _shape(op)
    torch.cuda.set_device(case.current)
    if case.form == "tensors on both":
        return refusal(op, shape, case.dtype)
    values = op.inputs(shape, case.dtype, f"cuda:{case.tensors_on}", seed=3)
    if case.form == "gradient":
        expected = gradients(op.reference)(*(value.double() for value in values))
        tolerance = op.gradient_tolerance(case.dtype, shape)
    else:
        expected, tolerance = op.reference(*values), op.tolerance(case.dtype, shape)
        expected = expected if isinstance(expected, tuple) else (expected,)
        if case.form == "CUDA":
            values = tuple(value.contiguous() for value in values)
    torch.cuda.synchronize(case.tensors_on)
    for call in _calls(op, case.form, case.dtype):
        call(*values)  # compiles, and builds what is kept between calls
        problem = fault(observe(call, expected, tolerance, values, case.tensors_on), case.tensors_on)
        if problem:
            return problem
    return None


def refusal(op: Any, shape: tuple[int, ...], dtype: str) -> str | None:
    """Each input in turn on the second device: the call must refuse it with a sentence that names both devices."""
    here, there = (op.inputs(shape, dtype, f"cuda:{device}", seed=3) for device in (0, 1))
    for moved in range(1, len(here)):
        given = [there[i] if i == moved else here[i] for i in range(len(here))]
        try:
            op.implementation("triton").call(*given)
        except ValueError as error:
            if "cuda:0" in str(error) and "cuda:1" in str(error):
                continue
            return f"Input {moved} on cuda:1: the refusal names not both devices: {error}"
        except Exception as error:
            return f"Input {moved} on cuda:1: {type(error).__name__} in the place of a ValueError: {error}"
        return f"Input {moved} on cuda:1 was accepted beside others on cuda:0."
    return None


def run(wanted: list[Case], seconds: float, run_one: Callable[[Case], str | None] = run_case) -> list[Case]:
    """Run the cases one after the other until the time is over; what was not reached says so."""
    until = time.monotonic() + seconds
    for case in wanted:
        if time.monotonic() > until:
            case.reason = NO_TIME
            continue
        try:
            case.reason = run_one(case)
        except Exception as error:
            case.reason = f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[0]}"
        case.status = "failed" if case.reason else "ok"
    return wanted


def side_by_side(wanted: list[Case], seconds: float, jobs: int, command: Sequence[str]) -> list[Case]:
    """The cases dealt out to processes of `command --part=i/n --seconds=s`, each of which prints its own as JSON last.

    A process that does not answer leaves its cases not run, with its last words.
    """
    jobs = min(jobs, len(wanted))
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(jobs)]
        processes = [
            subprocess.Popen([*command, f"--part={i}/{jobs}", f"--seconds={seconds}"], stdout=out, stderr=out)
            for i, out in enumerate(outputs)
        ]
        until = time.monotonic() + seconds + 60  # a case that was begun is finished
        for i, (process, out) in enumerate(zip(processes, outputs)):
            try:
                process.wait(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            out.seek(0)
            last = (out.read().decode(errors="replace").strip().splitlines() or ["It said nothing."])[-1]
            try:
                wanted[i::jobs] = msgspec.json.decode(last, type=list[Case])
            except (msgspec.DecodeError, ValueError):
                for case in wanted[i::jobs]:
                    case.reason = f"Its process gave no answer (exit status {process.returncode}): {last[:200]}"
    return wanted


def report(document: TwoDevices) -> str:
    """The run as text: how many calls of each form went well, and each that did not."""
    lines = [f"{len(document.cases)} calls on {', '.join(document.gpus)}, {document.seconds:.0f} s"]
    for form in dict.fromkeys(case.form for case in document.cases):
        found = [case for case in document.cases if case.form == form]
        lines.append(f"{form}: {sum(case.status == 'ok' for case in found)} of {len(found)} ok")
    for case in document.cases:
        if case.status != "ok":
            place = f"tensors on {case.tensors_on}, device {case.current} current"
            lines.append(f"  {case.op}, {case.form}, {case.dtype}, {place}: {case.status}: {case.reason}")
    return "\n".join(lines)


def encode(document: TwoDevices) -> bytes:
    """Strict JSON. Raises ResultsError where a value is no finite number."""
    return documents.encoded(document)


def decode(data: bytes, name: str = "file") -> TwoDevices:
    """Reads what `encode` wrote. Raises ResultsError with a sentence."""
    return documents.decoded(data, TwoDevices, name, "record of a run on two devices")


def schema_text() -> str:
    """JSON Schema (draft 2020-12) of `TwoDevices`, as it stands in the file."""
    return documents.schema_text(TwoDevices, "two devices")


if __name__ == "__main__":
    write_whole(SCHEMA, schema_text())
    print(SCHEMA.name)
