"""The engine's nouns: a page, its blocks and inline values, what a run produced, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NEEDS = ("cpu", "triton", "nvcc", "cxx", "gpu")
"""What a block may ask of a machine: nothing, Triton (interpreted), nvcc, a host C++ compiler, an NVIDIA GPU."""

NOT_RUN = "not run: "  # how a fault's message begins where an earlier block of its session failed
REFUSED = ("failed", "option", "markdown", "unplaced", "store")
"""Faults of a page that is never accepted while it has them."""
EVIDENCE = ("run", "trace", "compile", "measure")
"""What the output of a block is evidence of."""


@dataclass(frozen=True)
class PageSource:
    """The text of a page as the Markdown converter will get it, and where it lies."""

    name: str
    """Path below the documentation folder, with forward slashes: ``labs/3-softmax.md``. A notebook ends in ``.py``."""
    path: Path
    body: str
    """The Markdown, without front matter."""
    line_offset: int = 0
    """Lines of front matter above the body."""
    digest: str = ""
    """Changes with the file's whole text, front matter included."""

    @property
    def slug(self) -> str:
        """Folder of the page's accepted outputs: the name without its ending."""
        return self.name.removesuffix(".md").removesuffix(".py")


@dataclass(frozen=True)
class Block:
    """One executed fence."""

    id: str
    line: int
    """Line of the opening fence in the file, counted from one."""
    language: str
    code: str
    needs: tuple[str, ...] = ("cpu",)
    check: str = "exact"
    rtol: float = 0.0
    atol: float = 0.0
    why: str = ""
    normalise: tuple[str, ...] = ()
    timeout_s: float = 60.0
    session: str = ""
    evidence: str = "run"
    html: bool = False
    shown: bool = True
    """The page shows the source, and not the output alone."""
    returncode: int = 0
    raises: str = ""

    @property
    def compiled(self) -> bool:
        """Runs in the worker that does not interpret Triton."""
        return "gpu" in self.needs

    @property
    def suffix(self) -> str:
        """Ending of the accepted file."""
        return ".html" if self.html else ".txt"


@dataclass(frozen=True)
class Inline:
    """One value in prose: an expression evaluated in the page's session, after the blocks above it."""

    line: int
    column: int
    expression: str

    @property
    def place(self) -> str:
        """Line and column in the body, as written into the annotated text."""
        return f"{self.line}:{self.column}"


@dataclass(frozen=True)
class Fault:
    """Something that makes a page untrue or unbuildable. `kind` is a word that the report groups by."""

    page: str
    line: int
    kind: str
    message: str
    detail: str = ""
    block: str = ""

    def where(self, docs: str = "docs") -> str:
        """``docs/labs/3-softmax.md:57``; a notebook lies elsewhere: ``lessons_src/notebooks/3-softmax.py:57``."""
        return f"{'lessons_src' if self.page.endswith('.py') else docs}/{self.page}:{self.line}"


@dataclass
class PageScan:
    """What a page asks to be run, in document order."""

    source: PageSource
    blocks: list[Block] = field(default_factory=list)
    inlines: list[Inline] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    """References whose source the page shows."""
    faults: list[Fault] = field(default_factory=list)

    def session_of(self, block: Block) -> list[Block]:
        """The block and those before it whose variables it sees, in order."""
        same = [b for b in self.blocks if (b.session, b.compiled) == (block.session, block.compiled)]
        return [b for b in same if b.line <= block.line]

    def needs_of(self, block: Block) -> tuple[str, ...]:
        """What a machine must have to run the block: its own needs, and those of the blocks that lead to it."""
        return tuple(dict.fromkeys(need for each in self.session_of(block) for need in each.needs))

    def before_inlines(self) -> list[Block]:
        """The blocks whose variables the page's inline values see: those of its own session above the last value."""
        last = max((inline.line for inline in self.inlines), default=0)
        return [b for b in self.blocks if not b.session and not b.compiled and b.line < last]

    def inline_needs(self) -> tuple[str, ...]:
        """What a machine must have to compute the inline values."""
        return tuple(dict.fromkeys(["cpu", *(need for block in self.before_inlines() for need in block.needs)]))

    def inline_keys(self) -> dict[str, str]:
        """Key of each inline value by its place: its expression, and a count where an expression comes again."""
        keys: dict[str, str] = {}
        used: dict[str, int] = {}
        for inline in self.inlines:
            used[inline.expression] = used.get(inline.expression, 0) + 1
            count = used[inline.expression]
            keys[inline.place] = inline.expression + (f" #{count}" if count > 1 else "")
        return keys


@dataclass
class Output:
    """What one block produced, normalised."""

    text: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    """Project modules that the process had imported when the block ended."""
    data: list[str] = field(default_factory=list)
    """Files and folders of the project that it read, relative to the root."""
    stale_records: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Outcome:
    """What became of a block: `status` is ran, kept (from this machine's last run), frozen or failed."""

    block: Block
    status: str
    output: Output
    label: str
    """On what it ran or was recorded."""
    commit: str
    faults: list[Fault] = field(default_factory=list)


@dataclass
class PageOutcome:
    """What became of a page."""

    scan: PageScan
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """Text of every inline value by `Inline.place`."""
    snippets: dict[str, Any] = field(default_factory=dict)
    """What the page includes of the sources, by reference: a `kernels.sources.Snippet` each."""
    faults: list[Fault] = field(default_factory=list)
    not_chosen: int = 0
    """Blocks that have no outcome, since only others were asked for."""
    waiting: int = 0
    """Blocks and values that are to run, where the page shows what is known without."""

    def all_faults(self) -> list[Fault]:
        """The page's own faults and those of its blocks, by line."""
        found = [*self.faults, *(fault for outcome in self.outcomes.values() for fault in outcome.faults)]
        return sorted(found, key=lambda fault: (fault.line, fault.kind, fault.message))
