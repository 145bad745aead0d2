"""What the tools say wrongly, or cannot say, of our kernels: each case with its reason, so that none passes in silence.

A report counts as misread only where its tool, its kernel and the line of its first access all stand here. Where the
line moves, or another access is reported, the check is "no" again, and somebody has to look.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ACCESS = re.compile(r"at (?P<kernel>\w+?)(?:__p\d+)?\+0x[0-9a-f]+ in (?P<file>[\w.]+):(?P<line>\d+)$")


@dataclass(frozen=True)
class Misread:
    """A report about code that keeps its order: the tool, the kernel, and the lines of the first access.

    reason: what keeps the order, read from the PTX and the machine code for sm_90a.
    """

    tool: str
    kernel: str
    file: str
    lines: tuple[int, ...]
    reason: str

    def says(self, tool: str, headline: str) -> bool:
        """Whether that report is the one meant here."""
        found = _ACCESS.search(headline)
        if found is None or (tool, found["kernel"], found["file"]) != (self.tool, self.kernel, self.file):
            return False
        return int(found["line"]) in self.lines


_ROLE = (
    "One byte a warp says which part of the kernel the warp runs. The first warps write it, and write it again at the "
    "end. All threads of the block pass barrier 1 four times: after the first write, after the byte was read, "
    "before the second write, and after it. Each read and each write has such a barrier between them. "
    "Why the tool misses that, it does not say."
)

MISREAD = (
    Misread(
        "racecheck",
        "_attention_one_pass",
        "attention_gluon_backward.py",
        (138, 139),
        "One warp writes the rows' values, all its lanes meet at bar.warp.sync, and then one lane arrives at the "
        "mbarrier that the readers wait at. The readers meet at bar.sync before one of them gives the place back, and "
        "every lane of the writer waits for that. So the order holds. In the machine code the compiler left out the "
        "meeting of the warp, whose lanes go together there anyway: 32 lanes store, one arrives. Probably that is what "
        "the tool stumbles over; it does not say.",
    ),
    Misread("racecheck", "_attention_one_pass", "attention_gluon_backward.py", (239,), _ROLE),
    Misread("racecheck", "_attention_ring", "attention_gluon.py", (365,), _ROLE),
    Misread("racecheck", "_matmul_ring", "matmul_gluon.py", (194,), _ROLE),
    Misread("racecheck", "_matmul_tf32", "matmul_tf32.py", (164,), _ROLE),
)

# Kernels whose first tensor is read by the copy engine (TMA) alone.
COPIED = (
    "_matmul_persistent", "_matmul_ring", "_matmul_tf32", "_attention_ring", "_attention_one_pass",
    "matmul_tma", "matmul_wgmma", "matmul_cluster", "matmul_persistent",
)  # fmt: skip


def is_misread(tool: str, headline: str) -> bool:
    """Whether a report stands in `MISREAD`."""
    return any(known.says(tool, headline) for known in MISREAD)


def why_misread(tool: str, headline: str) -> str:
    """The reason that stands in `MISREAD` for a report, or nothing."""
    return next((known.reason for known in MISREAD if known.says(tool, headline)), "")


def why_unseen(tool: str, kernel: str, earlier: bool = False) -> str:
    """Why a tool did not report a fault that was planted in a kernel, as a sentence, or nothing where nobody knows.

    earlier: whether the check is of an earlier run than the document's own.
    """
    if kernel in COPIED and tool == "initcheck":
        return (
            "The element that was never written is read by the copy engine (TMA) and by no load of a thread. By "
            "NVIDIA's release notes initcheck knows bulk copies from version 2025.4 on; the runs are of 2025.3."
        )
    if kernel in COPIED and tool == "memcheck":
        return (
            "The element behind the allocation is read by the copy engine (TMA) and by no load of a thread. The runs "
            "came to their end, and of no plant in such a tensor was there a report."
        )
    if (tool, kernel) == ("synccheck", "_attention_keys"):
        return (
            "The barrier that one thread was to leave out is the kernel's first, in the loop over queries that need a "
            "mask. On this path block 0 has none, so the fault did not happen. Only the plant is at fault."
        )
    if tool == "racecheck" and earlier:
        return (
            "The plant of that earlier run only took barriers out. The present one lets two warps write one word as "
            "well, and the time was over before it came to these paths."
        )
    return ""
