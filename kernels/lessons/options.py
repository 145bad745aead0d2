"""The options of an executed fence that are the engine's own, checked with sentences."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from kernels.lessons.model import EVIDENCE, NEEDS
from kernels.lessons.normalise import NORMALISERS

LANGUAGES = ("python", "py", "bash", "sh")
LINE_OPTION = "lesson_line"
"""Added to the header of every executed fence, so that the block knows where it stands."""

HELP = {
    "needs": "what the machine must have: cpu (the default), triton, nvcc, cxx, gpu; several with commas",
    "check": "exact (the default), close (numbers within a tolerance), none (shown, never compared)",
    "rtol": "relative tolerance of check=close",
    "atol": "absolute tolerance of check=close",
    "why": "the reason for check=none",
    "normalise": "named normalisers, applied before the output is stored",
    "timeout": "seconds that the block may take (60 unless said)",
    "evidence": "run (the default), trace, compile, measure: what the badge says",
    "raises": "the exception that a Python block must end in",
}
"""What each of the engine's options means."""

OWN = tuple(HELP)
MARKDOWN_EXEC = ("exec", "html", "id", "idprefix", "result", "returncode", "session", "source", "tabs", "updatetoc",
                 "width", "workdir")  # fmt: skip
SHOWN = ("title", "hl_lines", "linenums")
"""Options that are handed on to the code block which shows the source."""
RESERVED = ("index", "inline")
_IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9-]*$")


class OptionError(ValueError):
    """An option of a fence has a value that it cannot have."""


def take_own_options(inputs: dict[str, str]) -> dict[str, str]:
    """Remove the engine's options from `inputs` and return them; the rest is markdown-exec's."""
    return {name: inputs.pop(name) for name in (*OWN, LINE_OPTION) if name in inputs}


def parse_own_options(
    own: dict[str, str], *, block_id: str, html: bool, language: str, extra: Iterable[str] = ()
) -> dict[str, Any]:
    """Fields of `Block` from the options of its fence.

    Raises:
        OptionError: an option is missing or cannot be what it says.
    """
    if not block_id:
        raise OptionError('an executed block needs an id, as in id="tail-mask": its accepted output is stored under it')
    if not _IDENTIFIER.match(block_id):
        raise OptionError(f"the id {block_id!r} must be lower-case letters, digits and hyphens: it names a file")
    if block_id in RESERVED:
        raise OptionError(f"the id {block_id!r} is a name of the engine's own files; choose another")
    unknown = sorted(set(extra) - set(SHOWN))
    if unknown:
        near = difflib.get_close_matches(unknown[0], [*OWN, *SHOWN, *MARKDOWN_EXEC], 1)
        hint = f"did you mean {near[0]}?" if near else f"a block may have {', '.join([*OWN, *MARKDOWN_EXEC, *SHOWN])}"
        raise OptionError(f"{unknown[0]!r} is no option of a block; {hint}")
    needs = tuple(dict.fromkeys(re.split(r"[,\s]+", own.get("needs", "cpu").strip())))
    for need in needs:
        if need not in NEEDS:
            raise OptionError(f"needs={need!r} is not one of {', '.join(NEEDS)}")
    check = own.get("check", "exact")
    if check not in ("exact", "close", "none"):
        raise OptionError(f"check={check!r} is not one of exact, close, none")
    fields: dict[str, Any] = {"needs": needs, "check": check, "why": own.get("why", "")}
    for name in ("rtol", "atol"):
        fields[name] = _number(name, own.get(name, "0"))
    if check == "close" and not (fields["rtol"] or fields["atol"]):
        raise OptionError('check="close" needs a tolerance: rtol="1e-3" or atol="1e-6"')
    if check != "close" and (fields["rtol"] or fields["atol"]):
        raise OptionError('rtol and atol are used only with check="close"')
    if check == "none" and not fields["why"]:
        raise OptionError('check="none" must say why, as in why="prints the time of day"')
    normalise = tuple(filter(None, re.split(r"[,\s]+", own.get("normalise", ""))))
    for name in normalise:
        if name not in NORMALISERS:
            raise OptionError(f"normalise={name!r} is not one of {', '.join(sorted(NORMALISERS))}")
    fields["normalise"] = normalise
    fields["timeout_s"] = _number("timeout", own.get("timeout", "60"))
    if fields["timeout_s"] <= 0:
        raise OptionError("timeout must be a number of seconds above zero")
    fields["evidence"] = own.get("evidence", "run")
    if fields["evidence"] not in EVIDENCE:
        raise OptionError(f"evidence={fields['evidence']!r} is not one of {', '.join(EVIDENCE)}")
    fields["raises"] = own.get("raises", "")
    if fields["raises"] and language in ("bash", "sh"):
        raise OptionError('a shell block that should fail says so with returncode="1", not with raises')
    return fields


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise OptionError(f"{name}={text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise OptionError(f"{name}={text!r} must be zero or more, and finite")
    return value
