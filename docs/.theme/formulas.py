"""A hook of mkdocs.yml: formulas become MathML when the site is built, so reading one fetches and runs nothing."""

from __future__ import annotations

import html
import re

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

_COMMAND = re.compile(r">(\\[a-zA-Z]+)<")
# The name of a function, with its index, before what is no bracket: "log s" has a gap, which the converter leaves out.
_FUNCTION = re.compile(
    r"((?<!<msub>)<mi>(?:log|exp|ln|tanh)</mi>|<msub><mi>(?:log|exp)</mi><m\w+>[^<]*</m\w+></msub>)(?=<m(?!o\b))"
)
_OPEN, _CLOSE = re.compile(r"(?<!\\)\{"), re.compile(r"(?<!\\)\}")


def on_page_content(content: str, **named) -> str:
    """The page with its formulas as MathML.

    Raises:
        ValueError: a formula is not LaTeX that can be converted; the message quotes it.
    """
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match) -> str:
    from latex2mathml.converter import convert

    tag, opening, escaped = match.groups()
    latex = html.unescape(escaped).strip()
    try:
        formula = convert(latex, display="block" if opening == "[" else "inline")
    except Exception as error:
        raise ValueError(f"the formula {latex!r} cannot be shown: {type(error).__name__}: {error}") from error
    # The converter lets these pass: it shows an unknown command as it is written, and closes what was left open.
    unknown = _COMMAND.search(formula)
    if unknown:
        raise ValueError(f"the formula {latex!r} cannot be shown: {unknown[1]} is not a command that is known here")
    if len(_OPEN.findall(latex)) != len(_CLOSE.findall(latex)):
        raise ValueError(f"the formula {latex!r} cannot be shown: its braces do not pair")
    formula = _FUNCTION.sub(r'\1<mspace width="0.17em"/>', formula)
    return f'<{tag} class="kl-formula">{formula}</{tag}>'
