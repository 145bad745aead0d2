"""The stepper in a browser: sliders, keys and buttons move picture, source and words; with no script a table stands."""

from __future__ import annotations

import re
from contextlib import contextmanager

import numpy as np
import pytest
from site_host import ROOT
from stepper_pages import (
    SOURCE,
    cuda_page,
    cuda_trace,
    page_of,
    requests_of,
    triton_trace,
    vector_trace,
    wide_trace,
    written,
)

from kernels.figures import stepper
from kernels.lessons.tracing import Traced, as_page

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


@pytest.fixture
def look(chromium, tmp_path):
    """`with look(html, scheme, width) as page`: the page from a file; errors and requests to anywhere else fail."""

    @contextmanager
    def looking(html: str, scheme: str = "light", width: int = 1280, **named):
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **named)
        page = context.new_page()
        faults, address = [], written(tmp_path, html)
        page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda r: faults.append(r.url) if r.url != address else None)
        page.on("dialog", lambda d: (faults.append(d.message), d.dismiss()))
        try:
            page.goto(address)
            yield page
            assert faults == []
        finally:
            context.close()

    return looking


def slider(page, name: str):
    return page.get_by_role("slider", name=name, exact=True)


def move(page, **places: int) -> None:
    for name, value in places.items():
        slider(page, name.capitalize()).fill(str(value))


def words(page) -> str:
    return page.locator(".kl-stepper__say").inner_text()


def marks(page, buffer: int, kind: str) -> int:
    """How many marks of a kind a buffer's picture shows, the chosen thread's included."""
    paths = page.locator(".kl-stepper__grid").nth(buffer).locator(f"path.kl-m--{kind}")
    return sum(path.count("M") for path in paths.evaluate_all("all => all.map(p => p.getAttribute('d'))"))


def test_step_thread_and_warp_change_picture_source_and_words(look):
    with look(cuda_page()) as page:
        assert words(page).startswith("Step 1 of 6, line 10, before barrier 1. Thread 0 (warp 0, lane 0) reads x[0].")
        assert marks(page, 0, "read") == 86, "of 96 marks, those within the 8 lines that are drawn"
        first = page.locator(".kl-stepper__grid").nth(0).inner_html()
        move(page, thread=67)
        assert "Thread 67 (warp 2, lane 3) reads x[201]." in words(page)
        assert slider(page, "Warp").input_value() == "2"
        assert page.locator(".kl-stepper__grid").nth(0).inner_html() != first
        move(page, warp=1)
        assert "Thread 35 (warp 1, lane 3)" in words(page), "the lane stays"
        move(page, step=1)
        assert "Step 2 of 6, line 11" in words(page) and "writes tile[3, 1]" in words(page)
        assert marks(page, 1, "write") == 96 and marks(page, 0, "read") == 0
        assert page.locator("[aria-current=step]").get_attribute("data-line") == "11"
        move(page, step=4)
        assert "updates tile[0, 0]" in words(page) and marks(page, 1, "atomic") == 96
        line = page.locator("[aria-current=step]")
        assert line.get_attribute("data-line") == "41" and line.count() == 1
        top, scrolled, height = line.evaluate(
            "e => [e.offsetTop, e.closest('pre').scrollTop, e.closest('pre').clientHeight]"
        )
        assert 0 < scrolled <= top < scrolled + height, "the line is scrolled into view"


def test_barriers_idle_threads_and_accesses_outside_are_told(look):
    with look(cuda_page()) as page:
        move(page, step=2, thread=5)
        assert (
            words(page) == "Step 3 of 6, line 11. Thread 5 (warp 0, lane 5) waits at barrier 1: all 96 threads arrive."
        )
        move(page, step=3, thread=50)
        assert "after barrier 1. Thread 50 (warp 1, lane 18) takes no part. In warp 1, lanes 0–7 read" in words(page)
        move(page, thread=95)
        assert "No lane of warp 2 does; 2 other warps of the block do." in words(page)
        assert page.locator(".kl-stepper__lanes path.kl-cell--off").get_attribute("d").count("M") == 32
        move(page, step=5)
        assert "writes out[96] (past the end)" in words(page)
        assert page.locator(".kl-stepper__outside").inner_text() == "1 access out of bounds"


def test_a_barrier_that_not_all_reach_says_so(look):
    with look(page_of(stepper(cuda_trace(arrive=33)))) as page:
        move(page, step=2, thread=32)
        assert words(page).endswith("waits at barrier 1: only 33 of 96 threads arrive, and it waits for ever.")
        move(page, thread=33)
        assert words(page).endswith("is not at barrier 1: only 33 of 96 threads arrive.")


