"""The Gluon kernels run as Python: their own text, with a model of Hopper's asynchronous parts around it.

Triton does not interpret Gluon. Here the kernel's functions run unchanged, each partition as a task, and only one task
at a time; which one goes on, and when a copy lands, is drawn at random, so that many seeds try many orders. The model
keeps the rules that the hardware does not check. It stops with `Broken` when

- a tile is read that has not landed, or is overwritten while a product or a copy still reads it;
- the result of a product is used before it was waited for;
- a tile that was written by threads is copied out without a fence;
- a barrier gets an arrival too many;
- every task waits and no copy is under way: a deadlock.

Products read their operands when they are waited for, as late as they may. Tensor maps are followed address by address,
in 64 bits that wrap around. What it cannot say: anything about layouts, registers, and time.
"""

import ast
import random
import threading
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

PIECE = 16  # bytes that the copy engine writes at once
BESIDE = {"matmul_tf32": "matmul_gluon"}  # a kernel's file, and the one whose functions it imports


class Broken(AssertionError):
    """A rule of the machine was broken."""


class Value(torch.Tensor):
    """A tensor in registers."""

    type = SimpleNamespace(layout=None)


def value(x, dtype=None):
    return torch.as_tensor(x, dtype=dtype).as_subclass(Value)


class Machine:
    """Tasks, copies under way, and the order in which they go on."""

    def __init__(self, seed: int):
        self.random, self.tasks, self.copies = random.Random(seed), [], []
        # Some seeds let results leave as late as they may.
        self.slow_stores = self.random.random() < 0.5

    def run(self, functions) -> None:
        self.tasks = [Task(self, function) for function in functions]
        while True:
            ready = [task for task in self.tasks if not task.done and task.ready()]
            if not ready and not self.copies:
                break
            copies = [each for each in self.copies if each.__name__ == "land" or not self.slow_stores]
            if not ready:
                copies = copies or self.copies
            pick = self.random.randrange(len(ready) + len(copies))
            if pick < len(ready):
                ready[pick].go_on()
            else:
                copy = copies[pick - len(ready)]
                self.copies.remove(copy)
                copy()
            failed = next((task.error for task in self.tasks if task.error), None)
            if failed:
                raise failed
        if not all(task.done for task in self.tasks):
            raise Broken("deadlock: every task waits at a barrier, and no copy is under way")

    @property
    def current(self) -> "Task":
        return threading.current_thread().task


class Task:
    """One partition, on a thread of its own that runs only while it has the turn."""

    def __init__(self, machine: Machine, function):
        self.ready, self.done, self.error = (lambda: True), False, None
        self.products, self.stores = [], []
        self._mine, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.task = self
        self._thread.start()

    def _run(self, function) -> None:
        self._mine.acquire()
        try:
            function()
        except BaseException as error:
            self.error = error
        self.done = True
        self._theirs.release()

    def go_on(self) -> None:
        self._mine.release()
        self._theirs.acquire()

    def pause(self, until=lambda: True) -> None:
        self.ready = until
        self._theirs.release()
        self._mine.acquire()


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


