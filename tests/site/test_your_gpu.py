"""A results file that is dropped: drawn over ours where it fits the schema, a sentence where it does not."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from site_host import ROOT, script_of

from kernels.bench.results import read
from kernels.bench.schema import schema
from kernels.figures.your_gpu import your_gpu

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

FILE = ROOT / "results/h200/add.json"
FRAME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Your GPU</title><link rel="icon" href="data:,">
<style>{css}</style><main>{figure}</main><script>{script}</script>"""


@pytest.fixture
def page(chromium):
    context = chromium.new_context(viewport={"width": 1000, "height": 900})
    opened, faults = context.new_page(), []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: faults.append(request.url))
    css = (ROOT / "docs/assets/lessons.css").read_text()
    opened.set_content(FRAME.format(css=css, script=script_of("your-gpu"), figure=your_gpu([read(FILE)], schema())))
    yield opened
    context.close()
    assert faults == []  # nothing is uploaded, and nothing fails


def give(page, *files: tuple[str, object]) -> None:
    as_text = [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in files]
    given = [{"name": name, "mimeType": "application/json", "buffer": text.encode()} for name, text in as_text]
    page.locator("input[type=file]").set_input_files(given)
    page.wait_for_function(
        "document.querySelector('.kl-yours__note').textContent || document.querySelector('.kl-yours__shown *')"
    )


def slower(times: float) -> dict[str, object]:
    """Our file as a GPU that takes so many times as long would have written it."""
    document = json.loads(FILE.read_text())
    document["provenance"]["gpu"] = "NVIDIA RTX 9999"
    for record in document["cases"]:
        if record["status"] == "ok":
            record["median_us"] *= times
            record["gb_per_s"] /= times
    for limit in document["limits"]:
        if limit["gb_per_s"]:
            limit["gb_per_s"] /= times
    return document


def test_a_file_is_drawn_over_ours(page):
    give(page, ("mine.json", slower(3)))
    shown = page.locator(".kl-yours__shown")
    assert "On NVIDIA RTX 9999 they take 3 times as long as on NVIDIA H200" in shown.inner_text()
    rows = shown.locator("tbody tr:not(.kl-group)")
    assert rows.count() > 3 and shown.locator("tr.kl-group").all_inner_texts() == ["add"]
    assert set(rows.locator("td:nth-of-type(1)").all_inner_texts()) == {"3"}
    ours = page.locator(".kl-yours__ours tbody tr:not(.kl-group) > th").all_text_contents()
    shapes = {words.rpartition(" ")[0] for words in ours}  # the type stands behind the shape
    theirs = {words.rpartition(" ")[0] for words in rows.locator("th").all_text_contents()}
    assert theirs <= shapes, "shapes are written as in our table"
    assert "your copy rate is" in shown.locator("svg.kl-svg").get_attribute("aria-label")
    assert page.locator(".kl-yours__note").inner_text() == ""


def test_a_phone_shows_the_ratio_of_every_case(page):
    page.set_viewport_size({"width": 390, "height": 800})
    give(page, ("mine.json", slower(3)))
    ratios = page.locator(".kl-yours__shown tbody td:nth-of-type(1)")
    assert ratios.count() > 3 and set(ratios.all_inner_texts()) == {"3"}
    assert all(box["x"] + box["width"] <= 374 for box in (ratio.bounding_box() for ratio in ratios.all()))


def test_a_mean_of_one_is_said_in_words(page):
    give(page, ("mine.json", slower(1)))
    assert "they take as long as on NVIDIA H200" in page.locator(".kl-yours__shown").inner_text()


def test_a_single_case_is_one(page):
    document = slower(3)
    document["cases"] = document["cases"][:1]
    give(page, ("mine.json", document))
    said = page.locator(".kl-yours__shown").inner_text()
    assert "1 case in common. On NVIDIA RTX 9999 it takes 3 times as long" in said


def test_only_what_the_operator_launches_by_itself_is_compared(page):
    document = slower(2)
    other = [json.loads(json.dumps(r)) for r in document["cases"] if r["implementation"] == "triton" and r["median_us"]]
    for i, record in enumerate(other):
        record["median_us"] /= 100
        record |= ({"implementation": "triton[block=256]"}, {"cache": "warm"}, {"timing": "events"})[i % 3]
    document["cases"] += other
    give(page, ("mine.json", document))
    assert page.locator(".kl-yours__note").inner_text() == ""
    compared = page.locator(".kl-yours__shown tbody td:nth-of-type(1)").all_inner_texts()
    assert len(compared) > 3 and set(compared) == {"2"}


