"""What a cell of a notebook calls to show a figure or a table."""

from __future__ import annotations

import sys
from pathlib import Path

_shown: set[str] = set()


def show(markup: str) -> None:
    """Show HTML: as a picture in Jupyter, with the site's style sheet before the first; elsewhere print it.

    The engine that builds the site takes what is printed.
    """
    if "IPython" not in sys.modules or sys.modules["IPython"].get_ipython() is None:
        print(markup)
        return
    from IPython.display import HTML, display

    if not _shown:
        style = Path(__file__).resolve().parents[2] / "docs" / "assets" / "lessons.css"
        if style.exists():
            display(HTML(f"<style>{style.read_text(encoding='utf-8')}</style>"))
        _shown.add("style")
    display(HTML(markup))
