"""What commands say while they work and when they end: counts of blocks, paths from the project's folder."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from lessons_project import fence

from kernels.lessons.engine import Engine
from kernels.lessons.model import Block, Inline, PageScan, PageSource

INSTALL = Path(__file__).parents[2] / "scripts" / "install.sh"


def test_progress_counts_blocks_and_no_values_in_the_text(tmp_path):
    (tmp_path / "kernels").mkdir()
    engine = Engine(tmp_path, lambda: None)
    source = PageSource("page.md", tmp_path / "page.md", "text")
    blocks = [Block("one", 1, "python", "x = 1"), Block("two", 5, "python", "print(x)")]
    engine.scan = lambda source: PageScan(source, blocks, [Inline(7, 1, "x"), Inline(8, 1, "x + 1")])
    heard = []
    try:
        report = engine.bring_up_to_date([source], progress=lambda *told: heard.append(told))
    finally:
        engine.close()
    assert heard == [("page.md one", 1, 2), ("page.md two", 2, 2)]
    assert report.counts().sources == 2 and report.pages["page.md"].values == {"7:1": "1", "8:1": "2"}


def test_a_build_that_fails_says_whether_there_is_a_site(project):
    project.page("index", f"# I\n\n{fence('1 / 0', 'it')}")
    assert "1 fault; no site was made; lessons serve shows the pages as they are" in project.build().text
    project.page("index", f"# I\n\n{fence('print(1)', 'it')}")
    said = project.lessons("accept")
    assert "wrote lessons_src/outputs/index/it.txt\n" in said.text and project.build().status == 0
    project.page("index", f"# I\n\n{fence('1 / 0', 'it')}")
    assert "1 fault; the site is as it was" in project.build().text


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash for scripts/install.sh")
@pytest.mark.parametrize("fails", ["", "yes"])
def test_the_installation_tells_what_it_does_now_and_again(tmp_path, fails):
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/bash\ncase "$*" in *"pip install"*) echo Collecting one; echo Collecting two\n'
        "for _ in {1..4000}; do [ -e looked ] && break; sleep 0.05; done\n"
        'echo "Installing collected packages: one, two"; echo "  Found existing installation"\n'
        "for _ in {1..4000}; do [ -e installed ] && break; sleep 0.05; done\n"
        '[ -z "$FAILS" ] || { echo "no such package"; exit 1; };; *) echo "torch 1";; esac\n'
    )
    python.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    shutil.copy(INSTALL, tmp_path / "scripts")
    environment = os.environ | {"INSTALL_TELL_S": "1", "FAILS": fails, "PYTHON": "python3"}
    said = ""
    with subprocess.Popen(
        ["bash", "scripts/install.sh", "cpu"], cwd=tmp_path, env=environment,
        stdout=subprocess.PIPE, stderr=(tmp_path / "errors").open("w"), text=True,
    ) as process:  # fmt: skip
        for line in process.stdout:  # pip goes on when it was told what it does
            said += line
            if re.fullmatch(r"  \d+ s: 2 packages looked up; Collecting two\n", line):
                (tmp_path / "looked").touch()
            elif re.fullmatch(r"  \d+ s: installing 2 packages\n", line):
                (tmp_path / "installed").touch()
    assert (tmp_path / "looked").exists() and (tmp_path / "installed").exists(), said
    assert "existing" not in said and re.search(r"^  1 s: ", said, re.MULTILINE)
    errors = (tmp_path / "errors").read_text()
    assert (process.returncode, "no such package" in errors) == ((1, True) if fails else (0, False))
    assert (tmp_path / ".venv/.installed-cpu").exists() is not bool(fails)