def test_ours_are_those_of_the_operators_page():
    best = min(r.median_us for r in read(FILE).cases if r.ours and r.shape == [268435456] and r.dtype == "float32")
    itself = next(
        r for r in read(FILE).cases if r.implementation == "triton" and r.shape == [268435456] and r.dtype == "float32"
    )
    assert best < itself.median_us  # a setting by hand is faster, and is not what we compare with
    html = your_gpu([read(FILE)], schema())
    assert f'"us":{itself.median_us},' in html and f'"us":{best},' not in html


@pytest.mark.parametrize("width", [390, 1000])
def test_the_plot_says_whose_marks_are_whose_and_cuts_no_word(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    give(page, ("mine.json", slower(3)))
    legend = page.locator(".kl-yours__legend").first
    assert "NVIDIA H200 (ours)" in legend.inner_text() and "NVIDIA RTX 9999 (yours)" in legend.inner_text()
    keys = [shape[-1:] + str("a" in shape) for shape in legend.evaluate(SHAPES)]
    marks = [shape[-1:] + str("a" in shape) for shape in page.locator(".kl-yours__shown svg.kl-svg").evaluate(SHAPES)]
    assert keys == ["zTrue", "zFalse"]  # round and square, so that colour is not the only sign
    assert marks.count("zTrue") == marks.count("zFalse") > 3
    cut = page.locator(".kl-yours__shown svg.kl-svg").evaluate("""svg => {
      const frame = svg.getBoundingClientRect()
      return [...svg.querySelectorAll("text")].filter(text => {
        const box = text.getBoundingClientRect()
        return box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom
      }).map(text => text.textContent)
    }""")
    words = page.locator(".kl-yours__shown svg.kl-svg text").all_text_contents()
    assert cut == [] and {"operations a byte", "TFLOP/s", "add"} <= set(words)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


SHAPES = "node => [...node.querySelectorAll('path.kl-own')].map(path => path.getAttribute('d'))"


def test_ours_are_folded_while_yours_are_shown(page):
    ours = page.locator(".kl-yours__ours")
    assert ours.is_visible()
    give(page, ("mine.json", slower(3)))
    assert not ours.is_visible()
    page.locator("figure summary").focus()
    page.keyboard.press("Enter")
    assert ours.is_visible()
    give(page, ("mine.json", slower(2)))
    assert ours.is_visible()  # it stays as the reader left it
    give(page, ("wrong.json", "{"))
    page.locator("figure summary").wait_for(state="detached")
    assert ours.is_visible()


def changed(path: tuple, value: object) -> dict[str, object]:
    """Our file with one other value in it."""
    document = slower(1)
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return document


WRONG = {
    "nothing": ("", "mine.json is empty"),
    "blanks": (" \n", "mine.json is empty"),
    "bytes": ("\0\1PK\3\4", "mine.json is no JSON"),
    "NaN": (json.dumps(changed(("cases", 0, "median_us"), float("nan"))), "mine.json is no JSON"),
    "Infinity": (
        json.dumps(changed(("cases", 0, "median_us"), -7)).replace('"median_us": -7,', '"median_us": 1e999,'),
        "cases[0].median_us is a number that is too large, and should be of the type number",
    ),
    "a name that every object has": (slower(1) | {"constructor": 1}, 'has "constructor", which no results file has'),
    "too large": (" " * 21_000_000, "mine.json has 21 MB; a results file has less than 20."),
    "no JSON": ("<html>", "mine.json is no JSON"),
    "another JSON": ({"name": "package"}, 'the whole file has no "provenance"'),
    "a later schema": (slower(1) | {"schema_version": 99}, "has the schema version 99, and this page reads"),
    "a field too many": (slower(1) | {"mood": "good"}, 'has "mood", which no results file has'),
    "a list": ([], "the whole file is [], and should be of the type object"),
    "a text for a number": (None, 'cases[0].median_us is "fast", and should be of the type number'),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_gets_a_sentence(page, name):
    value, said = WRONG[name]
    if value is None:
        value = slower(1)
        value["cases"][0]["median_us"] = "fast"
    give(page, ("mine.json", value))
    assert said in page.locator(".kl-yours__note").inner_text()
    assert page.locator(".kl-yours__shown").inner_text() == ""


def test_names_in_a_file_are_shown_as_text(page):
    name = "<img src=x onerror=alert(1)>"
    give(page, ("mine.json", changed(("provenance", "gpu"), name)))
    shown = page.locator(".kl-yours__shown")
    assert name in shown.inner_text() and shown.locator("img").count() == 0


def test_times_that_cannot_be_are_left_out(page):
    document = slower(1)
    for record in document["cases"]:
        record["median_us"] = -1.0
    give(page, ("mine.json", document))
    assert "none of its cases was measured as ours were" in page.locator(".kl-yours__shown").inner_text()


@pytest.mark.parametrize(
    "other", [{"timing": "events"}, {"cache": "warm"}, {"implementation": "torch", "ours": False}, {"status": "wrong"}]
)
def test_what_was_measured_otherwise_is_not_said_to_be_of_another_shape(page, other):
    document = slower(1)
    for record in document["cases"]:
        record |= other
    give(page, ("mine.json", document))
    said = page.locator(".kl-yours__shown").inner_text()
    assert "none of its cases was measured as ours were" in said and "of one of ours" not in said
    document["cases"] = [r | {"shape": [7]} for r in slower(1)["cases"] if r["implementation"] == "triton"][:1]
    give(page, ("mine.json", document))
    page.wait_for_function("document.querySelector('.kl-yours__shown').textContent.includes('of one of ours')")
    assert "1 of your cases has no counterpart here." in page.locator(".kl-yours__shown").inner_text()


@pytest.mark.parametrize("missing", ["cases", "limits"])
def test_a_file_without_what_may_be_left_out_does_not_hide_another(page, missing):
    document = slower(2)
    del document[missing]
    give(page, ("short.json", document), ("mine.json", slower(2)))
    assert page.locator(".kl-yours__note").inner_text() == ""
    assert "take 2 times as long" in page.locator(".kl-yours__shown").inner_text()


def test_files_of_two_gpus_are_not_mixed(page):
    give(page, ("ours.json", changed(("provenance", "gpu"), "NVIDIA H200")), ("mine.json", slower(2)))
    page.wait_for_function("document.querySelector('.kl-yours__note').textContent")
    said = page.locator(".kl-yours__note").inner_text()
    assert (
        said == "These files cannot be drawn: they are of 2 GPUs, NVIDIA H200 and NVIDIA RTX 9999; drop those of one."
    )
    assert page.locator(".kl-yours__shown").inner_text() == ""


def test_the_same_file_can_be_chosen_again(page):
    """A browser tells of no change where the same file is chosen, which was measured anew in the meantime."""
    give(page, ("mine.json", slower(2)))
    with page.expect_file_chooser():
        page.locator("input[type=file]").click()
    assert page.locator("input[type=file]").evaluate("input => input.files.length") == 0
    assert "take 2 times as long" in page.locator(".kl-yours__shown").inner_text()


DROP = """text => {
  const data = new DataTransfer()
  if (text) data.items.add(new File([text], "mine.json"))
  const event = new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
  document.querySelector("main").dispatchEvent(event)
  return event.defaultPrevented
}"""


def test_a_file_may_be_dropped_anywhere_on_the_page(page):
    assert page.evaluate(DROP, json.dumps(slower(2)))  # else the browser shows the file in the page's place
    page.locator(".kl-yours__shown tbody tr").first.wait_for()


def test_what_is_no_file_gets_a_sentence(page):
    assert page.evaluate(DROP, "")
    page.wait_for_function("document.querySelector('.kl-yours__note').textContent")
    assert "Nothing that was dropped is a file" in page.locator(".kl-yours__note").inner_text()


def test_one_wrong_file_does_not_hide_the_right_one(page):
    give(page, ("wrong.json", "{"), ("mine.json", slower(2)))
    assert "wrong.json is no JSON" in page.locator(".kl-yours__note").inner_text()
    assert "take 2 times as long" in page.locator(".kl-yours__shown").inner_text()


GIVEN_AS_BYTES = """([text, bytes]) => {
  const codes = [...text].map(sign => sign.charCodeAt(0)), data = new DataTransfer()
  const wide = order => new Uint8Array([0xfeff, ...codes].flatMap(code => order([code >> 8, code & 255])))
  const lines = () => "\\ufeff" + text.replaceAll("\\n", "\\r\\n")
  const all = { le: () => wide(two => two.reverse()), be: () => wide(two => two), bom: lines }
  data.items.add(new File([all[bytes]()], "mine.json"))
  document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }))
}"""


@pytest.mark.parametrize("how", ["le", "be", "bom"])
def test_a_file_that_a_shell_wrote_with_two_bytes_a_sign_is_read(page, how):
    """PowerShell's `>` does; an editor puts a mark at the beginning and its own ends of lines."""
    page.evaluate(GIVEN_AS_BYTES, [json.dumps(slower(3), indent=1), how])
    page.wait_for_function(
        "document.querySelector('.kl-yours__note').textContent || document.querySelector('.kl-yours__shown *')"
    )
    assert page.locator(".kl-yours__note").inner_text() == ""
    assert "take 3 times as long" in page.locator(".kl-yours__shown").inner_text()


@pytest.mark.parametrize("speed", [1e308, 1.7e300, -1.0, 0.0])
def test_a_speed_that_cannot_be_does_not_hang_the_page(page, speed):
    document = slower(3)
    for record in document["cases"][:-1] + document["limits"][: speed > 1e307]:
        record["gb_per_s"] = speed
    give(page, ("mine.json", document))
    assert "take 3 times as long" in page.locator(".kl-yours__shown").inner_text()
    assert page.locator(".kl-yours__shown svg.kl-svg text").count() < 60


MANY_LIMITS = """text => {
  const given = JSON.parse(text), data = new DataTransfer()
  const small = { ...given.limits[0], method: "", bytes_moved: 0, samples_us: [], median_us: 1, gb_per_s: 1 }
  given.limits.push(...Array(70000).fill(small))
  given.limits.push(...Array(68000).fill(small)) // all in less than 20 MB
  data.items.add(new File([JSON.stringify(given)], "mine.json"))
  document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }))
}"""


def test_a_file_with_more_limits_than_a_call_takes_is_drawn(page):
    page.evaluate(MANY_LIMITS, json.dumps(slower(3)))
    page.locator(".kl-yours__shown tbody tr").first.wait_for()
    assert "take 3 times as long" in page.locator(".kl-yours__shown").inner_text()


def test_a_file_that_cannot_be_drawn_leaves_no_old_table(page):
    give(page, ("mine.json", slower(3)))
    page.evaluate("() => { HTMLTableElement.prototype.append = () => { throw new Error('no room') } }")
    give(page, ("mine.json", slower(2)))
    page.wait_for_function("document.querySelector('.kl-yours__note').textContent")
    assert page.locator(".kl-yours__note").inner_text() == "These files cannot be drawn: no room."
    assert page.locator(".kl-yours__shown").inner_text() == ""


TWO_LARGE = """() => {
  const data = new DataTransfer()
  for (const name of ["one.json", "two.json"]) data.items.add(new File([" ".repeat(11e6)], name))
  document.querySelector("main").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }))
}"""


def test_files_that_are_too_large_together_get_a_sentence(page):
    page.evaluate(TWO_LARGE)
    page.wait_for_function("document.querySelector('.kl-yours__note').textContent")
    assert page.locator(".kl-yours__note").inner_text() == "These 2 files have 22 MB together; drop less than 20."


def test_the_browser_judges_as_another_validator_does(page):
    published, good = schema(), json.loads(FILE.read_text())
    other = Draft202012Validator(published)
    for path, value in [
        ((), None), (("cases",), {}), (("cases", 0, "shape"), ["4096"]), (("cases", 0, "status"), "fine"),
        (("finished",), 1), (("provenance", "gpu"), None), (("provenance", "power_limit_w"), None),
        (("cases", 0, "flops"), 1.5), (("limits",), []),
    ]:  # fmt: skip
        document = json.loads(json.dumps(good))
        at = document
        for step in path[:-1]:
            at = at[step]
        if path:
            at[path[-1]] = value
        fits = (
            page.evaluate("([value, schema]) => klYours.misfit(value, schema, schema)", [document, published]) is None
        )
        assert fits == other.is_valid(document), path


def test_records_of_two_gpus_are_refused():
    with pytest.raises(ValueError, match="none"):
        your_gpu([], schema())


def test_the_field_and_a_long_name_fit_a_narrow_window(page):
    page.set_viewport_size({"width": 320, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    document = slower(3)
    document["provenance"]["gpu"] = "G" * 3000
    give(page, ("mine.json", document))
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
