"""The eyes of a Triton trace: what stands in for the interpreter's memory functions, and notes what goes through."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.trace.model import ATOMIC, READ, WRITE, Buffer

if TYPE_CHECKING:
    from kernels.trace.triton import Session

ORIGIN, SPACING = 1 << 60, 1 << 44  # above every real address; 16 TiB for each tensor
NOWHERE = "(no buffer)"


class Memory:
    """Stands in for the interpreter's compiled memory functions; everything else passes through."""

    def __init__(self, real: Any, session: Session, builder: Any) -> None:
        self._real, self._session, self._builder = real, session, builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        real, safe = self._note(READ, pointers, mask, np.dtype(dtype).itemsize, _masked())
        return self._real.load(real, safe, other, dtype)

    def store(self, pointers: Any, values: Any, mask: Any) -> Any:
        real, safe = self._note(WRITE, pointers, mask, np.asarray(values).dtype.itemsize, _masked())
        self._note_clashes(real, np.asarray(values), safe)
        return self._real.store(real, values, safe)

    def atomic_rmw(self, operation: Any, pointers: Any, values: Any, mask: Any, order: Any) -> Any:
        sequence = self._session.recorder.next_sequence
        self._session.semantics[sequence] = _semantic(order)
        real, safe = self._note(ATOMIC, pointers, mask, np.asarray(values).dtype.itemsize)
        return self._real.atomic_rmw(operation, real, values, safe, order)

    def atomic_cas(self, pointers: Any, expected: Any, values: Any, order: Any) -> Any:
        sequence = self._session.recorder.next_sequence
        self._session.semantics[sequence] = _semantic(order)
        self._session.compares.add(sequence)
        real, safe = self._note(ATOMIC, pointers, True, np.asarray(values).dtype.itemsize, False)
        if safe.all():
            return self._real.atomic_cas(real, expected, values, order)
        result = np.zeros_like(values)  # compare-and-swap has no mask: only the elements inside go through
        expected, values = (np.broadcast_to(array, real.shape)[safe] for array in (expected, values))
        if safe.any():
            result[safe] = self._real.atomic_cas(real[safe], expected, values, order)
        return result

    def _note(
        self, what: int, pointers: Any, mask: Any, size: int, masked: bool | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Records one operation; returns real addresses and the mask without the elements that lie outside."""
        pointers = np.asarray(pointers, np.uint64)
        mask = np.broadcast_to(np.asarray(mask, bool), pointers.shape)
        flat, on = pointers.reshape(-1).astype(np.int64), mask.reshape(-1)
        real, safe = np.zeros_like(flat), np.zeros(len(flat), bool)
        buffer, element = np.full(len(flat), -1), np.zeros(len(flat), np.int64)
        session = self._session
        slot = np.where(flat >= ORIGIN, (flat - ORIGIN) // SPACING, -1)
        for number, region in enumerate(session.regions):
            here = np.flatnonzero(slot == number)
            offset = flat[here] - region.virtual
            if not len(here):  # a pointer that the kernel read from memory is a real one
                here = np.flatnonzero((flat >= region.real) & (flat < region.real + region.byte_size) & (slot < 0))
                offset = flat[here] - region.real
                if not len(here):
                    continue
            itemsize = region.buffer.itemsize
            first, last = offset // itemsize, (offset + size - 1) // itemsize
            buffer[here], element[here], real[here] = region.number, first, region.real + offset
            safe[here] = region.buffer.holds(first) & region.buffer.holds(last)
        lost = buffer < 0
        if (lost & on).any():
            buffer[lost], element[lost] = self._nowhere(), flat[lost]
        keep = buffer >= 0
        safe &= on
        if len(flat):
            site = session.recorder.site(*_kernel_line())
            if masked is not None:
                session.masks[site, what] = masked or session.masks.get((site, what), False)
            session.recorder.add(
                launch=session.launch,
                block=self._program(),
                what=what,
                buffer=buffer[keep],
                element=element[keep],
                size=size,
                site=site,
                active=on[keep],
            )
            session.note_position(keep, pointers.shape)
        return real.astype(np.uint64).reshape(pointers.shape), safe.reshape(pointers.shape)

    def _program(self) -> int:
        x, y, z = self._builder.grid_idx
        nx, ny, _ = self._builder.grid_dim
        return x + nx * (y + ny * z)

    def _note_clashes(self, real: np.ndarray, values: np.ndarray, safe: np.ndarray) -> None:
        """Notes addresses to which one store brings more than one value, compared bit by bit."""
        address = real[safe].astype(np.int64)
        order = np.argsort(address, kind="stable")
        address = address[order]
        again = address[1:] == address[:-1]
        if not again.any():
            return
        bits = np.ascontiguousarray(np.broadcast_to(values, real.shape)[safe][order]).view(np.uint8)
        bits = bits.reshape(len(address), -1)
        differs = again & (bits[1:] != bits[:-1]).any(axis=1)
        session = self._session
        for region in session.regions:
            offset = np.unique(address[1:][differs]) - region.real
            offset = offset[(offset >= 0) & (offset < region.byte_size)]
            if len(offset):
                site = session.recorder.site(*_kernel_line())
                for element in (offset // region.buffer.itemsize).tolist():
                    session.clashes.append((session.launch, self._program(), region.number, element, site))

    def _nowhere(self) -> int:
        session = self._session
        if session.nowhere < 0:
            session.nowhere = session.recorder.buffer(Buffer(NOWHERE, 1, (0,)))
        return session.nowhere


def _masked() -> bool | None:
    """Whether the load or store that is being made has a mask: the interpreter gives one to those without.

    None where its functions are not called what they are called in Triton 3.6, so that nothing can be told.
    """
    masker, caller = sys._getframe(2), sys._getframe(3)
    if masker.f_code.co_name not in ("create_masked_load", "create_masked_store"):
        return None
    return caller.f_code.co_name not in ("create_load", "create_store")


def _semantic(order: Any) -> str:
    """The memory order that the interpreter was given, as Triton's `sem` spells it."""
    name = str(getattr(order, "name", order)).rpartition(".")[2].lower()
    return "acq_rel" if name == "acquire_release" else name


def _kernel_line() -> tuple[str, int]:
    """File and line of the innermost frame that is neither Triton's nor ours: where the access is written."""
    import triton

    library = str(Path(triton.__file__).parent)
    ours = (__file__, str(Path(__file__).with_name("triton.py")))
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in ours and not file.startswith(library):
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0
