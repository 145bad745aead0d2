"""Which kernels an operator launches for a shape, and what the compiler makes of each. Needs no GPU.

    for launch in launches("softmax", (4096, 1024), "float32"):
        print(launch.kernel, launch.grid, launch.num_warps)

The operator itself is asked, in a helper process, on tensors without memory: see `kernels.inspect.launches_worker`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from kernels.inspect.facts import CompileFacts, opcodes
from kernels.inspect.triton import Argument, TritonRequest, ask, compile_triton_many, triton_version

# Multiprocessors of a data-centre or desktop card of each compute capability: A100, H100 and H200, RTX 5090. A plan
# looks at them.
SM_COUNTS = {80: 108, 90: 132, 120: 170}

WIDTHS = (8, 16, 32, 64, 128)
STAGES = ("ttir", "ttgir", "llir", "ptx")


@dataclass(frozen=True)
class LaunchQuery:
    """One call of an operator: its name, the shape and dtype of its inputs, compute capability and multiprocessors."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    arch: int = 90
    sm_count: int = 132
    signature: Mapping[str, Argument] = ()  # what `ask` asks of every request; there is none here


@dataclass(frozen=True)
class Launch:
    """One launch: the kernel ("module:name"), its grid, its arguments as `TritonRequest` has them, warps and stages.

    maxnreg: registers that a thread may have, where the launch says so.
    """

    kernel: str
    signature: Mapping[str, Argument]
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    maxnreg: int | None = None

    @property
    def name(self) -> str:
        """The kernel's name alone."""
        return self.kernel.rpartition(":")[2]

    @property
    def programs(self) -> int:
        """How many programs the grid has."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def tile(self) -> str:
        """What the plan chose: "BLOCK_M=2, BLOCK_N=512"; empty where the kernel has no such constant."""
        sizes = [f"{n}={v}" for n, v in self.signature.items() if n.startswith("BLOCK") and isinstance(v, int)]
        return ", ".join(sizes)

    def request(self, arch: int) -> TritonRequest:
        """The same kernel for the compiler."""
        return TritonRequest(self.kernel, self.signature, arch, self.num_warps, self.num_stages, self.maxnreg)


def query(op: str, shape: Sequence[int], dtype: str, arch: int = 90, sm_count: int | None = None) -> LaunchQuery:
    """A query, with the multiprocessors of a usual card where none are given.

    Raises:
        ValueError: no such card is known, and `sm_count` is not given.
    """
    if sm_count is None:
        if arch not in SM_COUNTS:
            known = ", ".join(map(str, SM_COUNTS))
            raise ValueError(f"The multiprocessors of sm_{arch} are not known here; give sm_count, or one of {known}.")
        sm_count = SM_COUNTS[arch]
    return LaunchQuery(op, tuple(shape), dtype, arch, sm_count)


def launches_many(queries: Sequence[LaunchQuery]) -> list[list[Launch]]:
    """What the "triton" implementation launches for each query, in order, from one helper process.

    Raises:
        ToolMissing: Triton is not installed.
        InspectionFailed: there is no such operator, it does not take the dtype, or it refuses the shape.
    """
    triton_version()
    answers = ask("kernels.inspect.launches_worker", list(queries), {})
    return [[Launch(**each | {"grid": tuple(each["grid"])}) for each in answer["launches"]] for answer in answers]


def launches(op: str, shape: Sequence[int], dtype: str, arch: int = 90, sm_count: int | None = None) -> list[Launch]:
    """`launches_many` for one shape. An empty input launches nothing: an empty list."""
    return launches_many([query(op, shape, dtype, arch, sm_count)])[0]


def compiled(found: Sequence[Launch], arch: int = 90) -> list[CompileFacts]:
    """What the compiler makes of each launch. Raises as `compile_triton_many`."""
    return compile_triton_many([launch.request(arch) for launch in found])


def stage_text(launch: Launch, arch: int, stage: str) -> str:
    """The kernel as one stage of Triton's compiler leaves it: "ttir", "ttgir", "llir" or "ptx".

    Raises:
        ValueError: there is no such stage; a kernel in Gluon begins with "ttgir". Otherwise as `compile_triton`.
    """
    if stage not in STAGES:
        raise ValueError(f"{stage!r} is not a stage of the compiler; there are {', '.join(STAGES)}.")
    flags = {"TRITON_DISABLE_LINE_INFO": "1"}
    found = ask("kernels.inspect.stage_worker", [launch.request(arch)], flags)[0]
    if stage not in found:
        raise ValueError(f"{launch.kernel} has no stage {stage!r}; it has {', '.join(found)}.")
    return found[stage]


@dataclass(frozen=True)
class InstructionCounts:
    """Machine instructions of the program text by kind; a loop's body counts once for each copy of it.

    Loads and stores of global memory are counted by the bits that one instruction moves for one thread. `copies` are
    those that go to shared memory without passing through registers (LDGSTS, UBLKCP, UTMALDG). Barriers are those of a
    block and of shared-memory objects, not WARPSYNC.
    """

    total: int
    global_loads: Mapping[int, int]
    global_stores: Mapping[int, int]
    shared_loads: int
    shared_stores: int
    local_accesses: int
    copies: int
    atomics: int
    matrix: Mapping[str, int]
    barriers: int
    shuffles: int
    special: int

    def to_json(self) -> dict[str, object]:
        """With the widths as text, as JSON wants them."""
        values = asdict(self)
        for name in ("global_loads", "global_stores"):
            values[name] = {str(width): count for width, count in values[name].items()}
        return values


def width_bits(opcode: str) -> int:
    """Bits for each thread of a memory instruction: LDG.E.128 has 128, LDG.E.U16 16, one that says nothing 32."""
    sizes = [int(found) for found in re.findall(r"\.[USB]?(8|16|32|64|128)\b", opcode)]
    return sizes[-1] if sizes else 32


def count_instructions(facts: CompileFacts) -> InstructionCounts:
    """The machine instructions of a compiled kernel by kind.

    Raises:
        ToolMissing: it was not disassembled.
    """
    facts.instructions("")  # says what is missing where there is no machine code
    loads: dict[int, int] = {}
    stores: dict[int, int] = {}
    matrix: dict[str, int] = {}
    plain = dict.fromkeys(("shared_loads", "shared_stores", "local", "copies", "atomics", "bar", "shfl", "mufu"), 0)
    kinds = (
        ("shared_loads", ("LDS", "LDSM")),
        ("shared_stores", ("STS", "STSM")),
        ("local", ("LDL", "STL")),
        ("copies", ("LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG")),
        ("atomics", ("ATOM", "ATOMG", "ATOMS", "RED", "REDG")),
        ("bar", ("BAR", "SYNCS")),
        ("shfl", ("SHFL", "REDUX")),
        ("mufu", ("MUFU",)),
    )
    names = opcodes(facts.sass)
    for opcode in names:
        head = opcode.partition(".")[0]
        if head == "LDG":
            loads[width_bits(opcode)] = loads.get(width_bits(opcode), 0) + 1
        elif head == "STG":
            stores[width_bits(opcode)] = stores.get(width_bits(opcode), 0) + 1
        elif head in ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "QMMA", "UTCHMMA", "UTCQMMA", "OMMA"):
            matrix[head] = matrix.get(head, 0) + 1
        for kind, heads in kinds:
            plain[kind] += head in heads
    return InstructionCounts(
        total=sum(name != "NOP" for name in names),
        global_loads=dict(sorted(loads.items())),
        global_stores=dict(sorted(stores.items())),
        shared_loads=plain["shared_loads"],
        shared_stores=plain["shared_stores"],
        local_accesses=plain["local"],
        copies=plain["copies"],
        atomics=plain["atomics"],
        matrix=dict(sorted(matrix.items())),
        barriers=plain["bar"],
        shuffles=plain["shfl"],
        special=plain["mufu"],
    )