@pytest.mark.parametrize("warp", [0, 1, 2])
def test_costs_in_words_are_those_that_the_trace_counts(look, warp):
    requests = requests_of(cuda_trace(), warp)
    with look(cuda_page()) as page:
        for step, request in zip((0, 1, 3, 4, 5) if warp < 2 else (0, 1, 4, 5), requests, strict=True):
            move(page, thread=32 * warp, step=step)
            said = words(page)
            if request.space == "global":
                share = int(100 * request.efficiency + 0.5)
                some = f"{len(request.sectors)} sectors of 32 bytes; {share}% of the bytes moved are used"
                assert some in said
            elif request.conflict_degree == 1:
                assert "no bank is asked for two different words" in said
            else:
                assert f"so it takes {request.wavefronts} passes" in said
                assert f" {request.conflict_degree} " in said


LANES = np.arange(32)
WIDE = {
    "every lane its own": LANES * 32, "neighbours in pairs": LANES // 2 * 32,
    "pairs two lanes apart": (LANES // 4 * 2 + LANES % 2) * 32, "all the same": LANES * 0, "side by side": LANES * 4,
    "pairs but for one lane": np.where(LANES == 1, 900, LANES // 2 * 32),
}  # fmt: skip


@pytest.mark.parametrize("asked", WIDE)
@pytest.mark.parametrize("size", [8, 16])
def test_wide_requests_of_shared_memory_cost_what_the_trace_counts(look, size, asked):
    trace = wide_trace(WIDE[asked], size)
    with look(page_of(stepper(trace))) as page:
        for step, request in enumerate(requests_of(trace, 0)):
            move(page, step=step)
            degree, passes = request.conflict_degree, request.wavefronts
            one = f"one bank must deliver {degree} different words, so it takes {passes} passes"
            assert ("no bank is asked for two different words" if degree == 1 else one) in words(page), request.what


def test_kinds_of_access_differ_in_shape_and_the_chosen_thread_in_its_frame(look):
    with look(cuda_page()) as page:
        drawn = "name => document.querySelector(`.kl-stepper__lanes .kl-m--${name}`).getAttribute('d')"
        shapes = {}
        for step, name in ((0, "read"), (1, "write"), (2, "barrier"), (4, "atomic")):
            move(page, step=step)
            shapes[name] = re.sub(r"[-\d. ]+", "", page.evaluate(drawn, name))[:8]
        assert shapes["read"].startswith("Maaz") and shapes["write"].startswith("Mhvhz"), "a circle, a square"
        assert shapes["atomic"].startswith("Mlllz") and shapes["barrier"].startswith("MvMv"), "a rhombus, two lines"
        assert page.locator(".kl-stepper__lanes path.kl-me").get_attribute("d").count("M") == 1
        kinds = page.locator(".kl-stepper__legend").inner_text()
        for word in ("read", "write", "update", "chosen thread", "written before", "small: another warp"):
            assert word in kinds


def test_what_was_written_before_stays_marked(look):
    with look(cuda_page()) as page:
        notches = page.locator(".kl-stepper__grid").nth(1).locator("path.kl-notch")
        assert notches.count() == 0
        move(page, step=3)
        assert notches.get_attribute("d").count("M") == 96
        move(page, step=0)
        assert notches.count() == 0


def test_keyboard_alone_is_enough(look):
    with look(cuda_page()) as page:
        slider(page, "Step").focus()
        page.keyboard.press("ArrowRight")
        assert "Step 2 of 6" in words(page)
        page.keyboard.press("End")
        assert "Step 6 of 6" in words(page)
        page.keyboard.press("Home")
        assert "Step 1 of 6" in words(page)
        slider(page, "Thread").focus()
        page.keyboard.press("ArrowUp")
        assert "Thread 1 " in words(page)
        picture = page.locator(".kl-stepper__pictures")
        picture.focus()
        assert picture.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
        page.set_viewport_size({"width": 1280, "height": 300})
        picture.scroll_into_view_if_needed()
        before = page.evaluate("scrollY")
        for key, said in (("ArrowRight", "Step 2"), ("ArrowDown", "Thread 2 "), ("ArrowLeft", "Step 1"),
                          ("ArrowUp", "Thread 1 "), ("End", "Step 6"), ("Home", "Step 1")):  # fmt: skip
            page.keyboard.press(key)
            assert said in words(page), key
        page.keyboard.press("Space")
        assert page.evaluate("scrollY") == before > 0, "the page does not move under the reader"
        page.keyboard.press("ArrowLeft")
        assert "Step 1 of 6" in words(page), "there is nothing before the first step"


def test_buttons_step_and_say_when_there_is_no_more(look):
    with look(cuda_page()) as page:
        back, on = page.get_by_role("button", name="Previous step"), page.get_by_role("button", name="Next step")
        assert (back.get_attribute("aria-disabled"), on.get_attribute("aria-disabled")) == ("true", "false")
        on.click()
        assert "Step 2 of 6" in words(page) and back.get_attribute("aria-disabled") == "false"
        for _ in range(6):
            on.click(force=True)
        assert "Step 6 of 6" in words(page) and on.get_attribute("aria-disabled") == "true"
        assert on.evaluate("e => e === document.activeElement"), "the focus stays"


# Time passes when the test says so: `beat()` is the next moment of everything that comes again and again.
BEATS = """<script>
const beats = new Map()
setInterval = f => { beats.set(beats.size + 1, f); return beats.size }
clearInterval = id => beats.set(id, null)
beat = () => [...beats.values()].forEach(f => f?.())
</script>"""


def test_play_walks_to_the_end_in_silence_and_space_holds_it(look):
    with look(cuda_page(head=BEATS)) as page:
        play, say = page.get_by_role("button", name="Play"), page.locator(".kl-stepper__say")
        assert say.get_attribute("aria-live") == "polite"
        page.locator(".kl-stepper__pictures").focus()
        page.keyboard.press("Space")
        for step in (2, 3):
            page.evaluate("beat()")
            assert f"Step {step} of 6" in words(page)
        page.keyboard.press("Space")
        page.evaluate("beat()")
        assert "Step 3 of 6" in words(page) and play.is_visible()
        play.click()
        assert say.get_attribute("aria-live") == "off"
        for step in (4, 5, 6):
            page.evaluate("beat()")
            assert f"Step {step} of 6" in words(page)
        page.evaluate("beat()")
        play.wait_for()
        assert say.get_attribute("aria-live") == "polite"


def test_nothing_moves_by_itself_and_play_is_gone_for_readers_who_ask(look):
    with look(cuda_page(), reduced_motion="reduce") as page:
        assert page.locator("button", has_text="Play").is_hidden()
        slider(page, "Step").focus()
        page.keyboard.press("Space")
        assert "Step 2 of 6" in words(page)
        page.wait_for_timeout(1500)
        assert "Step 2 of 6" in words(page)


def test_play_that_goes_while_it_has_the_focus_hands_it_on(look):
    with look(cuda_page()) as page:
        page.locator("button", has_text="Play").focus()
        page.emulate_media(reduced_motion="reduce")
        page.locator("button", has_text="Play").wait_for(state="hidden")
        assert page.evaluate("document.activeElement.textContent") == "Next ▶"


def test_a_click_on_a_cell_a_lane_or_the_track_goes_there(look):
    with look(cuda_page()) as page:
        move(page, step=1)
        tile = page.locator(".kl-stepper__grid").nth(1)
        box, size = tile.bounding_box(), tile.evaluate("e => +e.getAttribute('width')")
        cell = (size - 2 - 22) / 32
        page.mouse.click(box["x"] + 22 + 1.5 * cell, box["y"] + 16 + 7.5 * cell)
        assert "Thread 39 (warp 1, lane 7) writes tile[7, 1]" in words(page)
        lanes = page.locator(".kl-stepper__lanes").bounding_box()
        page.mouse.click(lanes["x"] + lanes["width"] / 32 * 9.5, lanes["y"] + 25)
        assert "Thread 41 " in words(page)
        track = page.locator(".kl-stepper__track").bounding_box()
        page.mouse.click(track["x"] + track["width"] * 4.5 / 6, track["y"] + 8)
        assert "Step 5 of 6" in words(page)


def test_without_a_script_the_table_says_it_all(look):
    with look(cuda_page(), java_script_enabled=False) as page:
        assert page.locator("table.kl-table").is_visible() and page.get_by_role("slider").count() == 0
        rows = page.locator("table.kl-table tbody tr:not(.kl-group)").all_inner_texts()
        assert len(rows) == 6 and re.split(r"\s*\t", rows[0])[2:4] == ["10", "reads"]
        assert "threads 0–95 → x[0]–x[285], in steps of 3" in rows[0] and "waits at the barrier" in rows[2]
        assert page.locator("pre.kl-stepper__source").is_visible()


def test_the_script_replaces_the_table_and_gives_it_back_and_prints_it(look):
    with look(cuda_page()) as page:
        table, button = page.locator("table.kl-table"), page.get_by_role("button", name="Table of all steps")
        assert table.is_hidden() and button.get_attribute("aria-expanded") == "false"
        button.click()
        assert table.is_visible() and button.get_attribute("aria-expanded") == "true"
        button.click()
        assert table.is_hidden()
        page.emulate_media(media="print")
        assert table.is_visible() and slider(page, "Step").is_hidden()
        assert page.locator(".kl-stepper__pictures").is_hidden()


@pytest.mark.parametrize(("scheme", "width"), [("default", 1280), ("slate", 1280), ("default", 390), ("slate", 390)])
def test_both_schemes_and_a_phone_are_open_to_all(look, scheme, width):
    from axe_playwright_python.sync_playwright import Axe

    figures = stepper(cuda_trace(), source=SOURCE, caption="CUDA."), stepper(triton_trace(), source=SOURCE)
    with look(page_of(*figures, scheme=scheme), width=width) as page:
        for number in range(2):
            page.get_by_role("button", name="Next step").nth(number).click()
        wide = page.evaluate("document.documentElement.scrollWidth") - width
        assert wide <= 0, f"the page is {wide} px wider than the window"
        found = Axe().run(page).response["violations"]
        grave = [f"{v['id']}: {n['html'][:160]} {n['failureSummary'][:200]}" for v in found for n in v["nodes"][:3]]
        assert [g for g in grave if not g.startswith("region")] == []
        small = page.evaluate(
            "[...document.querySelectorAll('.kl-stepper__live button')].filter(e => e.offsetHeight < 24).length"
        )
        assert small == 0, "a finger finds a button of 24 pixels"


def test_forced_colours_keep_the_marks(look):
    with look(cuda_page(), forced_colors="active") as page:
        mark = page.locator(".kl-stepper__lanes path.kl-m--read").first
        seen = mark.evaluate("e => getComputedStyle(e).stroke")
        assert seen != page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_a_screen_reader_hears_what_each_slider_stands_for(look):
    with look(cuda_page()) as page:
        move(page, step=1, thread=67)
        heard = {name: slider(page, name).get_attribute("aria-valuetext") for name in ("Step", "Thread", "Warp")}
        assert heard == {"Step": "step 2 of 6, line 11", "Thread": "thread 67, lane 3", "Warp": "warp 2"}
        assert page.locator(".kl-stepper__lanes").get_attribute("aria-label") == (
            "Lanes of warp 2: 0–31 writing; lane 3 is chosen"
        )
        assert "tile, shared, 32 × 32; write now" in page.locator(".kl-stepper__grid").nth(1).get_attribute(
            "aria-label"
        )


def test_triton_programs_have_no_threads_and_masked_elements_a_cross(look):
    with look(page_of(stepper(triton_trace(), source=SOURCE))) as page:
        assert page.get_by_role("slider").count() == 2 and page.locator(".kl-stepper__lanes").count() == 0
        assert words(page) == (
            "Step 1 of 2, line 5. Program 0 reads x[0]–x[255]. That is 32 sectors of 32 bytes; 100% of the bytes moved "
            "are used."
        )
        move(page, program=1)
        assert "Program 1 reads x[256]–x[299]; masked off: x[300]–x[511] (past the end) are not touched." in words(page)
        assert marks(page, 0, "read") == 44 and "masked off" in page.locator(".kl-stepper__legend").inner_text()


def test_a_page_of_lessons_trace_steps_without_another_file(look):
    with look(as_page(Traced(triton_trace(), "_add", "kernels/ops/add.py", (300,)), 0, 0, ROOT)) as page:
        assert words(page).startswith("Step 1 of 2, line 5. Program 0 reads x[0]–x[255].")
        move(page, step=1)
        assert words(page).startswith("Step 2 of 2, line 6. Program 0 writes out[0]–out[255].")


@pytest.mark.parametrize(
    ("count", "block", "shown"),
    [(40, 48, 8), (10, 16, 6), (64, 256, 32), (300, 512, 20)],  # the rest of the row, a wider row, a row, what is left
)
def test_places_past_the_end_that_a_mask_leaves_alone_are_drawn(look, count, block, shown):
    with look(page_of(stepper(vector_trace(count, block)))) as page:
        crosses = [marks(page, buffer, "masked") for buffer in (0, 1)]
        dashed = page.locator(".kl-stepper__grid").first.locator("path.kl-cell--past").get_attribute("d")
        assert crosses == [shown, 0] and dashed.count("M") == shown
        heights = page.locator(".kl-stepper__grid").evaluate_all("all => all.map(e => e.clientHeight)")
        move(page, step=1)
        assert [marks(page, buffer, "masked") for buffer in (0, 1)] == [0, shown]
        assert heights == page.locator(".kl-stepper__grid").evaluate_all("all => all.map(e => e.clientHeight)")


def test_the_legend_names_the_signs_that_some_step_shows_and_no_other(look):
    with look(page_of(stepper(vector_trace(64, 64)))) as page:
        legend = page.locator(".kl-stepper__legend").inner_text()
        assert "masked off" not in legend and "written before" not in legend, "the store is the last step"
    with look(page_of(stepper(vector_trace(60, 64)))) as page:
        assert "masked off" in page.locator(".kl-stepper__legend").inner_text()


def test_a_plain_stepper_says_who_touches_what_and_nothing_of_memory(look):
    with look(page_of(stepper(vector_trace(40, 48), plain=True))) as page:
        assert words(page) == (
            "Step 1 of 2, line 5. Program 0 reads x[0]–x[39]; masked off: x[40]–x[47] (past the end) are not touched."
        )
        assert page.locator(".kl-stepper__name").all_inner_texts() == ["x 40 elements", "out 40 elements"]
        assert page.get_by_role("slider").count() == 0
        page.get_by_role("button", name="Next step").click()
        assert words(page).startswith("Step 2 of 2")


def test_several_steppers_do_not_disturb_each_other(look):
    same = stepper(cuda_trace(), source=SOURCE)
    with look(page_of(same, same, stepper(triton_trace()))) as page:
        slider(page, "Step").nth(1).fill("3")
        said = page.locator(".kl-stepper__say").all_inner_texts()
        assert [text.partition(",")[0] for text in said] == ["Step 1 of 6", "Step 4 of 6", "Step 1 of 2"]
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)) == 8


