"""Search finds the lesson that explains a thing before the pages that mention it."""

from __future__ import annotations


def results(page, words: str) -> list[str]:
    page.keyboard.press("/")
    page.locator(".md-search__input").fill(words)
    page.locator(".md-search-result__item").first.wait_for(timeout=10_000)
    return page.locator(".md-search-result__item > a.md-search-result__link").evaluate_all(
        "all => all.map(a => a.href)"
    )


def test_warp_shuffle_is_found_in_the_lesson_first(read):
    with read("latest/") as reading:
        found = results(reading.page, "warp shuffle")
    assert "/latest/lessons/9-read-cuda/" in found[0]
    assert reading.console == []


def test_long_outputs_do_not_drown_the_search(deployed):
    index = (deployed.files / "latest" / "search" / "search_index.json").read_text()
    assert "st.global" not in index and ".reg .b32" not in index
