"""What a program of the model holds: registers, tiles of shared memory and their barriers, tensor maps, products."""

import threading
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import torch

from .gluon_machine import Broken

PIECE = 16  # bytes that the copy engine writes at once


class Value(torch.Tensor):
    """A tensor in registers."""

    type = SimpleNamespace(layout=None)


def value(x, dtype=None):
    return torch.as_tensor(x, dtype=dtype).as_subclass(Value)


@dataclass
class Barrier:
    count: int = 0
    pending: int = 0
    bytes: int = 0
    phase: int = 0

    def arrive(self, count: int) -> None:
        self.pending -= count
        if self.pending < 0:
            raise Broken("a barrier got an arrival too many")
        self.settle()

    def settle(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count


@dataclass
class Cell:
    """A tile in shared memory."""

    data: torch.Tensor
    landed: bool = False
    copying: bool = False
    readers: int = 0
    leaving: int = 0
    fenced: bool = True
    writer: object = None

    def about_to_change(self) -> None:
        if self.readers or self.leaving or self.copying:
            raise Broken("a tile is overwritten while it is still read, or while a copy into it is under way")


@dataclass
class Shared:
    """Shared memory, or a part of it seen in some shape."""

    cells: list
    shape: tuple
    dtype: torch.dtype
    turned: bool = False
    columns: tuple = (None, None)

    def index(self, i: int):
        if not 0 <= i < len(self.cells):
            raise Broken(f"there is no buffer {i} of {len(self.cells)}")
        cell = self.cells[i]
        return cell if isinstance(cell, Barrier) else Shared([cell], self.shape[1:], self.dtype)

    def reshape(self, shape):
        return Shared(self.cells, tuple(shape), self.dtype, self.turned)

    def permute(self, order):
        assert order == (1, 0)
        return Shared(self.cells, self.shape[::-1], self.dtype, not self.turned)

    def slice(self, start, length, dim):
        assert dim == 1 and not self.turned
        return Shared(self.cells, (self.shape[0], length), self.dtype, False, (start, start + length))

    def load(self, layout):
        return value(self.cell.data.reshape(self.shape))

    @property
    def type(self):
        return SimpleNamespace(shape=list(self.shape))

    @property
    def cell(self) -> Cell:
        return self.cells[0]

    def read(self) -> torch.Tensor:
        shape = self.shape[::-1] if self.turned else self.shape
        whole = (shape[0], self.cell.data.numel() // shape[0])
        data = self.cell.data.reshape(whole)[:, slice(*self.columns)]
        return data.t() if self.turned else data

    def store(self, values) -> None:
        self.cell.about_to_change()
        self.cell.data, self.cell.landed, self.cell.fenced = values.clone(), False, False
        self.cell.writer = threading.current_thread().task


@dataclass
class Map:
    """A tensor map, made from the host's TensorDescriptor."""

    host: object
    dtype: torch.dtype = field(init=False)

    def __post_init__(self):
        host = self.host
        self.dtype, self.layout = host.base.dtype, None
        size = int(np.prod(host.block_shape)) * host.base.element_size()
        self.block_type = SimpleNamespace(shape=list(host.block_shape), nbytes=size)
        # Every element of the storage, by its byte address from the tensor's first one.
        self.storage = host.base.new_empty(0).set_(host.base.untyped_storage())
        self.first = host.base.storage_offset()

    def places(self, at, columns=None):
        extents = [*self.host.shape[:-1], self.host.shape[-1] if columns is None else columns]
        inside, address = True, np.zeros(1, np.uint64)
        for axis, (start, extent, stride, box) in enumerate(
            zip(at, extents, self.host.strides, self.host.block_shape, strict=True)
        ):
            coordinate = (int(start) + np.arange(box)).reshape([-1 if i == axis else 1 for i in range(len(at))])
            inside = inside & (coordinate >= 0) & (coordinate < extent)
            with np.errstate(over="ignore"):
                address = address + coordinate.astype(np.uint64) * np.uint64(self.dtype.itemsize * stride)
        place = address.astype(np.int64) // self.dtype.itemsize + self.first
        return np.broadcast_to(inside, self.host.block_shape), place

    def read(self, at) -> torch.Tensor:
        inside, place = self.places(at)
        result = torch.zeros(self.host.block_shape, dtype=self.dtype)
        found = self.storage[torch.from_numpy(place[inside])]  # an address outside the storage is an IndexError
        result[torch.from_numpy(inside.copy())] = found
        return result

    def write(self, at, values) -> None:
        # The copy engine writes 16 bytes at a time, also where a row ends before them.
        piece = PIECE // self.dtype.itemsize
        inside, place = self.places(at, -(-self.host.shape[-1] // piece) * piece)
        self.storage[torch.from_numpy(place[inside])] = values.reshape(self.host.block_shape)[
            torch.from_numpy(inside.copy())
        ]


@dataclass
class Pointer:
    base: torch.Tensor
    offset: object = 0

    def __add__(self, more):
        return Pointer(self.base, self.offset + more)


@dataclass(eq=False)
class Product:
    a: object
    b: Shared
    acc: object
    result: object = None

    def read_tiles(self):
        return [x.cell for x in (self.a, self.b) if isinstance(x, Shared)]

    def finish(self) -> None:
        a = self.a.read() if isinstance(self.a, Shared) else self.a
        acc = self.acc.result if isinstance(self.acc, Product) else self.acc
        self.result = value(a.float() @ self.b.read().float()) + acc
        for cell in self.read_tiles():
            cell.readers -= 1
