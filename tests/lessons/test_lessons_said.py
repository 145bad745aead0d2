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
        '#!/bin/bash\ncase "$*" in *"pip install"*) echo Collecting one; echo Collecting two; sleep 2.5\n'
        'echo "Installing collected packages: one, two"; echo "  Found existing installation"; sleep 2.2\n'
        '[ -z "$FAILS" ] || { echo "no such package"; exit 1; };; *) echo "torch 1";; esac\n'
    )
    python.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    shutil.copy(INSTALL, tmp_path / "scripts")
    environment = os.environ | {"INSTALL_TELL_S": "1", "FAILS": fails, "PYTHON": "python3"}
    done = subprocess.run(
        ["bash", "scripts/install.sh", "cpu"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert "1 s: 2 packages looked up; Collecting two" in done.stdout
    assert re.search(r"^  [34] s: installing 2 packages$", done.stdout, re.MULTILINE)
    assert "existing" not in done.stdout
    assert (done.returncode, "no such package" in done.stderr) == ((1, True) if fails else (0, False))
    assert (tmp_path / ".venv/.installed-cpu").exists() is not bool(fails)
