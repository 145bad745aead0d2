"""Reads what compute-sanitizer prints: each report with its headline, and whether the tool came to its summary.

A line of a report begins with a row of equal signs. Formats: NVIDIA, "Compute Sanitizer" user manual, sections on
memcheck, racecheck, initcheck and synccheck.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LINE = re.compile(r"^={6,}\s?(.*)$")
_HEADLINE = re.compile(
    r"^(?:Invalid __\w+__ \w+"
    r"|Uninitialized __\w+__ memory read"
    r"|(?:Error|Warning|Info): "
    r"|Race reported between"
    r"|Barrier error detected"
    r"|Program hit "
    r"|Host API memory access error"
    r"|Unused memory"
    r"|Out-of-range|Misaligned|Potential |Malloc/Free|Leaked "
    r"|(?:FATAL|Internal Sanitizer Error))"
)
_SUMMARY = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: (\d+)")


@dataclass
class Report:
    """One report: its first line, and all of its lines as one text."""

    headline: str
    text: str = ""

    def names(self, symbol: str) -> bool:
        """Whether a kernel of that name stands in it."""
        return re.search(rf"(?<![\w$]){re.escape(symbol)}(?![\w$])", self.text) is not None


@dataclass
class Log:
    """A tool's whole text: its reports, and the number that its summary says, None where it was cut off before."""

    reports: list[Report] = field(default_factory=list)
    summary: int | None = None

    @property
    def complete(self) -> bool:
        return self.summary is not None


def read_log(text: str) -> Log:
    """The reports of a log, in their order. Lines that are not the tool's are passed over."""
    log, current = Log(), None
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        words = found.group(1).strip()
        summary = _SUMMARY.match(words)
        if summary:
            log.summary, current = (log.summary or 0) + int(summary.group(1)), None
        elif _HEADLINE.match(words):
            current = Report(words, words)
            log.reports.append(current)
        elif current is not None and words:
            current.text += "\n" + words
    return log


def is_finding(report: Report) -> bool:
    """Whether a report says that something is wrong with a kernel; information is not."""
    return not report.headline.startswith("Info:")
