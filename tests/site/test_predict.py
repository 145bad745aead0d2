"""Predictions: kept in the browser, shown beside what was computed, and no hindrance where nothing can be kept."""

from __future__ import annotations

import pytest
from site_host import script_of

# One process keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

PAGE = """<!doctype html><meta charset="utf-8"><title>A page</title><link rel="icon" href="data:,"><article>
<h2 id="predict">Predict</h2><p>How many?</p>
<details class="question"><summary>257 elements: how many programs?</summary>
<p>It is <span class="kl-value">2</span>.</p></details>
<details class="question"><summary>Why?</summary><p>Because the last one is ragged.</p></details>
<details class="question"><summary>How many are masked?</summary>
<p><a href="#elsewhere">Another section</a> says it.</p></details>
<p>Keep your answers to these:</p><ol><li>How many are
  idle? (<a href="#elsewhere">Elsewhere</a> counts.)</li><li>No link, no field.</li></ol>
<h2 id="code">The code</h2><details class="question"><summary>Not a prediction</summary></details>
<h3 id="predict_1">Predict</h3><p>Write down four numbers.</p><h3>Run</h3><div class="kl-block">output</div>
<h2 id="elsewhere">Elsewhere</h2><p>255 of 512.</p>
</article><script>{script}</script>"""


@pytest.fixture
def opened(chromium, tmp_path):
    """`opened()`: the page of the test, again and again in the same browser's profile."""
    file = tmp_path / "index.html"
    file.write_text(PAGE.replace("{script}", script_of("predict")))
    context = chromium.new_context()
    faults = []

    def open_page(before: str = ""):
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        if before:
            page.add_init_script(before)
        page.goto(file.as_uri())
        return page

    yield open_page
    context.close()
    assert faults == []


def test_every_folded_question_under_predict_gets_a_field(opened):
    page = opened()
    assert page.locator("textarea").count() == 5  # three questions, one of a list, and a section without one
    assert page.get_by_label("Your prediction").count() == 5


def test_a_field_stands_below_its_question_and_is_named_after_it(opened):
    page = opened()
    for asked in ("257 elements: how many programs?", "Why?", "How many are masked?"):
        field = page.get_by_role("textbox", name=f"Your prediction: {asked}", exact=True)
        assert field.evaluate("e => e.closest('.kl-predict').previousElementSibling.firstChild.textContent") == asked


def test_prediction_stands_beside_what_was_computed(opened):
    page = opened()
    page.locator("textarea").first.fill("about 1 program")
    assert page.locator(".kl-predict__shown").count() == 0  # not before the answer is opened
    page.locator("summary").first.click()
    assert (
        page.locator(".kl-predict__shown").inner_text() == "You predicted about 1 program; it is 2. 2 times too little."
    )
    page.locator("textarea").first.fill("2")
    assert page.locator(".kl-predict__shown").inner_text().endswith("it is 2. Exactly.")
    page.locator("textarea").nth(1).fill("a guess in words")
    page.locator("summary").nth(1).click()
    assert page.locator(".kl-predict__shown").nth(1).inner_text() == "You predicted a guess in words."
    page.locator("textarea").last.fill("2, 512, 257, thread 0 of block 1")
    assert page.locator(".kl-block + .kl-predict__shown").inner_text().endswith("thread 0 of block 1")


def test_a_prediction_that_another_section_answers_waits_there(opened):
    page = opened()
    assert page.locator(".kl-predict__shown").count() == 0
    page.locator("textarea").nth(2).fill("100")
    assert waiting_text(page).splitlines() == ["You predicted 100", "How many are masked?"]
    assert page.locator(".kl-predict__shown").count() == 1
    page.close()
    page = opened()
    assert "You predicted 100" in waiting_text(page)
    page.locator("textarea").nth(2).fill("")
    assert page.locator(".kl-predict__shown").count() == 0


def test_a_question_of_a_list_has_its_field_and_waits_there(opened):
    page = opened()
    field = page.get_by_role("textbox", name="Your prediction: How many are idle?", exact=True)
    assert field.evaluate("e => e.closest('li').parentElement.children.length") == 2
    field.fill("12")
    assert waiting_text(page).splitlines() == ["You predicted 12", "How many are idle?"]
    field.fill("")
    assert page.locator(".kl-predict__shown").count() == 0


def wait_for_value(page, text: str) -> None:
    """Until the first field holds it: what another process of the browser keeps may come after the page is there."""
    page.wait_for_function("text => document.querySelector('textarea').value === text", arg=text)


def waiting_text(page) -> str:
    return page.locator("#elsewhere + .kl-predict__shown").inner_text()


