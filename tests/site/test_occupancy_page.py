"""The occupancy calculator in a browser: the Python's arithmetic, controls that follow, a table without scripts."""

from __future__ import annotations

import html
import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from site_host import script_of

from kernels.figures.occupancy import Kernel, occupancy_figure
from kernels.inspect.occupancy import MULTIPROCESSORS, occupancy

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]
ASSETS = Path(__file__).resolve().parents[2] / "docs" / "assets"


@dataclass(frozen=True)
class Facts:
    registers: int
    shared_bytes: int


KERNELS = [
    Kernel("small", 256, {80: Facts(32, 0), 90: Facts(33, 4096), 120: Facts(40, 0)}),
    Kernel("large <b>", 1024, {80: Facts(64, 50_000), 90: Facts(65, 0), 120: Facts(32, 0)}),
]


@pytest.fixture
def page(chromium, tmp_path):
    def opened(scripts: bool = True):
        context = chromium.new_context(java_script_enabled=scripts, viewport={"width": 390, "height": 900})
        made = context.new_page()
        faults = []
        made.on("pageerror", lambda error: faults.append(str(error)))
        made.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
        styles = (ASSETS / "lessons.css").read_text() + (ASSETS / "occupancy.css").read_text()
        text = f"<!doctype html><html lang=en><meta charset=utf-8><title>t</title><style>{styles}</style>"
        text += f"<body class=md-typeset>{occupancy_figure(KERNELS)}<script>{script_of('occupancy')}</script>"
        target = tmp_path / "page.html"
        target.write_text(text, encoding="utf-8")
        made.goto(target.as_uri())
        contexts.append(context)
        made.faults, made.path = faults, target
        return made

    contexts: list = []
    yield opened
    for context in contexts:
        context.close()


def test_the_script_computes_what_python_computes(page):
    shown = page()
    pick = random.Random(9)
    cases = [
        (pick.choice(list(MULTIPROCESSORS)), pick.randint(1, 1024), pick.randint(0, 255), pick.randint(0, 230 << 10))
        for _ in range(3000)
    ]
    data = json.loads(html.unescape(occupancy_figure(KERNELS).split('data-occupancy="')[1].split('"')[0]))
    asked = "([rules, cases]) => cases.map(c => klOccupancy(rules, String(c[0]), c[1], c[2], c[3]))"
    found = shown.evaluate(asked, [data["limits"], cases])
    for case, answer in zip(cases, found, strict=True):
        right = occupancy(*case)
        assert (answer["blocks"], answer["warps"], answer["limits"]) == (right.blocks, right.warps, right.limits), case
        assert tuple(answer["by"]) == right.limited_by


def test_controls_take_a_kernel_and_numbers_of_ones_own(page):
    shown = page()
    answer = shown.locator("output")
    assert answer.inner_text().startswith("6 blocks at once: 48 of 64 warps, 75%.")
    shown.get_by_label("GPU").select_option("120")
    assert answer.inner_text().startswith("6 blocks at once: 48 of 48 warps, 100%.")
    shown.get_by_label("registers a thread", exact=True).fill("255")
    assert shown.get_by_label("kernel").input_value() == ""
    assert answer.inner_text().startswith("1 block at once: 8 of 48 warps, 17%.")
    slider = shown.get_by_label("threads a block, as a slider")
    slider.focus()
    shown.keyboard.press("End")
    assert shown.get_by_label("threads a block", exact=True).input_value() == "1024"
    assert answer.inner_text() == "Not even one block can be launched: registers."
    shown.get_by_label("kernel").select_option(label="large <b>")
    assert answer.inner_text().startswith("1 block at once: 32 of 48 warps, 67%.")
    assert shown.faults == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_slider_of_threads_goes_by_whole_warps(page):
    shown = page()
    typed, slider = (shown.get_by_label(f"threads a block{more}", exact=True) for more in ("", ", as a slider"))
    slider.focus()
    shown.keyboard.press("ArrowRight")  # from the 256 of the first kernel
    assert typed.input_value() == "288"
    shown.keyboard.press("Home")
    assert typed.input_value() == "32"
    typed.fill("1")
    assert shown.locator("output").inner_text().startswith("32 blocks at once: 32 of 64 warps")


