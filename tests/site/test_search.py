"""Search finds the page that explains a thing before those that mention it."""

from __future__ import annotations

import re

import pytest
from site_host import ROOT, ask, results

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]


# What is looked for, and the pages that explain it: one of them must be the first answer, or among the first three.
EXPLAINED = {
    # terms
    "warp shuffle": (1, ("/essentials/3-shuffles/", "/lessons/9-read-cuda/")),
    "bank conflict": (1, ("/lessons/glossary/#bank-conflict",)),
    "coalescing": (1, ("/essentials/2-coalescing/",)),
    "occupancy": (1, ("/essentials/1-warps/",)),
    "online softmax": (3, ("/labs/3-softmax/",)),
    "wgmma": (3, ("/essentials/5-hopper-and-blackwell/",)),
    # commands and their options
    "kernel-bench": (1, ("/reference/commands/#kernel-bench",)),
    "kernel-bench --op softmax": (1, ("/reference/commands/#kernel-bench",)),
    "lessons check": (1, ("/reference/commands/#lessons-check",)),
    "lessons-check": (1, ("/reference/commands/#lessons-check",)),
    "lessons new operator": (1, ("/reference/commands/#lessons-new-operator",)),
    "--timing": (1, ("/reference/commands/#kernel-bench",)),
    "--compile": (1, ("/reference/commands/#kernel-bench",)),
    "--frozen": (1, ("/reference/commands/#lessons-verify",)),
    "racecheck": (3, ("/guides/profiling/", "/lessons/9-read-cuda/")),
    # names of code
    "_softmax_looped": (3, ("/labs/3-softmax/", "/reference/softmax-py/")),
    "softmax_looped": (3, ("/labs/3-softmax/", "/reference/softmax-py/")),
    "launch_softmax": (3, ("/reference/softmax-py/", "/labs/3-softmax/")),
    "block_reduce": (3, ("/labs/3-softmax/", "/lessons/9-read-cuda/")),
    "trace_triton": (1, ("/reference/python/",)),
    "fraction_of_limit": (3, ("/reference/results-schema/", "/lessons/7-measure/")),
    "residual_rmsnorm": (3, ("/labs/4-residual-rmsnorm/", "/lessons/5-residual-rmsnorm/")),
    "row-sum": (3, ("/labs/2-row-sum/",)),
    "vector-add": (6, ("/labs/1-vector-add/", "/notebooks/1-vector-add/")),  # behind pages that name the file often
    "tl.load": (3, ("/labs/1-vector-add/", "/lessons/8-first-triton-kernels/")),
    "tl.dot": (3, ("/lessons/6-matrix-tiles/", "/labs/5-gemm/")),
    "@triton.jit": (3, ("/labs/1-vector-add/", "/lessons/8-first-triton-kernels/")),
    "num_warps": (3, ("/labs/5-gemm/", "/guides/case-studies/wide-rows/")),
    "BLOCK_SIZE": (3, ("/labs/1-vector-add/", "/lessons/1-offsets-and-masks/")),
    "threadIdx.x": (3, ("/lessons/9-read-cuda/", "/essentials/1-execution-model/")),
    "#include": (3, ("/essentials/7-pytorch/", "/reference/kernels-cu/")),
    "__shfl_xor_sync": (1, ("/essentials/3-shuffles/",)),
    "__syncthreads": (3, ("/essentials/6-synchronization/",)),
    "__launch_bounds__": (1, ("/essentials/1-launch-bounds/",)),
    "cp.async": (3, ("/essentials/4-gemm-ladder/", "/essentials/5-hopper-and-blackwell/")),
    "torch.library.custom_op": (1, ("/lessons/10-custom-op/",)),
    "kernels/ops/softmax.py": (1, ("/reference/softmax-py/",)),
    # results
    "H200 softmax": (3, ("/reference/operators/",)),
    "softmax H200": (3, ("/reference/operators/",)),
    "rmsnorm H200": (3, ("/reference/operators/",)),
    "GB/s": (3, ("/lessons/7-measure/", "/guides/benchmarking/")),
}


def by_page(addresses: list[str]) -> list[list[str]]:
    """Answers in their order, those of one page together, since the search shows them as one."""
    pages: dict[str, list[str]] = {}
    for address in addresses:
        page, _, place = re.sub(r"\?h=[^#]*", "", address).partition("#")
        pages.setdefault(page, []).append(f"{page}#{place}")
    return list(pages.values())


