"""What a symbol is made of: a hash of its code and of all that it reaches, and its text.

A reference is written in one of two ways:

* ``kernels.ops.softmax:softmax``: a module, a colon, a top-level name (Python);
* ``cuda/kernels.cu:softmax_online``: a file, a colon, a function, type or constant (CUDA C++).

Comments, docstrings and white space are not part of a fingerprint, and neither is a neighbour that the symbol never
mentions. A helper, a constant or a type that it mentions is. Everything is read as text: no torch, no compiler.
"""

from kernels.sources.closure import Sources, project_root
from kernels.sources.counting import code_lines, lines_reached
from kernels.sources.snippet import Snippet, source_of

__all__ = [
    "Snippet",
    "Sources",
    "code_lines",
    "explain",
    "fingerprint",
    "lines_reached",
    "project_root",
    "source_of",
]


def fingerprint(reference: str) -> str:
    """Sixteen hex digits that change exactly when code reached from `reference` changes.

    Raises:
        KeyError: there is no such module, file or symbol; the message says what there is instead.
    """
    return Sources().fingerprint([reference])


def explain(reference: str) -> dict[str, str]:
    """Every symbol reached from `reference`, each with the hash of its own text, sorted by name."""
    return Sources().explain([reference])
