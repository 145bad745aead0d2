"""The planted faults: a tensor that ends before its last element, or never had it written; PTX with a barrier broken.

Each is made for one kernel of one path, in memory, for the time of a launch. No kernel's source is touched.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ALLOCATION = 512  # bytes between the beginnings of two allocations, at least
PTX_TOOLS = ("racecheck", "synccheck")  # whose plant is in the compiled kernel

_BARRIER = re.compile(r"\bbar(?:rier)?(?:\.cta)?\.sync(?:\.aligned)?\s+\d+(?:\s*,\s*\d+)?\s*;")
_ANY_BARRIER = re.compile(r"\b(?:bar|barrier|mbarrier)\.")
_ATOMIC = re.compile(r"\batom\.(?!shared)")
_ENTRY = re.compile(r"\.entry\b[^{]*\{")
_ONE_WARP = re.compile(r"\.(?:req|max)ntid\s+32\b(?!\s*,\s*[2-9])")
_LOAD = re.compile(r"\b(?:ld\.global|ld\.volatile\.global|cp\.async|atom\.|ld\.acquire)")


@dataclasses.dataclass(frozen=True)
class Sees:
    """What of a compiled kernel the tools could see at all, read from its PTX or machine code.

    barrier: a barrier of the block, which a plant can break; other_barrier: one of another kind (mbarrier).
    """

    shared: bool
    barrier: bool
    other_barrier: bool
    loads: bool


def sees(ptx: str) -> Sees:
    """Read from PTX."""
    code = re.sub(r"//[^\n]*", "", ptx)
    plain = bool(_BARRIER.search(code))
    return Sees(
        shared=bool(re.search(r"\.shared(?:::\w+)?[.\s]", code)),
        barrier=plain,
        other_barrier=bool(_ANY_BARRIER.search(_BARRIER.sub("", code))),
        loads=bool(_LOAD.search(code)),
    )


def sees_in_sass(opcodes: list[str]) -> Sees:
    """Read from machine instructions, for a kernel that nvcc compiled."""
    heads = {opcode.partition(".")[0] for opcode in opcodes}
    return Sees(
        shared=bool(heads & {"LDS", "STS", "ATOMS", "LDSM", "STSM", "LDGSTS", "UTMALDG"}),
        barrier="BAR" in heads,
        other_barrier="SYNCS" in heads,
        loads=bool(heads & {"LDG", "LDGSTS", "ATOMG", "UTMALDG"}),
    )


def nothing_to_see(tool: str, found: Sees) -> str | None:
    """Why the tool has nothing to look at in a kernel, as a sentence, or None where a fault can be planted."""
    if tool == "initcheck" and not found.loads:
        return "The kernel reads nothing from global memory."
    if tool == "racecheck" and not found.shared:
        return "The kernel has no shared memory."
    if tool in PTX_TOOLS and not found.barrier:
        if found.other_barrier:
            return "Its threads wait at mbarriers only; no fault is planted there."
        return "The kernel has no barrier."
    return None


def renamed(ptx: str, name: str, new: str) -> str:
    """The PTX with its entry under another name.

    Raises:
        ValueError: it has no entry of that name.
    """
    text, count = re.subn(rf"(?<![\w$]){re.escape(name)}(?![\w$])", new, ptx)
    if not re.search(rf"\.entry\s+{re.escape(new)}\b", text) or not count:
        raise ValueError(f"The PTX has no entry named {name!r}.")
    return text


def without_barriers(ptx: str) -> str:
    """The PTX without the barriers of its block: what they kept in order is a race.

    A kernel with a global atomic or an mbarrier keeps them: there they may bring all threads the number of the part
    that they own, or hand work from warps to warps, without which the kernel would end the process by an address, or
    wait for ever, before anything is reported.
    """
    return ptx if _ATOMIC.search(ptx) or "mbarrier." in ptx else _BARRIER.sub("", ptx)


def two_warps_write_one_word(ptx: str) -> str:
    """The PTX in which threads 0 and 32 of block 0 begin by writing their numbers to the first word of shared memory.

    Nothing has been put there yet, so the kernel computes what it did; threads of two warps that write to one place
    with no barrier between them are a race all the same. Of a block of one warp all threads write. No more threads do,
    and no other block: the tool notes every pair that races, and blocks that wait for one another stood still for
    longer than a run has while it did.

    Raises:
        ValueError: the kernel has no shared memory of Triton's.
    """
    if "global_smem" not in ptx:
        raise ValueError("The PTX has no shared memory named global_smem.")
    others = "0" if _ONE_WARP.search(ptx) else "-33"  # the bits of a thread's number that must be 0 for it to write
    write = (
        "{ .reg .pred %plant_p; .reg .b32 %plant_a, %plant_b, %plant_t; "
        "mov.u32 %plant_t, %tid.x; and.b32 %plant_a, %plant_t, " + others + "; mov.u32 %plant_b, %ctaid.x; "
        "or.b32 %plant_a, %plant_a, %plant_b; mov.u32 %plant_b, %ctaid.y; or.b32 %plant_a, %plant_a, %plant_b; "
        "mov.u32 %plant_b, %ctaid.z; or.b32 %plant_a, %plant_a, %plant_b; setp.eq.s32 %plant_p, %plant_a, 0; "
        "mov.u32 %plant_a, global_smem; @%plant_p st.volatile.shared.b32 [%plant_a], %plant_t; }"
    )
    return _at_the_beginning(ptx, write)


def one_thread_leaves_out_a_barrier(ptx: str) -> str:
    """The PTX that begins with a barrier of the block, to which thread 0 of block 0 does not come while its warp does.

    It is a new one. Where one of the kernel's own was left out, kernels in which warps hand numbers to one another
    stood still and the tool said nothing, or block 0 had no use for that barrier and there was no fault.
    """
    barrier = (
        "{ .reg .pred %plant_p; .reg .b32 %plant_a, %plant_b; mov.u32 %plant_a, %tid.x; mov.u32 %plant_b, %ctaid.x; "
        "or.b32 %plant_a, %plant_a, %plant_b; setp.ne.s32 %plant_p, %plant_a, 0; @%plant_p bar.sync 0; }"
    )
    return _at_the_beginning(ptx, barrier)


def _at_the_beginning(ptx: str, code: str) -> str:
    return _ENTRY.sub(lambda match: f"{match.group(0)}\n{code}\n", ptx, count=1)


def planted_ptx(tool: str, ptx: str) -> str:
    """The PTX with the tool's fault in it. Only for PTX_TOOLS, and where `nothing_to_see` is None."""
    if tool == "racecheck":
        return two_warps_write_one_word(without_barriers(ptx))
    return one_thread_leaves_out_a_barrier(ptx)


