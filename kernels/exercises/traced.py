"""Runs an answer's Triton launch under the trace, and ends the check with the first verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernels.exercises.expect import AROUND, seen
from kernels.exercises.model import Failure, Strip
from kernels.exercises.raised import launch_failure

if TYPE_CHECKING:
    from kernels.trace.triton import TritonTrace


def traced(
    launch: Callable[[], object],
    buffers: Mapping[str, Any],
    outputs: Sequence[str],
    *,
    given: object = "",
    cause: str = "",
    hint: str = "",
) -> TritonTrace:
    """Run `launch()` interpreted and return its trace, unless an access in it is one that no right kernel makes.

    buffers: the tensors it works on, by name. outputs: those of them that must be written whole, each element once;
    fill them with NaN first. An input that the launch changed ends the check as well, and so does a launch in which no
    kernel ran, or that raises an error whose meaning is known. KeyError where an output is no buffer; what else the
    launch raises passes through.
    """
    from kernels.trace.triton import trace_triton
    from kernels.trace.values import changed_inputs

    buffers = dict(buffers)
    missing = [name for name in outputs if name not in buffers]
    if missing:
        raise KeyError(f"outputs names {missing[0]!r}; the buffers are {', '.join(buffers) or 'none'}")
    before = {name: tensor.detach().clone() for name, tensor in buffers.items() if name not in outputs}
    left: dict[str, Any] = {}
    try:
        with (
            _fresh_memory_is_nan(),
            _after_each_kernel(lambda: left.update({name: buffers[name].detach().clone() for name in outputs})),
        ):
            trace = trace_triton(launch, buffers)
    except Exception as error:
        if known := launch_failure(error, str(given or "")):
            seen.end(known)
        raise
    if not trace.launches:
        sentence = "No Triton kernel was launched."
        why = "the launcher computes the result without its kernel, or returns before it launches"
        seen.end(Failure(sentence, kind="no-launch", given=str(given or ""), cause=cause or why, hint=hint))
    seen.compared += len(trace)
    found = trace.faults(outputs=list(outputs))
    missed = [fault for fault in found if fault.kind == "unwritten"]  # of a store to the wrong tensor, the lesser half
    found = [fault for fault in found if fault.kind != "unwritten"]
    for name, tensor in before.items():
        found += changed_inputs(trace, name, tensor, buffers[name])
    found += missed
    if found:
        seen.end(failure_of(trace, found[0], given=str(given or ""), cause=cause, hint=hint))
    for name, tensor in left.items():
        _unchanged(name, tensor, buffers[name], str(given or ""))
    return trace


def read_whole(trace: TritonTrace, buffers: Sequence[str], *, given: object = "") -> None:
    """End the check where a kernel has not read every element of these buffers: something else did its work."""
    import numpy as np

    for name in buffers:
        counts = trace.counts(name, "read")
        seen.compared += counts.size
        if len(unread := np.argwhere(counts == 0)):
            at = f"{name}[{', '.join(map(str, unread[0]))}]"
            sentence = f"No program reads {at}, and the result is right: it was not computed in the kernel."
            why = "the launcher computes with PyTorch what the kernel is asked to compute"
            seen.end(Failure(sentence, kind="unread", given=str(given or ""), at=at, cause=why, got="no read"))


@contextmanager
def _fresh_memory_is_nan():
    """Within it what torch.empty makes is filled with NaN: what an answer reads unwritten is always the same."""
    import torch

    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def _after_each_kernel(look: Callable[[], object]) -> Iterator[None]:
    """Within, call `look` whenever a kernel has ended."""
    from triton.runtime.interpreter import GridExecutor

    run = GridExecutor.__call__

    def run_and_look(this: Any, *args: Any, **kwargs: Any) -> Any:
        result = run(this, *args, **kwargs)
        look()
        return result

    GridExecutor.__call__ = run_and_look
    try:
        yield
    finally:
        GridExecutor.__call__ = run


def _unchanged(name: str, left: Any, now: Any, given: str) -> None:
    """End the check where a result is not what the last kernel left."""
    changed = (left != now) & ~(left.isnan() & now.isnan())
    if bool(changed.any()):
        index = tuple(changed.nonzero()[0].tolist())
        at = f"{name}[{', '.join(map(str, index))}]"
        failure = Failure(
            f"{at} was changed after the last kernel ended: the launcher mends what the kernel gives.",
            kind="mended",
            given=given,
            at=at,
            expected=f"what the kernel wrote, {left[index].item():.6g}",
            got=f"{now[index].item():.6g}",
            cause="a PyTorch operation on the output in the launcher; the kernel itself is asked for the result",
        )
        seen.end(failure)


def failure_of(trace: Any, fault: Any, *, given: str = "", cause: str = "", hint: str = "") -> Failure:
    """A verdict of the trace as the failure of a check, with the owners of the elements around it."""
    from kernels.trace.faults import VERDICTS, shown_place

    place = shown_place(fault.file, fault.line) if fault.file else ""
    sentence = fault.sentence.partition(" Likely cause:")[0].replace(f" Line: {place}.", "")
    known = any(buffer.name == fault.buffer for buffer in trace.buffers)
    mask = fault.mask
    if mask and fault.masked is False:
        mask = "none: the access has no mask"
    elif mask and fault.masked:
        mask = f"{mask}: the access has a mask, and it {'lets this element through' if mask == 'on' else 'stops it'}"
    got = VERDICTS.get(fault.kind, "")
    return Failure(
        sentence,
        kind=fault.kind,
        given=given,
        at=_place(trace, fault) if known else "",
        expected="each output element written once, nothing else touched",
        got=f"{fault.kind}: {got}" if got else fault.kind,
        owner=fault.who or ("nobody" if fault.kind == "unwritten" else ""),
        mask=mask,
        cause=cause or fault.cause,
        hint=hint,
        place=place,
        explanation=fault.explanation,
        drawing=_owners(trace, fault) if known else None,
    )


def _place(trace: Any, fault: Any) -> str:
    buffer = trace.buffer(fault.buffer)
    index = buffer.index(fault.element)
    if index is None and len(buffer.shape) != 1:
        return f"item {fault.element} of {buffer.name}"
    return buffer.text(fault.element)


def _owners(trace: Any, fault: Any) -> Strip:
    """Who touches the elements around the bad one: the programs, `outside` where the buffer has no such element."""
    import numpy as np

    buffer, rows = trace.buffer(fault.buffer), trace.select(buffer=fault.buffer, active=True).expanded()
    near = [fault.element + step for step in range(-AROUND, AROUND + 1)]
    if fault.element < buffer.extent:
        near = [element for element in near if element >= min(0, fault.element)]
    kinds = ("read", "written") if fault.mask != "off" else ("written",)
    lines: list[tuple[str, tuple[str, ...]]] = [("element", tuple(map(str, near)))]
    held = buffer.holds(np.array(near))
    if not held.all():
        lines.append(("lies", tuple("inside" if inside else "outside" for inside in held.tolist())))
    heads = len(lines)
    for kind in kinds:
        what = rows.columns["what"]
        chosen = rows.rows(what == 0 if kind == "read" else what != 0)
        if len(chosen) or kind == "written":
            lines.append((f"{kind} by", tuple(_who(chosen, element) for element in near)))
    if len(lines) > heads + 1 or heads > 1:
        lines[heads:] = [(label, cells) for label, cells in lines[heads:] if set(cells) != {"-"}]
    return Strip(tuple(lines), near.index(fault.element))


def _who(rows: Any, element: int) -> str:
    import numpy as np

    mine = np.unique(rows.columns["block"][rows.columns["element"] == element]).tolist()
    return "-" if not mine else ",".join(f"p{number}" for number in mine[:3]) + ("…" if len(mine) > 3 else "")
