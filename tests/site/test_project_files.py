"""What the project says about itself: dependencies and their reasons, pins, pages in the navigation."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from site_host import ROOT, nav_pages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared() -> dict[str, Requirement]:
    listed = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    found = {canonicalize_name(one.name): one for one in map(Requirement, listed)}
    found.pop(PROJECT["name"], None)
    return found


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints" / "site.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_dependency_has_a_reason():
    text = (ROOT / "docs" / "authoring" / "dependencies.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(declared())
    assert [name for name, reason in rows if len(reason) < 10] == []


def test_every_dependency_of_the_site_is_pinned_within_its_bounds():
    pins = pinned()
    elsewhere = {"torch", "triton", "cuda-toolkit", "nvidia-ml-py"}  # other constraints, or the GPU machine only
    assert sorted(set(declared()) - set(pins) - elsewhere) == []
    outside = [
        f"{name}=={pins[name]}" for name, one in declared().items() if name in pins and pins[name] not in one.specifier
    ]
    assert outside == []


@pytest.mark.skipif(
    not os.environ.get("REGISTRY"), reason="asks a package registry for a minute or two; set REGISTRY=1"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_environment_resolves_from_the_registry_alone(tmp_path):
    """With folders of local wheels off."""
    environment = os.environ | {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "PIP_NO_INDEX": "",
        "HOME": str(tmp_path),
    }
    constraints = ["--constraint", "constraints/site.txt", "--constraint", "constraints/torch-cuda.txt"]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input", "--quiet"]
    done = subprocess.run(
        [*command, *constraints, ".[site,triton,cuda,test]"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_page_is_in_the_navigation():
    named = {path.rstrip("/") or "index" for path in nav_pages()}
    written = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    shown = re.search(r"shown_notebooks: \[(.*?)\]", (ROOT / "mkdocs.yml").read_text())[1].split(", ")
    assert {path.removesuffix("/index") for path in written} | {f"notebooks/{name}" for name in shown} == named


@pytest.mark.parametrize(
    ("stamps", "asked", "installs"),
    [
        ([], [], "cuda"),  # nothing is there yet
        ([], ["TORCH=cpu"], "cpu"),
        (["cpu"], [], None),  # `make site TORCH=cpu`, then `make test`: torch stays the one that is there
        (["cuda"], [], None),
        (["cpu"], ["TORCH=cuda"], "cuda"),  # asked for by name
        (["cuda"], ["TORCH=cpu"], "cpu"),
    ],
)
def test_make_keeps_the_torch_that_is_installed(tmp_path, stamps, asked, installs):
    """A dry run in a folder with the Makefile, what the stamp stands on, and a stamp that is newer."""
    for name in ("Makefile", "pyproject.toml", "constraints", "scripts"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    for torch in stamps:
        (tmp_path / ".venv" / f".installed-{torch}").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("TORCH", "MAKEFLAGS")}
    command = ["make", "--dry-run", "test", *asked]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"scripts/install\.sh (\w+)", done.stdout) == ([installs] if installs else [])
    assert "pytest" in done.stdout