@pytest.fixture(scope="module")
def open_page(chromium, deployed):
    """One page, in which all questions are asked."""
    context = chromium.new_context()
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(deployed.url("latest/"), wait_until="networkidle")
    yield page, wrong
    context.close()


@pytest.mark.parametrize("words", EXPLAINED)
def test_a_term_a_symbol_a_command_or_a_result_leads_to_its_page(open_page, words):
    page, wrong = open_page
    among, pages = EXPLAINED[words]
    found = results(page, words)
    first = by_page(found)[:among]
    assert any(expected in address for group in first for address in group for expected in pages), first
    assert wrong == []


PASTED = """([code, words]) => {
  const heard = [], told = [], lunr = { TokenSet: { prototype: {} } }
  const self = { lunr, postMessage: message => told.push(message), addEventListener: (name, hear) => heard.push(hear) }
  new Function("self", code)(self)
  const send = data => { for (const hear of heard) hear({ data }); return data }
  const docs = [{ location: "a/", title: "A", text: "what tl.load reads" }]
  send({ type: 0, data: { docs } })
  const sent = send({ type: 2, data: words }).data
  self.postMessage({ type: 3, data: { items: [] } })
  return [sent.length, told[0].data.items.length]
}"""


def test_a_page_that_is_pasted_is_not_looked_for_word_by_word(chromium):
    """Each name of code in it was looked for in each section, which took many seconds."""
    page = chromium.new_page()
    code = (ROOT / "docs/assets/search-ranking.js").read_text(encoding="utf-8")
    words = "tl.load " + " ".join(f"a_{number}" for number in range(1000))
    asked, found = page.evaluate(PASTED, [code, words])
    page.close()
    assert asked <= 200 and found == 1


def test_long_outputs_do_not_drown_the_search(deployed):
    index = (deployed.files / "latest" / "search" / "search_index.json").read_text()
    assert ".reg .b32" not in index and ".visible .entry" not in index


@pytest.mark.parametrize(
    "words", ["--", "+", '"', "*", "::", "~2", "^", "a:b", "\\", "<b>", "&lt;", "softmax -", "(", "🙂"]
)
def test_no_typed_sign_breaks_the_search(open_page, words):
    page, wrong = open_page
    ask(page, words)
    page.wait_for_timeout(200)
    assert results(page, "warp shuffle")
    assert wrong == []


def test_what_was_found_is_shown_marked_and_as_text(open_page):
    page, _ = open_page
    results(page, "#include")
    article = page.locator(".md-search-result__item", has_text="PyTorch").first
    assert "#include" in article.locator("mark").first.inner_text()
    assert page.locator(".md-search-result :is(script, img, input)").count() == 0


def test_captions_of_blocks_are_not_searched(deployed):
    index = (deployed.files / "latest" / "search" / "search_index.json").read_text()
    assert "Copy as a program" not in index


@pytest.mark.parametrize("words", ["row_sum", "tl.load", "H200", "__global__"])
def test_what_our_ranking_found_is_marked_on_the_page_that_opens(open_page, words):
    page, _ = open_page
    for address in results(page, words):
        assert "h=" not in address or "h=&" not in address.replace("#", "&"), address


LISTING = [f"line {i}" for i in range(30)]
FOUND = [*LISTING[:20], "the <mark>word</mark> itself", *LISTING[20:]]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (FOUND, ["…", "line 18", "line 19", "the word itself", "line 20", "line 21", "…"]),
        (LISTING, [*LISTING[:5], "…"]),
        (FOUND[:21], ["…", *LISTING[16:20], "the word itself"]),
        (LISTING[:7], LISTING[:7]),
    ],
    ids=["a hit", "none", "the last line", "short"],
)
def test_of_long_code_an_answer_shows_the_lines_around_the_hit(chromium, code, shown):
    """The script as the theme's worker has it before its own, with an answer of the theme."""
    page = chromium.new_page()
    page.set_content("<title>T</title>")
    page.evaluate("() => { window.told = []; window.postMessage = message => told.push(message) }")
    page.add_script_tag(content=(ROOT / "docs/assets/search-ranking.js").read_text("utf-8"))
    text = "<p>Before.</p><pre><code>" + "\n".join(code) + "</code></pre><p>After.</p>"
    page.evaluate("text => postMessage({ type: 3, data: { items: [[{ location: 'a/', score: 1, text }]] } })", text)
    page.set_content(page.evaluate("told[0].data.items[0][0].text"))
    assert page.locator("pre").inner_text().splitlines() == shown
    assert page.locator("p").all_inner_texts() == ["Before.", "After."]
    page.close()