def test_a_page_that_is_exchanged_without_loading_gets_its_steppers_once(look):
    theme = "const document$ = { subscribe(f) { window.again = f; f() } };"
    with look(page_of(head=f"<script>{theme}</script>")) as page:
        put = "html => document.querySelector('main').innerHTML = html"
        for _ in range(2):
            page.evaluate(put, stepper(cuda_trace()))
            page.evaluate("again(); again()")
            assert page.locator(".kl-stepper__live").count() == 1 and "Step 1 of 6" in words(page)


def test_a_name_from_outside_is_never_markup(look):
    evil = "</script x><img src=x onerror=alert(1)>"
    with look(page_of(stepper(cuda_trace(evil), source=f"{evil}\n" * 60, caption=evil))) as page:
        assert page.locator("img").count() == 0
        assert f"reads {evil}[0]." in words(page)
        assert page.locator(".kl-stepper__name strong").nth(1).inner_text() == evil


def open_at(page, address: str) -> str:
    """What the first stepper of the page says when a link leads to it."""
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_function("address => location.hash === address", arg=address)
    page.wait_for_timeout(50)
    return page.locator(".kl-stepper__say").first.inner_text()


def test_a_link_leads_to_one_step_of_one_thread(look):
    with look(page_of(stepper(cuda_trace(), source=SOURCE), stepper(triton_trace()))) as page:
        own = page.locator("figure").first
        move(own, step=2, thread=67)
        words = page.locator(".kl-stepper__say").first.inner_text()
        addresses = "all => all.map(a => a.getAttribute('href'))"
        links = page.get_by_role("link", name="Link to this").evaluate_all(addresses)
        assert links == ["#walk:block=0;step=3;thread=67", "#walk-2:program=0;step=1"]
        move(own, step=0, thread=0)
        first = page.locator(".kl-stepper__say").first.inner_text()
        assert first != words
        assert open_at(page, links[0]) == words
        for wrong in ("#walk:step=x;thread=;block=9", "#walk:step=", "#walk:%", "#walk-2:step=2", "#steppers"):
            assert open_at(page, wrong) == words, wrong
        assert page.locator(".kl-stepper__say").last.inner_text().startswith("Step 2 of 2")
        assert "thread 95" in open_at(page, "#walk:thread=99999").lower()


def test_a_link_of_the_text_shows_its_step_in_the_figure(look):
    text = '<p><a href="#there" data-shows="walk:step=2;thread=67">thread 67</a></p><h2 id="there">There</h2>'
    html = cuda_page().replace("<h1>", text + "<h1>")
    with look(html) as page:
        words = page.locator(".kl-stepper__say").first
        for _ in range(2):  # the second time, the address says it already
            page.get_by_role("link", name="thread 67").click()
            page.wait_for_function("document.querySelector('.kl-stepper__say').textContent.startsWith('Step 2')")
            assert "thread 67" in words.inner_text().lower()
            slider(page, "Step").fill("3")
    with look(html, java_script_enabled=False) as page:
        assert page.get_by_role("link", name="thread 67").get_attribute("href") == "#there"
