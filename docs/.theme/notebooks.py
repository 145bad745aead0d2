"""A hook of mkdocs.yml: what mkdocs-jupyter makes of a notebook, without the style sheets and scripts that it brings.

Its pages carry JupyterLab's whole style sheet and ask other servers for MathJax. The site has a style of its own for
cells (`docs/assets/notebook.css`), light and dark, and nothing is fetched when a page is read.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_BROUGHT = (
    re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL),
    re.compile(r"<!--.*?-->\s*", re.DOTALL),
    re.compile(r'<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>', re.DOTALL),
    re.compile(r'<div class="clipboard-copy-txt"[^>]*>.*?</div>', re.DOTALL),  # each cell's code a second time
    re.compile(r'<div class="jp-Collapser[^"]*">\s*</div>'),
    re.compile(r'<div class="jp-(?:Input|Output)Prompt[^"]*">[^<]*</div>'),
)
_RENAMED = (
    ('<div class="highlight-ipynb hl-python"><pre>', '<div class="highlight"><pre tabindex="0">'),  # as on other pages
    ('class="anchor-link"', 'class="headerlink" title="On this page"'),
    ('jp-Cell-inputWrapper" tabindex="0"', 'jp-Cell-inputWrapper"'),
    ('data-mime-type="text/html" tabindex="0"', 'data-mime-type="text/html"'),
    ('data-mime-type="text/plain" tabindex="0">\n<pre>', 'data-mime-type="text/plain">\n<pre tabindex="0">'),
    ('<div class="jp-OutputArea jp-Cell-outputArea">', '<div class="jp-OutputArea" data-search-exclude>'),
)


def on_page_content(html: str, *, page, **named) -> str:
    """A notebook's cells alone, below a link to its file; every other page as it is."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    for brought in _BROUGHT:
        html = brought.sub("", html)
    for old, new in _RENAMED:
        html = html.replace(old, new)
    name = PurePosixPath(page.file.src_uri).name
    note = (
        f'<p class="kl-notebook"><a href="../download/{name}" download>Download this notebook</a>, with its outputs. '
        "They were made when the site was built, and are compared with the accepted ones like those of every page.</p>"
    )
    return html.replace("</h1>", f"</h1>{note}", 1)
