"""Search finds the lesson that explains a thing before the pages that mention it."""

from __future__ import annotations

import pytest
from site_host import results

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


def test_warp_shuffle_is_found_in_the_lesson_first(read):
    with read("latest/") as reading:
        found = results(reading.page, "warp shuffle")
    assert "/latest/lessons/9-read-cuda/" in found[0]
    assert reading.console == []


def test_long_outputs_do_not_drown_the_search(deployed):
    index = (deployed.files / "latest" / "search" / "search_index.json").read_text()
    assert ".reg .b32" not in index and ".visible .entry" not in index
