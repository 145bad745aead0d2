"""Verdicts on values: which element of a result is wrong first, who wrote it, and from which line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.trace.faults import Fault, capital, mask_of, place_of, shown_place, spans
from kernels.trace.model import READ

if TYPE_CHECKING:
    from kernels.trace.model import Trace


def value_faults(
    trace: Trace, buffer: str, result: object, expected: object, rtol: float = 0.0, atol: float = 0.0
) -> list[Fault]:
    """Compares what a kernel left in `buffer` with a reference: "not-a-number" first, then "wrong-value".

    result, expected: arrays or tensors of the buffer's shape; NaN is expected where the reference has it. An element is
    wrong where |result - expected| > atol + rtol * |expected|. An element that nobody wrote is left to
    `Trace.faults()`, which names it "unwritten". ValueError where a shape differs, KeyError for an unknown buffer.
    """
    view = trace.buffer(buffer)
    found, right = (_as_float64(given) for given in (result, expected))
    for name, array in (("result", found), ("expected", right)):
        if array.shape != view.shape:
            raise ValueError(f"{name} has shape {array.shape}; buffer {buffer!r} has {view.shape}")
    writes, last = _last_writes(trace, buffer)
    written = last[view.offsets] >= 0
    finite = np.isfinite(found) & np.isfinite(right)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(found - right) > atol + rtol * np.abs(right)
    # An infinity or NaN has no distance that could be compared: the same one is asked for.
    off = np.where(finite, far, (found != right) & ~(np.isnan(found) & np.isnan(right)))
    nan = np.isnan(found) & ~np.isnan(right)
    faults = []
    for kind, wrong in (("not-a-number", nan & written), ("wrong-value", off & ~nan & written)):
        places = np.flatnonzero(wrong)
        if len(places):
            faults.append(_fault(kind, writes, last, view, places, found.reshape(-1), right.reshape(-1), rtol, atol))
    return faults


def changed_inputs(trace: Trace, buffer: str, before: object, after: object) -> list[Fault]:
    """The verdict "input-changed" where a launch changed what it should only read, NaN compared as equal.

    before, after: arrays or tensors of the buffer's shape, copied before the launch and seen after it. ValueError where
    a shape differs, KeyError for an unknown buffer.
    """
    view = trace.buffer(buffer)
    old, new = (_as_float64(given) for given in (before, after))
    for name, array in (("before", old), ("after", new)):
        if array.shape != view.shape:
            raise ValueError(f"{name} has shape {array.shape}; buffer {buffer!r} has {view.shape}")
    places = np.flatnonzero((old != new) & ~(np.isnan(old) & np.isnan(new)))
    if not len(places):
        return []
    writes, last = _last_writes(trace, buffer)
    elements = view.offsets.reshape(-1)[places]
    element, row = int(elements[0]), int(last[elements[0]])
    who, file, line = place_of(writes, row) if row >= 0 else ("", "", 0)
    by = f" {capital(who)} wrote it. Line: {shown_place(file, line)}." if who else ""
    more = f" The same holds for {len(places)} elements in all ({spans(elements)})." if len(places) > 1 else ""
    cause = "the output and an input are mixed up, or the output lies in the input's memory"
    sentence = (
        f"{view.text(element)} is an input and was changed, from {old.reshape(-1)[places[0]]:.6g} to "
        f"{new.reshape(-1)[places[0]]:.6g}.{by}{more} Likely cause: {cause}."
    )
    mask = mask_of(writes, row) if row >= 0 else {}
    return [Fault("input-changed", sentence, view.name, element, who, file, line, len(places), cause, **mask)]


def _last_writes(trace: Trace, buffer: str) -> tuple[Trace, np.ndarray]:
    """The writes to a buffer, and for each of its items the row of the last of them, -1 where there is none."""
    view = trace.buffer(buffer)
    writes = trace.select(buffer=buffer, active=True).expanded()
    writes = writes.rows((writes.columns["what"] != READ) & view.holds(writes.columns["element"]))
    last = np.full(view.extent, -1, np.int64)
    order = np.argsort(writes.columns["sequence"], kind="stable")
    last[writes.columns["element"][order]] = order
    return writes, last


def _as_float64(given: object) -> np.ndarray:
    if hasattr(given, "detach"):
        given = given.detach().cpu().double().numpy()
    return np.asarray(given, np.float64)


def _fault(kind, writes, last, view, places, found, right, rtol, atol) -> Fault:
    place, element = int(places[0]), int(view.offsets.reshape(-1)[places[0]])
    row = int(last[element])
    who, file, line = place_of(writes, row)
    elements = view.offsets.reshape(-1)[places]
    text, value, truth = view.text(element), found[place], right[place]
    more = f" The same holds for {len(places)} elements in all ({spans(elements)})." if len(places) > 1 else ""
    if kind == "not-a-number":
        start = f"{text} is NaN, and the reference has {truth:.6g} there"
        cause = (
            "an undefined value: inf - inf, 0 * inf or 0 / 0 (softmax of masked scores computes exp(-inf - -inf) "
            "unless it asks first), or an element that was read and never written"
        )
    elif np.isnan(truth):
        start = f"{text} is {value:.6g}, and the reference is NaN there"
        cause = "a NaN or an infinity of the input was lost: a maximum that ignores NaN, or a mask in its place"
    else:
        allowed = atol + rtol * abs(truth)
        start = f"{text} is {value:.6g}, and the reference has {truth:.6g} there: more than {allowed:.2g} apart"
        cause = (
            "a wrong neutral element or index where the error is large; where it is small, a rounding too early, "
            "such as a sum kept in the narrow dtype"
        )
    sentence = f"{start}. {capital(who)} wrote it. Line: {shown_place(file, line)}.{more} Likely cause: {cause}."
    return Fault(kind, sentence, view.name, element, who, file, line, len(places), cause, **mask_of(writes, row))