def load_kernel(
    machine: Machine,
    program: int,
    programs: int,
    group_rows: int,
    changes: tuple = (),
    name: str = "attention_gluon",
    chained: bool = False,
) -> dict:
    """The kernel's functions, as Python functions for one program of the grid.

    name: the file in kernels.ops. changes: pairs of text, the first of which stands once in it and is replaced by
    the second. chained: whether a product may be waited for while another one that it is added to is under way.
    """
    module = import_module(f"kernels.ops.{name}")

    def allocate(dtype, shape, layout):
        if dtype is None:  # int64: barriers
            return Shared([Barrier() for _ in range(shape[0])], tuple(shape), dtype)
        poison = (torch.full((int(np.prod(shape[1:])),), float("nan"), dtype=dtype) for _ in range(shape[0]))
        return Shared([Cell(data) for data in poison], tuple(shape), dtype)

    def smaller(x, y):
        return min(x, y) if isinstance(x, int) and isinstance(y, int) else value(torch.minimum(value(x), value(y)))

    def larger(x, y):
        return max(x, y) if isinstance(x, int) and isinstance(y, int) else value(torch.fmax(value(x), value(y)))

    def where(condition, x, y):
        return value(torch.where(condition, value(x, torch.float32), value(y, torch.float32)))

    def load(pointer, mask=None, other=None):
        at = torch.as_tensor(pointer.offset).as_subclass(torch.Tensor)
        if mask is None:
            found = pointer.base.reshape(-1)[at]
        else:
            found = torch.full(at.shape, other, dtype=pointer.base.dtype)
            found[mask] = pointer.base.reshape(-1)[at[mask]]
        return value(found) if found.dim() else int(found)

    def store(pointer, values, mask):
        pointer.base.reshape(-1)[pointer.offset[mask]] = values[mask]

    def add(pointer, values, sem):
        pointer.base.reshape(-1).index_add_(0, torch.as_tensor(pointer.offset), torch.as_tensor(values))

    def init(barrier, count):
        barrier.count = barrier.pending = count

    def arrive(barrier, count=1, pred=True):
        machine.current.pause()
        if pred:
            barrier.arrive(count)

    def expect(barrier, size):
        barrier.bytes += size
        barrier.arrive(1)

    def wait(barrier, phase):
        machine.current.pause(lambda: (barrier.phase & 1) != (int(phase) & 1))

    def fetch(desc, at, barrier, place):
        cell = place.cell
        cell.about_to_change()
        cell.landed, cell.copying, cell.data = False, True, torch.full_like(cell.data, float("nan"))

        def land():
            cell.data, cell.landed, cell.copying = desc.read(at).reshape(-1), True, False
            barrier.bytes -= desc.block_type.nbytes
            barrier.settle()

        machine.copies.append(land)
        machine.current.pause()

    def send(desc, at, place):
        cell = place.cell
        if not cell.fenced:
            raise Broken("a tile that threads wrote is copied out without a fence")
        cell.leaving += 1

        def leave():
            desc.write(at, cell.data)
            cell.leaving -= 1

        machine.current.stores.append(leave)
        machine.copies.append(leave)

    def store_wait(outstanding):
        machine.current.pause()
        stores = machine.current.stores
        while len(stores) > outstanding:  # the oldest first; some have left by themselves, not always in order
            leave = stores.pop(0)
            if leave in machine.copies:
                machine.copies.remove(leave)
                leave()

    def fence():
        for cell in every_cell:
            if cell.writer is machine.current:
                cell.fenced = cell.landed = True

    def multiply(a, b, acc, use_acc=True, is_async=False):
        assert is_async and isinstance(acc, (Value, Product))
        product = Product(a, b, acc if use_acc else torch.zeros(1))
        for cell in product.read_tiles():
            if not cell.landed:
                raise Broken("a product reads a tile that has not landed")
            cell.readers += 1
        machine.current.products.append(product)
        machine.current.pause()
        return product

    def wait_products(num_outstanding, deps):
        machine.current.pause()
        products = machine.current.products
        while len(products) > num_outstanding:
            products.pop(0).finish()
        running = products if chained else []
        results = [each.result if isinstance(each, Product) and each not in running else each for each in deps]
        if any(each is None for each in results):
            raise Broken("the result of a product is taken that was not waited for")
        return results[0] if len(results) == 1 else tuple(results)

    every_cell = []

    def allocate_known(*arguments):
        made = allocate(*arguments)
        every_cell.extend(cell for cell in made.cells if isinstance(cell, Cell))
        return made

    def specialize(partitions, warps, registers):
        assert len(partitions) == len(warps) + 1
        machine.run([lambda f=f, a=a: f(*a) for f, a in partitions])

    def largest(x, axis):
        return value(torch.where(x.isnan(), float("-inf"), x).amax(axis))

    gl = SimpleNamespace(
        constexpr=lambda x: x, int64=None, int32=torch.int64, float32=torch.float32, program_id=lambda axis: program,
        num_programs=lambda axis: programs, load=load, store=store, cdiv=lambda a, b: -(-a // b), minimum=smaller,
        maximum=larger, where=where, static_range=range, allocate_shared_memory=allocate_known,
        zeros=lambda shape, dtype, layout: value(torch.zeros(shape, dtype=dtype)),
        full=lambda shape, x, dtype, layout: value(torch.full(shape, x, dtype=dtype)),
        arange=lambda a, b, layout: value(torch.arange(a, b)), convert_layout=lambda x, layout: x, max=largest,
        sum=lambda x, axis: value(x.sum(axis)), exp2=lambda x: value(torch.exp2(x)),
        log2=lambda x: value(torch.log2(x)), SliceLayout=lambda *a: None, DotOperandLayout=lambda *a: None,
        NVMMADistributedLayout=lambda *a, **_: None, warp_specialize=specialize, cast=lambda x, dtype: x,
        atomic_add=add,
        BlockedLayout=lambda *a: None, SwizzledSharedLayout=lambda *a: None,
        thread_barrier=lambda: machine.current.pause(),
        NVMMASharedLayout=None, rsqrt=lambda x: value(torch.rsqrt(x)), split=lambda x: (x[..., 0], x[..., 1]),
        expand_dims=lambda x, axis: x.unsqueeze(axis),
        inline_asm_elementwise=lambda asm, constraints, args, **_: value(torch.exp2(args[0])),
    )  # fmt: skip
    names = {
        "gl": gl,
        "triton": SimpleNamespace(jit=lambda f: f),
        "tl": SimpleNamespace(constexpr=None),
        "gluon": SimpleNamespace(jit=lambda f=None, **options: f if f else lambda g: g),
        "mbarrier": SimpleNamespace(init=init, arrive=arrive, expect=expect, wait=wait, MBarrierLayout=lambda: None),
        "tma": SimpleNamespace(
            async_copy_global_to_shared=fetch, async_copy_shared_to_global=send, store_wait=store_wait
        ),
        "fence_async_shared": fence,
        "warpgroup_mma": multiply,
        "warpgroup_mma_wait": wait_products,
        "torch": torch,
        "TensorDescriptor": None,
        "gdc_wait": lambda: None,
        "gdc_launch_dependents": lambda: None,
    }
    text = Path(module.__file__).read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise LookupError(f"{old!r} stands {text.count(old)} times in the kernel; expected once")
        text = text.replace(old, new)
    texts = [Path(module.__file__).with_name(f"{BESIDE[name]}.py").read_text()] if name in BESIDE else []
    for each in (*texts, text):
        tree = ast.parse(each)
        tree.body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
        exec(compile(tree, module.__file__, "exec"), names)
    names["GROUP_ROWS"] = names["ROWS"] = group_rows
    return names


def attend(q, k, v, lengths, causal, window, scale, plan, programs, seed, group_rows, changes=()) -> tuple:
    """out and lse of attention by the kernel, program after program, in tiles of group_rows queries a consumer.

    `kernels.ops.attention_gluon_launch.ROWS` must be group_rows, too.
    """
    from kernels.ops import attention_gluon_launch as host

    B, H, Sq, _ = q.shape
    out = torch.full(q.shape, float("nan"), dtype=q.dtype)
    lse = torch.full((B, H, Sq), float("nan"))
    order = None
    if plan.schedule == "each":
        programs = B * H * -(-Sq // plan.tile_rows)
    elif plan.schedule == "planned":
        work = (B * H, Sq, k.shape[2], causal, window, plan, programs)
        order = torch.tensor(host.planned_order.__wrapped__(*work), dtype=torch.int32)
    values, constants = host.arguments(q, k, v, out, lse, lengths, order, causal, window, scale, plan)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    for program in range(programs):
        kernel = load_kernel(Machine(seed + program), program, programs, group_rows, changes)
        kernel["_attention_ring"](*values, **constants)
    return out, lse


def gradients(q, k, v, out, lse, dout, causal, scale, seed, changes=()) -> tuple:
    """dq, dk and dv by the kernels of the backward pass: one pass over the model, and those around it interpreted."""
    import triton

    from kernels.ops import attention_gluon_backward_launch as host
    from kernels.ops.attention_shared import steps

    B, H, Sq, D = q.shape
    rows_of, tiles = host.TILE, B * H * -(-Sq // host.TILE)
    rows, sums = torch.full((tiles, 2, rows_of), float("nan")), torch.full((tiles, rows_of * D), float("nan"))
    dq, dk, dv = (torch.full(each.shape, float("nan"), dtype=each.dtype) for each in (q, k, v))
    host._attention_rows[(tiles,)](out, dout, lse, rows, sums, H, Sq, *steps(dout), D=D, BLOCK_M=rows_of)
    values, constants = host.arguments(q, k, v, dout, dk, dv, rows, sums, causal, scale)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    programs = k.shape[0] * k.shape[1] * triton.cdiv(k.shape[2], 2 * rows_of)
    for program in range(programs):
        machine = Machine(seed + program)
        kernel = load_kernel(machine, program, programs, rows_of, changes, "attention_gluon_backward")
        kernel["_attention_one_pass"](*values, **constants)
    host._attention_dq_cast[(tiles,)](sums, dq, Sq, scale, D=D, BLOCK_M=rows_of)
    return dq, dk, dv


def multiply(a, b, out, tile, programs, seed, group_m=2, stages=3, changes=(), **more) -> torch.Tensor:
    """out = a @ b by the Gluon product, program after program; the rest as `kernels.ops.matmul_gluon.ring_launch`."""
    from kernels.ops import matmul_gluon
    from kernels.ops.matmul_launch import _outer_stride

    ways = _outer_stride(a), _outer_stride(b)
    (grid,), values, constants = matmul_gluon.ring_launch(a, b, out, ways, tile, programs, group_m, stages, **more)
    values = [Map(x) if hasattr(x, "block_shape") else Pointer(x) if isinstance(x, torch.Tensor) else x for x in values]
    constants = {name: x for name, x in constants.items() if name not in ("maxnreg", "launch_pdl")}
    for program in range(grid):
        kernel = load_kernel(Machine(seed + program), program, grid, 64, changes, "matmul_gluon", chained=True)
        kernel["_matmul_ring"](*values, **constants)
    return out
