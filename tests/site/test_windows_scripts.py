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


def recipes() -> dict[str, str]:
    """Of each verb of the Makefile, what it needs and its commands."""
    found = re.findall(r"^([a-z]+):(.*?)##.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {verb: f"{needed}\n{commands}" for verb, needed, commands in found}


def cases() -> dict[str, str]:
    """Of each verb of make.ps1, its statements."""
    text = (ROOT / "make.ps1").read_text()
    found = re.findall(r'^    "(\w+)" \{(.*?)(?=^    "\w+" \{|^\})', text, re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.mark.parametrize("verb", ["site", "serve", "test", "verify", "accept", "lint"])
def test_a_verb_starts_the_same_tools_on_both_systems(verb):
    made = re.findall(r"\$\(BIN\)/(.*)", recipes()[verb])
    here = [[word for word in line.split() if not word.startswith("$")] for line in made]
    started = re.findall(r'Invoke-Tool ("[^}\n]*)', cases()[verb])
    assert here == [re.findall(r'"([^"]+)"', line) for line in started] != []


@pytest.mark.parametrize("verb", ["site", "serve", "test", "verify", "accept", "cuda", "lint", "clean"])
def test_a_verb_installs_first_on_both_systems_or_on_neither(verb):
    assert ("$(STAMP)" in recipes()[verb]) == ("Install-Project" in cases()[verb])


def test_both_install_again_when_the_same_files_change():
    makefile, script = (ROOT / "Makefile").read_text(), (ROOT / "make.ps1").read_text()
    here = re.search(r"^\$\(STAMP\): (.*)", makefile, re.MULTILINE)[1].replace("$(TORCH)", "$Torch").split()
    there = re.findall(r'"([^"]+)"', re.search(r"\$inputs = @\((.*)\)", script)[1])
    own = {"scripts/install.sh": "scripts/setup_windows.ps1"}
    assert sorted(own.get(name, name) for name in here) == sorted(name.replace("\\", "/") for name in there)


def test_both_remove_the_same():
    here = re.search(r"rm -rf (.*)", recipes()["clean"])[1].split()
    assert sorted(re.findall(r'"([^"]+)"', cases()["clean"])) == sorted(here)


def test_the_batch_file_compiles_without_a_card():
    """As the Makefile's command does: nvcc's -arch=native asks the driver."""
    assert "-arch=native" not in (ROOT / "scripts" / "build_cuda_windows.cmd").read_text()


def test_batch_file_names_what_exists():
    text = (ROOT / "scripts" / "build_cuda_windows.cmd").read_text()
    assert "has never been run on Windows" in text
    sources = re.findall(r"(?<=\s)cuda\\[\w\\]+\.cu\b", text)
    assert sources == ["cuda\\portfolio.cu"]
    assert all((ROOT / source.replace("\\", "/")).is_file() for source in sources)
