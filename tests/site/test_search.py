"""Search finds the page that explains a thing before those that mention it."""

from __future__ import annotations

import pytest
from site_host import results

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


# What is looked for, and the pages that explain it: one of them must be the first answer, or among the first three.
EXPLAINED = {
    "warp shuffle": (1, ("/essentials/3-shuffles/", "/lessons/9-read-cuda/")),
    "bank conflict": (3, ("/essentials/2-banks/", "/lessons/glossary/", "/lessons/9-read-cuda/")),
    "_softmax_looped": (3, ("/labs/3-softmax/", "/reference/softmax-py/")),
    "trace_triton": (3, ("/reference/python/", "/authoring/adding-a-lesson/")),
    "H200 softmax": (3, ("/reference/operators/", "/labs/3-softmax/")),
    "fraction_of_limit": (3, ("/reference/results-schema/", "/reference/python/")),
}


@pytest.mark.parametrize("words", EXPLAINED)
def test_a_term_a_symbol_a_command_or_a_result_leads_to_its_page(read, words):
    among, pages = EXPLAINED[words]
    with read("latest/") as reading:
        found = results(reading.page, words)
    assert any(page in address for address in found[:among] for page in pages), found[:among]
    assert reading.console == []


def test_long_outputs_do_not_drown_the_search(deployed):
    index = (deployed.files / "latest" / "search" / "search_index.json").read_text()
    assert ".reg .b32" not in index and ".visible .entry" not in index
