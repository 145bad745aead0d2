"""The page of operators: every registered operator is on it, with a record or with the words that there is none."""

import re
from pathlib import Path

import pytest

from kernels.bench import results
from kernels.figures.html import shape_text

registry = pytest.importorskip("kernels.ops.registry")

ROOT = Path(__file__).resolve().parents[2]
OUTPUTS = ROOT / "lessons_src" / "outputs" / "reference" / "operators"


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    text = (ROOT / "docs/reference/operators.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r'^### `(\w+)` \{ #op-\1 \}\n\n(?:[A-Z].*\n\n)?```python exec="1" html="1" id="([\w-]+)"', text, re.MULTILINE
    )
    return {name: (OUTPUTS / f"{block}.html").read_text(encoding="utf-8") for name, block in blocks}


def test_every_operator_has_a_heading_a_section_of_its_own_and_a_line(sections):
    assert list(sections) == list(registry.OPS)
    overview = (OUTPUTS / "overview.html").read_text(encoding="utf-8")
    for name in registry.OPS:
        assert f'href="#op-{name}"' in overview
    assert len(set(sections.values())) == len(sections)


def test_a_section_states_the_contract_and_what_is_launched(sections):
    for name, html in sections.items():
        for label in ("Shapes", "Dtypes", "Strides", "Limits", "Special"):
            assert f"<strong>{label}</strong>" in html, f"{name} lacks {label}"
        assert "What is launched" in html
        for case in registry.get(name).benches:
            assert shape_text(case.shape) in html


def test_an_operator_without_a_record_says_so(sections):
    for name, html in sections.items():
        recorded = any(
            record.op == name
            for path in results.files("h200")
            if path.stem.partition("-")[0] == name
            for record in results.read(path).cases
        )
        assert ("No record yet" in html) != recorded, name
        assert ("peer / ours" in html) == recorded, name


def test_the_page_is_in_the_navigation():
    assert "reference/operators.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