def test_a_number_that_no_gpu_takes_is_not_taken_in_silence(page):
    shown = page()
    answer, threads = shown.locator("output"), shown.get_by_label("threads a block", exact=True)
    threads.fill("5000")
    assert answer.inner_text().startswith("This is for 1024 threads a block; the field takes 1 to 1024. ")
    threads.fill("")
    assert answer.inner_text().startswith("This is for 1 threads a block; ")
    threads.fill("512")
    assert "This is for" not in answer.inner_text()
    threads.fill("5000")
    threads.blur()
    assert threads.input_value() == "1024" and "This is for" not in answer.inner_text()
    assert shown.faults == []


def test_the_next_step_of_the_stairs_is_where_python_finds_it(page):
    shown = page()
    rules = json.loads(html.unescape(occupancy_figure(KERNELS).split('data-occupancy="')[1].split('"')[0]))["limits"]
    pick = random.Random(11)
    cases = [(90, 256, 64, 0), (90, 1024, 64, 0), (90, 1024, 65, 0), (80, 32, 12, 200 << 10)]
    cases += [
        (pick.choice(list(MULTIPROCESSORS)), pick.randint(1, 1024), pick.randint(0, 255), pick.randint(0, 99 << 10))
        for _ in range(400)
    ]
    asked = """([rules, cases]) => cases.map(([arch, threads, registers, shared]) =>
        klCliffs.nextSteps(klOccupancy, rules, { arch: String(arch), threads, registers, shared }))"""
    for (arch, threads, registers, shared), found in zip(cases, shown.evaluate(asked, [rules, cases]), strict=True):
        warps = [occupancy(arch, threads, count, shared).warps for count in range(256)]
        here = warps[registers]
        after = [(r, w) for r, w in enumerate(warps) if r > registers and w != here]
        before = [(r, w) for r, w in enumerate(warps) if r < registers and w != here]
        for said, right in (found["up"], after[:1]), (found["down"], before[-1:]):
            assert ((said and [(said["registers"], said["warps"])]) or []) == right, (arch, threads, registers, shared)


def test_a_cliff_is_one_button_away_and_says_what_one_register_costs(page):
    shown = page()
    answer, cliff = shown.locator("output"), shown.locator(".kl-occupancy__cliff")
    shown.get_by_role("button", name="64 registers", exact=True).click()
    fewer = occupancy(90, 256, 65, 0)
    assert cliff.inner_text().startswith(f"With 65 registers, 1 more, {fewer.warps} warps are left; ")
    shown.get_by_role("button", name="65 registers", exact=True).click()
    assert f"{fewer.warps} of 64 warps" in answer.inner_text()
    assert shown.locator("button[aria-pressed=true]").all_inner_texts() == ["65 registers"]
    shown.get_by_role("button", name="64, of 1024 threads").click()
    assert "1 more, it can no longer be launched" in cliff.inner_text()
    for arch in MULTIPROCESSORS:  # half of what a multiprocessor has is room for two blocks, and one byte more is not
        shown.get_by_label("GPU").select_option(str(arch))
        blocks = []
        for name in ("half of the shared memory", "one byte more"):
            shown.get_by_role("button", name=name).click()
            blocks.append(int(answer.inner_text().split()[0]))
        assert blocks == [2, 1], arch
    assert shown.faults == []


def test_the_stairs_are_pressed_and_the_link_keeps_the_place(page):
    shown = page()
    stairs = shown.locator(".kl-occupancy__stairs")
    box = stairs.bounding_box()
    stairs.click(position={"x": 34 + (box["width"] - 42) * 128 / 255, "y": 60})
    assert shown.get_by_label("registers a thread", exact=True).input_value() == "128"
    words = shown.locator("output").inner_text()
    link = shown.get_by_role("link", name="Link to this").get_attribute("href")
    assert link == "#occupancy:arch=90;threads=256;registers=128;shared=4096"
    for address, said in ((link, words), ("#occupancy:arch=7;threads=-4;registers=999999", "255 registers")):
        shown.goto("about:blank")
        shown.goto((Path(shown.path)).as_uri() + address)
        if said == words:
            assert shown.locator("output").inner_text() == words
        else:
            assert shown.get_by_label("registers a thread", exact=True).input_value() == "255"
            assert shown.get_by_label("GPU").input_value() == "90"
    assert shown.faults == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_scripts_there_is_a_table_and_no_empty_box(page):
    shown = page(scripts=False)
    assert shown.locator(".kl-occupancy").bounding_box() is None
    rows = shown.locator("tbody tr").all_inner_texts()
    assert len(rows) == 2 and "75%, 48 of 64 warps\n33 registers; limited by registers" in rows[0]
