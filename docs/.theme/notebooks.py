"""A hook of mkdocs.yml: what mkdocs-jupyter makes of a notebook, without the style sheets and scripts that it brings.

Its pages carry JupyterLab's whole style sheet and ask other servers for MathJax. The site has a style of its own for
cells (`docs/assets/notebook.css`), light and dark, and nothing is fetched when a page is read.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from kernels.lessons.mends import Mends

# What is looked for, and what takes its place.
_CHANGED = {
    "a style sheet or a script": (r"(?s)<(style|script)\b.*?</\1>", ""),
    "a comment": (r"(?s)<!--.*?-->\s*", ""),
    "a button that copies": (r'(?s)<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>', ""),
    "a cell's code a second time": (r'(?s)<div class="clipboard-copy-txt"[^>]*>.*?</div>', ""),
    "a collapser": (r'<div class="jp-Collapser[^"]*">\s*</div>', ""),
    "a prompt": (r'<div class="jp-(?:Input|Output)Prompt[^"]*">[^<]*</div>', ""),
    "a cell's code": (  # as on other pages
        r'<div class="highlight-ipynb hl-python"><pre>',
        '<div class="highlight"><pre tabindex="0">',
    ),
    "a heading's link": (r'class="anchor-link"', 'class="headerlink" title="On this page"'),
    "a cell that the keyboard stops at": (r'(jp-Cell-inputWrapper") tabindex="0"', r"\1"),
    "an output of HTML that the keyboard stops at": (r'(data-mime-type="text/html") tabindex="0"', r"\1"),
    "an output of text that the keyboard stops at": (
        r'(data-mime-type="text/plain") tabindex="0">\n<pre>',
        r'\1>\n<pre tabindex="0">',
    ),
    "an output": (
        r'<div class="jp-OutputArea jp-Cell-outputArea">',
        '<div class="jp-OutputArea" data-search-exclude>',
    ),
}
DESCRIPTION = "The same kernels as cells: change one, run it, and see what the record of the launch says."
"""What a card says that leads to a notebook, whose file has no front matter."""
_mends = Mends("docs/.theme/notebooks.py", {name: re.compile(pattern) for name, (pattern, _) in _CHANGED.items()})
_command = "build"


def on_startup(*, command: str, dirty: bool) -> None:
    """Remember whether this is a live preview."""
    global _command
    _command = command


def on_nav(nav, *, config, files):
    """Describe notebooks before they are read: in a live preview all pages would be shown again for what cards say."""
    for file in files.documentation_pages():
        if file.src_uri.endswith(".ipynb") and file.page is not None:
            file.page.meta.setdefault("description", DESCRIPTION)
    return nav


def on_page_content(html: str, *, page, **named) -> str:
    """A notebook's cells alone, below a link to its file; every other page as it is."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    _mends.page()
    page.meta.setdefault("description", DESCRIPTION)
    for name, (_, replacement) in _CHANGED.items():
        html = _mends.sub(name, replacement, html)
    name = PurePosixPath(page.file.src_uri).name
    note = (
        f'<p class="kl-notebook"><a href="../download/{name}" download>Download this notebook</a>, with its outputs. '
        "They were made when the site was built, and are compared with the accepted ones like those of every page.</p>"
    )
    return html.replace("</h1>", f"</h1>{note}", 1)


def on_post_build(**named) -> None:
    """Warn where notebooks no longer have what is changed here."""
    if _command != "serve":  # there a build may be of one page
        _mends.tell()
