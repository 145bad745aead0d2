"""docs/assets/site.js on a page of its own."""

from __future__ import annotations

import pytest
from site_host import ROOT

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

PAGE = """<!doctype html><meta charset="utf-8"><title>A page</title><link rel="icon" href="data:,"><article>
<details><summary>One</summary>1</details><details open><summary>Two</summary>2</details></article>
<script>document$ = { subscribe: make => make() };{script}</script>"""
OPEN = "[...document.querySelectorAll('details')].map(each => each.open)"


def test_answers_are_printed_and_folded_again_though_a_preview_was_made_anew(chromium):
    context = chromium.new_context()
    page = context.new_page()
    page.set_content(PAGE.replace("{script}", (ROOT / "docs/assets/site.js").read_text()))
    for begin in (1, 2):
        for _ in range(begin):
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            assert page.evaluate(OPEN) == [True, True]
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(OPEN) == [False, True]
    page.locator("summary").first.click()
    page.evaluate("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(OPEN) == [True, True], "what the reader opened stays open"
    context.close()
