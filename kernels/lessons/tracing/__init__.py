"""What `lessons trace` runs, says and draws."""

from kernels.lessons.tracing.page import as_page, may_write, page_name
from kernels.lessons.tracing.run import Traced, trace_kernel, why_not
from kernels.lessons.tracing.words import in_words, judged, program_story

__all__ = [
    "Traced",
    "as_page",
    "in_words",
    "judged",
    "may_write",
    "page_name",
    "program_story",
    "trace_kernel",
    "why_not",
]
