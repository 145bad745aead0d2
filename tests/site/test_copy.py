"""What a reader copies runs as it is, in a fresh process."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from site_host import ROOT, nav_pages
from warm_python import WarmPython

from kernels.lessons.program import ADDED, INTERPRETED

# One process builds the site and keeps the browser.
pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("site")]

BLOCK = re.compile(
    r'<div class="kl-block[^"]*" id="block-([^"]+)".*?(?=<div class="kl-block no-copy|</article>)', re.DOTALL
)
PROGRAM = re.compile(r'class="kl-copy" data-clipboard-text="([^"]*)"')


def programs(deployed, blocks) -> dict[str, tuple[str, object]]:
    """Text to copy -> where it stands and its block; only what this machine can run."""
    found = {}
    for path in nav_pages():
        text = (deployed.files / "latest" / path / "index.html").read_text()
        for match in BLOCK.finditer(text):
            copied = PROGRAM.search(match[0])
            block, lacking = blocks[path, match[1]]
            if copied and not lacking:
                found[html.unescape(copied[1])] = (f"{path}#block-{match[1]}", block)
    return found


@pytest.fixture(scope="module")
def blocks():
    """(page, id) -> the block, and what this machine lacks of what it needs."""
    from kernels.lessons.mkdocs_plugin import open_project

    engine, sources, _ = open_project(str(ROOT / "mkdocs.yml"))
    found = {}
    for source in sources:
        path = re.sub(r"(^|/)index$", r"\1", source.name.removesuffix(".md"))
        path += "" if path == "" or path.endswith("/") else "/"
        for block in engine.scan(source).blocks:
            found[path, block.id] = (block, engine.machine.lacking(block.needs))
    engine.close()
    return found


def body(text: str) -> str:
    """The blocks of a program: no heading, which names the last, and no line on what is printed."""
    text = re.sub(r"\A#.*\n", "", text)
    for line in (INTERPRETED, *ADDED):
        text = text.replace(line, "")
    return text.rstrip()


def environment() -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{found['PATH']}"
    return found | {"PYTHONPATH": str(ROOT)}  # as for a file that was saved in the project's folder


@pytest.fixture(scope="module")
def warm():
    python = WarmPython(environment())
    yield python
    python.close()


def run(text: str, block, folder: Path, warm: WarmPython) -> str:
    """Why the program failed; empty when it ran."""
    if block.language == "bash":
        done = subprocess.run(
            ["bash", "-c", text], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=500
        )
    else:
        file = folder / f"{block.id}.py"
        file.write_text(text)
        done = warm.run(file)
    expected = block.returncode if block.language == "bash" else 0
    raised = done.stderr.strip().rpartition("\n")[2].partition(":")[0].rpartition(".")[2]
    if block.raises:
        return (
            ""
            if raised == block.raises.rpartition(".")[2]
            else f"{block.raises} was to be raised: {done.stderr[-800:]}"
        )
    return "" if done.returncode == expected else f"exit status {done.returncode}\n{done.stderr[-1500:]}"


@pytest.mark.timeout(1500)  # some hundred processes
def test_every_program_that_can_be_copied_runs(deployed, blocks, warm, tmp_path):
    found = programs(deployed, blocks)
    # A program that is the beginning of a longer one has run when that one has; those that stop early run alone.
    distinct = [
        (text, place, block)
        for text, (place, block) in found.items()
        if block.raises or not any(other != text and body(other).startswith(body(text)) for other in found)
    ]
    assert distinct, "no page offers a program to copy"
    folders = [tmp_path / str(index) for index in range(len(distinct))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as pool:
        failures = pool.map(lambda one, folder: run(one[0], one[2], folder, warm), distinct, folders)
        failed = [f"{place}: {why}" for (_, place, _), why in zip(distinct, failures, strict=True) if why]
    assert failed == [], "\n\n".join(failed)


@pytest.mark.parametrize(
    ("text", "raises", "said"),
    [
        ("import torch\nprint(torch.ones(2))", "", ""),
        ("print(torch.ones(2))", "", "NameError: name 'torch' is not defined"),
        ("import sys\nassert 'triton' not in sys.modules and 'kernels' not in sys.modules", "", ""),
        ("import os; os.environ['A_LEAK'] = '1'", "", ""),
        ("import os\nassert 'A_LEAK' not in os.environ, 'of another program'\nsys.exit(3)", "", "NameError"),
        ("import sys\nsys.exit(3)", "", "exit status 3"),
        ("import os\nos.kill(os.getpid(), 9)", "", "exit status -9"),
        ("raise KeyError('a')", "KeyError", ""),
        ("raise KeyError('a')", "ValueError", "ValueError was to be raised"),
    ],
)
def test_a_program_has_a_process_of_its_own_and_its_end_is_told(warm, tmp_path, text, raises, said):
    block = SimpleNamespace(language="python", id="b", raises=raises)
    why = run(text, block, tmp_path, warm)
    assert said in why and bool(said) == bool(why), why


def test_every_block_offers_a_program(deployed, blocks):
    offered = set()
    for path in nav_pages():
        for match in BLOCK.finditer((deployed.files / "latest" / path / "index.html").read_text()):
            if PROGRAM.search(match[0]):
                offered.add((path, match[1]))
    of_pages = {(path, name) for path, name in blocks if not path.startswith("notebooks/")}  # those are whole programs
    assert sorted(of_pages - offered) == [] and len(of_pages) > 400


def test_a_program_that_cannot_run_here_is_named_and_can_be_read(deployed, blocks):
    """What needs a GPU or a compiler that this machine lacks is at least code of its language."""
    named = []
    for path in nav_pages():
        for match in BLOCK.finditer((deployed.files / "latest" / path / "index.html").read_text()):
            block, lacking = blocks[path, match[1]]
            if lacking and (copied := PROGRAM.search(match[0])):
                text = html.unescape(copied[1])
                if block.language == "bash":
                    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
                    assert done.returncode == 0, f"{path}#block-{match[1]}: {done.stderr}"
                else:
                    compile(text, f"{path}#block-{match[1]}", "exec")
                named.append(f"{path}#block-{match[1]} ({'; '.join(lacking)})")
    if named:
        pytest.skip(f"not run here, {len(named)}: {', '.join(named)}")


def test_no_snippet_is_shown_that_nothing_runs(deployed):
    """Python and CUDA on a page is an executed block, or an excerpt of a file that is tested."""
    for path in nav_pages():
        text = (deployed.files / "latest" / path / "index.html").read_text()
        article = text[text.index("<article") : text.index("</article>")]
        for figure in re.findall(r'<figure class="kl-excerpt.*?</figure>', article, re.DOTALL):
            article = article.replace(figure, "")
        article = re.sub(r'<div class="kl-block\b.*?<div class="kl-block__bar', "", article, flags=re.DOTALL)
        assert re.findall(r'class="language-(?:python|cuda|cpp)[^"]*"', article) == [], path


# Notes that something had a class, which it may have lost again before a slow test looks.
NOTE = """name => new MutationObserver(() => { window.klSeen ||= document.querySelector("." + name) !== null })
  .observe(document.body, { subtree: true, attributes: true, attributeFilter: ["class"] })"""


def test_copy_button_copies_and_says_so(read):
    with read("latest/") as reading:
        page = reading.page
        button = page.locator(".kl-copy").first
        button.focus()
        page.evaluate(NOTE, "kl-copy--done")
        page.keyboard.press("Enter")
        page.wait_for_function("window.klSeen")
        dialog = page.locator(".md-dialog")
        assert dialog.get_attribute("aria-live") == "polite"
        assert "Copied" in dialog.inner_text()
        assert page.evaluate("navigator.clipboard.readText()") == button.get_attribute("data-clipboard-text")


def test_plain_code_has_the_themes_copy_button_and_excerpts_have_none(read):
    """On every page `test_pages` sees that no block has a second button; here, that there is something to see."""
    with read("latest/guides/setup/") as reading:
        reading.page.locator(".md-code__button, .md-clipboard").first.wait_for(state="attached")  # the theme adds them
    with read("latest/lessons/9-read-cuda/") as reading:
        assert reading.page.locator(".kl-excerpt").count() > 0
        assert reading.page.locator(".kl-excerpt button").count() == 0


def test_a_prompt_is_not_copied(read):
    """Nor what the command printed: a prompt stands only where a page shows both."""
    with read("latest/authoring/adding-a-lesson/") as reading:
        page = reading.page
        commands = page.locator(".highlight:has(.gp)", has_text="lessons accept").first
        assert "$ lessons accept" in commands.inner_text() and "wrote lessons/" in commands.inner_text()
        page.evaluate(NOTE, "md-dialog--active")
        commands.locator(".md-code__button[data-md-type=copy], .md-clipboard").first.click()
        page.wait_for_function("window.klSeen")
        copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == "lessons accept lessons/mine.md"