CUDA_ROOTS = ("library.cu", "ladder.cu", "essentials.cu", "ladder_hopper.cu")  # the libraries, by their root files
_KERNEL = re.compile(r"__global__ void[^;{]*\{")
# Where copies or cooperating warps count on a barrier it stays behind the racing word, or the kernel would wait for
# ever before anything is reported. Hopper's kernels use all the shared memory there is: the word is one of theirs.
_WORD = "{ __shared__ volatile int planted; if (blockIdx.x + blockIdx.y == 0) planted = threadIdx.x; "
_HOPPER_WORD = (
    "{ volatile unsigned char* planted = hopper_shared; if (blockIdx.x + blockIdx.y == 0) planted[0] = threadIdx.x; "
)
_LEFT_OUT = "if (threadIdx.x + blockIdx.x + blockIdx.y != 0) { "


def cuda_replacements(tool: str, root_file: str, sources: Mapping[str, str]) -> dict[str, str]:
    """What takes the place of what in the sources of a CUDA library. Only for PTX_TOOLS.

    racecheck: at each barrier a word that all threads of block 0 write, since the tool does not look at atomics, and a
    kernel may have nothing else between its barriers. synccheck: a barrier that thread 0 of block 0 leaves out; where
    the only barriers are in loops, it is a new one at the beginning of the kernel, since of a barrier under a condition
    in a loop nvcc makes code in which the tool reports nothing.
    """
    if tool == "racecheck":
        if root_file == "ladder_hopper.cu":
            return {f"{call}();": f"{_HOPPER_WORD}{call}(); }}" for call in ("__syncthreads", "cluster_sync")}
        return {"__syncthreads();": _WORD + ("}" if root_file == "library.cu" else "__syncthreads(); }")}
    if root_file in ("ladder.cu", "essentials.cu"):
        heads = [head for text in sources.values() for head in _KERNEL.findall(text)]
        return {head: f"{head} {_LEFT_OUT}__syncthreads(); }}" for head in heads}
    calls = ["__syncthreads();"] + ["warpgroup_sync(1 + warpgroup);"] * (root_file == "ladder_hopper.cu")
    return {call: f"{_LEFT_OUT}{call} }}" for call in calls}


def planted_tensor(tool: str, tensor: Any) -> Any:
    """The same values and strides in memory of its own, whose last element lies outside it (memcheck) or was never
    written (initcheck).

    Strides are zero or more. The allocation must be one of its own: PYTORCH_NO_CUDA_MEMORY_CACHING=1. It ends within a
    granule of ALLOCATION bytes, so that the next allocation cannot begin where it ends.
    """
    import torch

    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) + 1
    memory = torch.empty((reach,), dtype=tensor.dtype, device=tensor.device)
    made = memory.as_strided(tensor.shape, tensor.stride())
    _fill_but_last(made, tensor)
    if tool == "memcheck":
        size = (reach - 1) * tensor.element_size()
        memory.untyped_storage().resize_(size if size % ALLOCATION else max(size - tensor.element_size(), 0))
    return made


def _fill_but_last(made: Any, tensor: Any) -> None:
    if made.dim() == 0:
        return
    if made.shape[0] > 1 and made.stride(0) != 0:
        made[:-1].copy_(tensor[:-1])
    _fill_but_last(made[-1], tensor[-1])


def planted_argument(tool: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a launch with the first tensor, or tensor descriptor, planted.

    Raises:
        ValueError: there is none.
    """
    for index, value in enumerate(arguments):
        if hasattr(value, "data_ptr"):
            planted = planted_tensor(tool, value)
        elif hasattr(value, "base"):
            planted = dataclasses.replace(value, base=planted_tensor(tool, value.base))
        else:
            continue
        return (*arguments[:index], planted, *arguments[index + 1 :])
    raise ValueError("The launch has no tensor to plant a fault in.")
