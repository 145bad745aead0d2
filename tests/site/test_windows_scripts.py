"""The Windows scripts: parsed here, never run. Their verbs are those of the Makefile."""

from __future__ import annotations

import os
import re

import pytest
from site_host import ROOT

SCRIPTS = ["make.ps1", "scripts/setup_windows.ps1"]


def faults(text: str) -> list[str]:
    """Where PowerShell's grammar does not fit."""
    wanted = "pip install tree-sitter tree-sitter-powershell"
    if os.environ.get("CI") != "true":
        pytest.importorskip("tree_sitter_powershell", reason=f"PowerShell scripts are not parsed here; {wanted}")
    import tree_sitter
    import tree_sitter_powershell

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_powershell.language()))
    found, open_nodes = [], [parser.parse(text.encode()).root_node]
    while open_nodes:
        node = open_nodes.pop()
        if node.is_error or node.is_missing:
            found.append(f"line {node.start_point[0] + 1}: {node.text.decode()[:60]!r}")
        open_nodes += node.children
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_powershell_parses(name):
    text = (ROOT / name).read_text()
    assert faults(text) == []
    assert "has never been run on Windows" in text


@pytest.mark.parametrize("broken", ["if ($a {", "function { param( }", "switch ($a) { 'b' { }"])
def test_parser_sees_a_fault(broken):
    assert faults(broken) != []


def test_verbs_are_those_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    verbs = set(re.findall(r"^([a-z]+):.*##|^(install):", makefile, re.MULTILINE))
    verbs = {one or other for one, other in verbs}
    script = (ROOT / "make.ps1").read_text()
    offered = set(
        re.findall(r'"(\w+)"', re.search(r"ValidateSet\((.*?)\)\]\s*\[string\] \$Verb", script, re.DOTALL)[1])
    )
    assert offered == verbs
    assert offered == set(re.findall(r'^    "(\w+)" \{', script, re.MULTILINE))


def test_batch_file_names_what_exists():
    text = (ROOT / "scripts" / "build_cuda_windows.cmd").read_text()
    assert "has never been run on Windows" in text.replace("it has", "has")
    for source in re.findall(r"cuda\\[\w\\]+\.cu\b", text):
        assert (ROOT / source.replace("\\", "/")).is_file(), source
    assert text.count("(") == text.count(")")
