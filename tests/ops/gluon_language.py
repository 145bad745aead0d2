"""What a Gluon kernel's text calls, as Python functions over the model's machine and memory."""

from types import SimpleNamespace

import numpy as np
import torch

from .gluon_machine import Broken, Machine
from .gluon_memory import Barrier, Cell, Product, Shared, Value, value


def language(machine: Machine, program: int, programs: int, chained: bool) -> dict:
    """The names that a kernel's file imports, for one program of the grid; the rest as `gluon_model.load_kernel`."""

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
    return {
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