def test_prediction_is_kept_and_can_be_deleted(opened):
    page = opened()
    page.locator("textarea").first.fill("7")
    page.close()
    page = opened()
    wait_for_value(page, "7")
    page.locator("textarea").first.fill("")
    assert page.evaluate("localStorage.length") == 0


def test_a_browser_that_keeps_nothing_is_no_hindrance(opened):
    page = opened("Object.defineProperty(window, 'localStorage', {get() { throw new Error('off') }})")
    page.locator("textarea").first.fill("2")
    page.locator("summary").first.click()
    assert "it is 2. Exactly." in page.locator(".kl-predict__shown").inner_text()


def test_storage_that_is_forbidden_has_a_stand_in(opened):
    """The theme asks for storage without care; where that is an error, neither search nor its switches would work."""
    page = opened()
    source = PAGE.replace("{script}", script_of("predict"))
    page.evaluate(
        """source => {
      const frame = document.createElement("iframe")
      frame.sandbox = "allow-scripts" // of no origin, as far as storage goes like a browser that keeps no cookies
      addEventListener("message", event => { window.told = event.data })
      frame.srcdoc = source + `<script>
        let told = []
        try {
          for (const each of [localStorage, sessionStorage]) {
            each.setItem("a", 1)
            told.push(each.getItem("a"), each.getItem("b"), each.removeItem("a"), each.getItem("a"))
          }
          const box = document.querySelector("textarea")
          box.value = "2"
          box.dispatchEvent(new Event("input"))
          told.push(document.querySelector(".kl-predict__note").textContent)
        } catch (error) { told = [String(error)] }
        parent.postMessage(told, "*")
      <\\/script>`
      document.body.append(frame)
    }""",
        source,
    )
    page.wait_for_function("window.told")
    told = page.evaluate("window.told")
    assert told[:-1] == ["1", None, None, None] * 2
    assert "lasts until you leave the page" in told[-1]


def test_where_nothing_can_be_kept_the_page_says_so(opened):
    page = opened("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }")
    page.locator("textarea").first.fill("2")
    assert "lasts until you leave the page" in page.locator(".kl-predict__note").first.inner_text()


def test_another_tab_shows_what_was_written_in_this_one(opened):
    one, two = opened(), opened()
    one.locator("textarea").first.fill("3")
    wait_for_value(two, "3")


def test_pages_of_the_bundle_do_not_share_their_predictions(opened, tmp_path):
    """From disk, the pages of a folder differ in their file's name alone."""
    page = opened()
    for name in ("other", "third"):
        (tmp_path / f"{name}.html").write_text((tmp_path / "index.html").read_text())
    page.goto((tmp_path / "other.html").as_uri())
    page.locator("textarea").first.fill("mine")
    page.goto((tmp_path / "third.html").as_uri())
    assert page.locator("textarea").first.input_value() == ""
    page.goto((tmp_path / "other.html").as_uri())
    wait_for_value(page, "mine")


@pytest.mark.parametrize(
    ("mine", "truth", "said"),
    [
        ("1,024", "1024", "Exactly."),
        ("4000 GB/s", "4,250 GB/s", "Within 7%."),
        ("100", "105.49", "Within 6%."),
        ("100", "105", "Within 5%."),
        ("100", "100.001", "Within 1%."),
        ("10", "1000", "100 times too little."),
        ("3e9", "1.5e9", "2 times too much."),
        ("0", "7", "Off by -7."),
        ("many", "7", ""),
        ("−3", "3", "Off by -6."),
        (".5", "0.5", "Exactly."),
        ("2^10", "1024", "Exactly."),
        ("2**10", "1,024", "Exactly."),
        ("10^6", "1,000,000", "Exactly."),
        ("1/2", "0.5", "Exactly."),
        ("32 × 32 threads", "1,024", "Exactly."),
        ("1,5", "1.5", "Exactly."),
        ("1.5k", "1500", "Exactly."),
        ("1'000", "1 000", "Exactly."),
        ("4 8 16", "4", "Exactly."),
        ("2, 512, 257", "2", "Exactly."),
        ("8 × 4 × 2", "64", ""),
        ("2¹⁰", "1024", ""),
        ("0.26 ms", "260 µs", ""),
        ("3 KB", "3", "Exactly."),
        ("260 us", "260 µs", "Exactly."),
        ("50%", "50", "Exactly."),
        ("3 to 4 times", "3", "Exactly."),
    ],
)
def test_comparison_in_words(opened, mine, truth, said):
    assert opened().evaluate("([a, b]) => klPredict.compared(a, b)", [mine, truth]) == said
