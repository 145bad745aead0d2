"""A hook of mkdocs.yml: formulas become MathML when the site is built, so reading one fetches and runs nothing."""

from __future__ import annotations

import html
import re

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


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
    return f'<{tag} class="kl-formula">{formula}</{tag}>'
