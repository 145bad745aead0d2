"""Where an access goes and who makes it: buffers with their views, launches with their grids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

WARP_SIZE = 32


@dataclass(frozen=True)
class Buffer:
    """A tensor, or a block's shared array.

    `shape` and `strides` are in elements; `itemsize` is in bytes. `address` is the byte address of element 0, counted
    from an allocation that is aligned as the GPU's are (256 bytes), so that sectors do not depend on the run.
    `space` is "global" or "shared".
    """

    name: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    address: int = 0
    space: str = "global"
    dtype: str = ""

    def __post_init__(self) -> None:
        if not self.strides:
            strides = [1] * len(self.shape)
            for axis in range(len(self.shape) - 2, -1, -1):
                strides[axis] = strides[axis + 1] * self.shape[axis + 1]
            object.__setattr__(self, "strides", tuple(strides))
        if len(self.strides) != len(self.shape):
            raise ValueError(f"buffer {self.name!r} has {len(self.shape)} dimensions but {len(self.strides)} strides")

    @property
    def count(self) -> int:
        """How many elements the view has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def extent(self) -> int:
        """How many items lie between its first and its last element, both included; padding counts."""
        if self.count == 0:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @cached_property
    def offsets(self) -> np.ndarray:
        """The element number of every index, an int64 array of the buffer's shape."""
        offsets = np.zeros(self.shape, np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            line = np.arange(size, dtype=np.int64) * stride
            offsets += line.reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
        return offsets

    @cached_property
    def overlaps(self) -> bool:
        """Whether two indices of the view are one item, as with a stride of 0."""
        reach = 0
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride <= reach:
                return bool((np.diff(self._sorted[0]) == 0).any())
            reach += stride * (size - 1)
        return False

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The elements in ascending order, and the flat index of each: as long as the view, not as its extent."""
        flat = self.offsets.reshape(-1)
        order = np.argsort(flat, kind="stable")
        return flat[order], order

    def _flat(self, elements: np.ndarray) -> np.ndarray:
        """Flat index of the view for each element, -1 where the view has none."""
        known, order = self._sorted
        place = np.searchsorted(known, elements, side="right") - 1
        found = (place >= 0) & (known[place] == elements) if len(known) else np.zeros(np.shape(elements), bool)
        return np.where(found, order[place] if len(known) else -1, -1)

    def holds(self, elements: np.ndarray) -> np.ndarray:
        """Which of these elements belong to the view: False outside and in the padding between rows."""
        elements = np.asarray(elements)
        inside = (elements >= 0) & (elements < self.extent)
        if not inside.any() or (self.extent == self.count and not self.overlaps):
            return inside
        inside[inside] = self._flat(elements[inside]) >= 0
        return inside

    def index(self, element: int) -> tuple[int, ...] | None:
        """The index of an element, or None where the view has no such element."""
        if not (0 <= element < self.extent) or (flat := int(self._flat(np.array([element]))[0])) < 0:
            return None
        return tuple(int(i) for i in np.unravel_index(flat, self.shape))

    def text(self, element: int) -> str:
        """`x[257]` or `x[2, 5]`; an element the view lacks is shown by its distance from the start."""
        index = self.index(element)
        return f"{self.name}[{', '.join(map(str, index)) if index else element}]"


@dataclass(frozen=True)
class Launch:
    """One kernel launch: grid in programs or blocks, block in threads (None for Triton)."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int] | None = None
    language: str = "triton"
    file: str = ""
    line: int = 0

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64))

    @property
    def threads(self) -> int:
        """Threads a block, 0 where the trace does not show threads."""
        return int(np.prod(self.block, dtype=np.int64)) if self.block else 0

    def block_id(self, block: int) -> tuple[int, int, int]:
        """(x, y, z) of a block's number."""
        x, y, _ = self.grid
        return block % x, block // x % y, block // (x * y)

    def who(self, block: int, thread: int = -1) -> str:
        """`program 1`, `program (1, 2, 0)`, `block 0, thread 67 (warp 2, lane 3)`."""
        name = "program" if self.language == "triton" else "block"
        place = str(block) if self.grid[1:] == (1, 1) else str(self.block_id(block))
        text = f"{name} {place}"
        if thread >= 0:
            text += f", thread {thread} (warp {thread // WARP_SIZE}, lane {thread % WARP_SIZE})"
        return text
