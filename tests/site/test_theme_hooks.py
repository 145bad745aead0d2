"""The hooks of the theme, on pieces of pages."""

from __future__ import annotations

import runpy

import pytest
from site_host import ROOT

landmarks = runpy.run_path(str(ROOT / "docs/.theme/landmarks.py"))["on_page_content"]
formulas = runpy.run_path(str(ROOT / "docs/.theme/formulas.py"))["on_page_content"]


def test_regions_of_one_name_are_told_apart():
    region = '<div class="kl-scroll" tabindex="0" role="region" aria-label="The table">'
    once, again = landmarks(region + region).split("><")
    assert 'aria-label="The table"' in once and 'aria-label="The table, 2"' in again


def test_a_column_without_a_heading_has_no_heading_cell():
    assert landmarks('<th scope="col"></th><th class="kl-num" scope="col"> </th><th>n</th>') == (
        '<td></td><td class="kl-num"></td><th>n</th>'
    )


def test_a_formula_is_mathml_without_a_script():
    pytest.importorskip("latex2mathml")
    shown = formulas(r'<span class="arithmatex">\(\frac{a}{b} &lt; 1\)</span>')
    assert "<mfrac>" in shown and "<math " in shown and "arithmatex" not in shown and "<script" not in shown


@pytest.mark.parametrize("latex", [r"\frac{a", r"\fraction{a}{b}", r"\left( a", "x^", "a}"])
def test_a_formula_that_is_none_is_quoted(latex):
    pytest.importorskip("latex2mathml")
    with pytest.raises(ValueError) as raised:
        formulas(rf'<div class="arithmatex">\[{latex}\]</div>')
    assert repr(latex) in str(raised.value)
