"""The badge under an output: what it vouches for, and what it does not."""

import pytest

from kernels.lessons.model import Block, Outcome, Output, PageOutcome, PageScan, PageSource
from kernels.lessons.render import PageRenderer, evidence_of, record_folders
from kernels.lessons.store import RunStore

MISSING = (
    "Not measured yet on this GPU: the orders. On a machine with a GPU, `python scripts/gemm_grouping.py` measures it.",
    "<p>Not measured on the H200 yet; the command above measures it on your GPU.</p>",
    "The clock probe has not been run on this GPU yet; the first command above does it.",
    "The counters behind the caches have not been read for this launch yet; the third command above reads them.",
    "Not built on this GPU yet. In lessons_src/examples/matmul_ext, pip builds it ahead of time.",
    "No ratio without a measurement.",
    "The prediction stands, and has not met a measurement on this GPU.",
    "Count first, measure later: there is no record of these on this GPU yet.",
    "Until it is measured, none of the three is better than the others.",
    "$ nsys profile\nnsys: not on PATH, nor beside the CUDA toolkit of this machine.\n[not on that machine]",
)
MEASURED = (
    "add 1048576, warm: ours and torch do not differ by more than their spreads.",
    "not to be trusted to the microsecond, the spread is above a quarter: torch eager, torch eager, autograd",
    "<table><tr><td>9.05</td></tr></table><p>One row was not measured yet.</p>",
    "73 of 90 cases; calls until even:",
    "Not measured yet on this GPU: this report.\nThe tool's report from another run on an H200:\n"
    + "0x10 in add.cu\n" * 40,
)


def block(evidence):
    return Block("a", 1, "python", "x", evidence=evidence)


@pytest.mark.parametrize("text", MISSING)
def test_a_sentence_about_a_missing_measurement_wears_no_badge_of_one(text):
    assert evidence_of(block("measure"), text) == "missing"
    assert evidence_of(block("run"), text) == "run"


@pytest.mark.parametrize("text", MEASURED)
def test_a_measurement_keeps_its_badge(text):
    assert evidence_of(block("measure"), text) == "measure"


def test_the_bar_names_what_was_read_and_hides_no_code(project):
    project.write("results/h200/add.json", "{}")
    read = "from pathlib import Path\nprint(len(Path('results/h200/add.json').read_text()))"
    project.page(
        "index",
        f"""# Page

```python exec="1" id="read" evidence="measure"
{read}
```

```python exec="1" id="none" evidence="measure" source="above"
print("Not measured yet on this GPU: this.")
```

```bash exec="1" id="typed" source="above"
echo typed
```
""",
    )
    assert project.lessons("accept").status == 0
    assert project.build().status == 0
    first, second, typed = project.html().split('id="block-')[1:4]
    assert "read from results/h200<" in first and "kl-badge--measure" in first
    assert "Code, and open in scratch" in first and "read_text" in first.split("kl-scratch")[1].split("</details>")[0]
    assert "kl-badge--missing" in second and "read from" not in second
    assert "Code, and open" not in second and "Open in scratch" in second
    assert ">Copy as a program<" in second and "save and run in the project&#x27;s folder" in second
    assert ">Copy for the terminal<" in typed and 'data-clipboard-text="echo typed&#10;"' in typed


def test_a_folder_of_records_in_another_is_not_named_and_a_commit_has_seven_digits(tmp_path):
    read = ["results/h200/add.json", "results/h200/experiments/sizes.json", "results/b200/add.json", "docs/index.md"]
    assert record_folders(read) == ["results/b200", "results/h200"]
    block = Block("b", 1, "python", "pass", evidence="measure", html=True)
    scan = PageScan(PageSource("a.md", tmp_path / "a.md", "`" * 3), [block])
    outcome = Outcome(block, "frozen", Output("<table></table>", data=read), "a CPU", "0123456789ab+")
    renderer = PageRenderer(PageOutcome(scan, {"b": outcome}), RunStore(tmp_path), tmp_path)
    assert ">read from results/b200, results/h200 at commit 0123456+</span>" in renderer.block(1, "", "b")
