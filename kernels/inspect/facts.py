"""What a compiler made of one kernel, and how its reports are read."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from kernels.inspect.limits import shared_limit_bytes


class InspectionFailed(RuntimeError):
    """A kernel could not be compiled. The message says which, for what, and ends with the compiler's own words."""


class ToolMissing(RuntimeError):
    """A compiler or disassembler is not installed. The message says how to get it."""


@dataclass(frozen=True)
class CompileFacts:
    """The result of compiling one kernel for one architecture.

    Attributes:
        kernel: its name.
        language: "cuda" or "triton".
        arch: compute capability, 90 for sm_90.
        registers: 32-bit registers per thread.
        spill_store_bytes, spill_load_bytes: bytes per thread that the compiler moves to local memory and back because
            registers ran out.
        shared_bytes: shared memory per block, static and dynamic, without the 1 KiB that the system reserves.
        stack_bytes: local memory frame per thread.
        ptx: the kernel's PTX, without line information.
        sass: the machine instructions, one per line; empty where no disassembler is installed.
        toolchain: the versions that made it.
    """

    kernel: str
    language: str
    arch: int
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    stack_bytes: int
    ptx: str
    sass: str
    toolchain: str

    def instructions(self, prefix: str) -> int:
        """How many SASS instructions have an opcode that begins with `prefix`: "LDG", "LDG.E.128", "BAR", "SHFL".

        Counts the instructions of the program text, not their executions: a loop's body counts once per copy.

        Raises:
            ToolMissing: the machine code was not disassembled, because there is no cuobjdump.
        """
        if not self.sass:
            raise ToolMissing(
                "Instructions cannot be counted: there is no cuobjdump. Triton's wheel and the CUDA toolkit carry it."
            )
        return sum(opcode.startswith(prefix) for opcode in opcodes(self.sass))

    def ptx_count(self, prefix: str) -> int:
        """How many PTX instructions begin with `prefix`: "bar.sync", "ld.global", "shfl"."""
        pattern = re.compile(r"^\s*(?:@!?%\w+\s+)?(?P<opcode>[a-z][\w.:]*)", re.M)
        return sum(match["opcode"].startswith(prefix) for match in pattern.finditer(self.ptx))

    @property
    def fits(self) -> bool:
        """Whether a block's shared memory is available on this architecture: compiling does not ask, launching does."""
        return self.shared_bytes <= shared_limit_bytes(self.arch)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, object]) -> CompileFacts:
        return cls(**values)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Resources:
    """What ptxas says that one kernel uses."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    stack_bytes: int


def read_ptxas_log(log: str) -> dict[str, Resources]:
    """The resources of each kernel in the output of `ptxas -v`, by its (mangled) name.

    Raises:
        ValueError: a kernel's entry lacks the numbers; the message quotes the log.
    """
    found: dict[str, Resources] = {}
    pieces = re.split(r"Compiling entry function '([^']+)'[^\n]*\n", log)
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        # A kernel with functions that were not inlined is followed by their properties, too; its own name is first.
        frame = re.search(
            rf"Function properties for {re.escape(name)}\s+"
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
            text,
        )
        used = re.search(r"Used (\d+) registers([^\n]*)", text)
        if frame is None or used is None:
            raise ValueError(f"ptxas reported no resources for {name}:\n{log}")
        shared = re.search(r"(\d+) bytes smem", used[2])
        stack, stores, loads = (int(number) for number in frame.groups())
        found[name] = Resources(int(used[1]), stores, loads, int(shared[1]) if shared else 0, stack)
    return found


_SASS_LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?;)", re.M)


def clean_sass(dump: str) -> str:
    """The instructions of `cuobjdump -sass` for one function: address and text, without the encodings."""
    return "\n".join(f"/*{address}*/  {text}" for address, text in _SASS_LINE.findall(dump))


def opcodes(sass: str) -> list[str]:
    """The opcode of each instruction, with its suffixes: "LDG.E.128", "BAR.SYNC.DEFER_BLOCKING"."""
    return re.findall(r"^/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", sass, re.M)


def ptx_of(module: str, entry: str) -> str:
    """One kernel's PTX: the module's three directives, then the entry alone, without line information.

    Raises:
        ValueError: the module has no such entry.
    """
    head = re.findall(r"^\.(?:version|target|address_size).*$", module, re.M)
    match = re.search(rf"^[^\n]*\.entry {re.escape(entry)}\s*\(.*?^\}}", module, re.M | re.S)
    if match is None:
        raise ValueError(f"The PTX has no entry {entry}.")
    lines = [line.rstrip() for line in match[0].splitlines() if not re.match(r"\s*(\.loc\b|//|$)", line)]
    return "\n".join([*head, "", *lines]) + "\n"
