"""scripts/check_links.py on small sites with planted faults."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(site: Path, **pages: str) -> subprocess.CompletedProcess[str]:
    for name, body in pages.items():
        path = site / name / "index.html" if name != "index" else site / "index.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<html><body>\n{body}\n</body></html>")
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts/check_links.py"), str(site)], capture_output=True, text=True, timeout=500
    )


GOOD = """<a href="guide/">g</a> <a href="guide/#part">p</a>
<a href="https://example.org/x">e</a> <a href="#here" id="here">h</a>"""


def test_good_links_pass(tmp_path: Path) -> None:
    done = check(tmp_path, index=GOOD, guide='<h2 id="part">Part</h2><a href="..">up</a>')
    assert done.returncode == 0, done.stdout
    assert "2 pages, 0 links" in done.stdout


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="gide/">', "index.html:2: gide/ leads to no file"),
        ('<a href="guide/#nope">', "names an anchor that is not there"),
        ('<a href="#nope">', "names an anchor that is not there"),
        ('<a href="/guide/">', "is absolute"),
        ('<img src="img/a.png">', "leads to no file"),
        ('<script src="/a.js"></script>', "is absolute"),
    ],
)
def test_planted_faults_are_named(tmp_path: Path, body: str, said: str) -> None:
    done = check(tmp_path, index=body, guide='<h2 id="part">Part</h2>')
    assert done.returncode == 1 and said in done.stdout


def test_no_site_is_not_a_pass(tmp_path: Path) -> None:
    done = check(tmp_path / "nothing")
    assert done.returncode == 2 and "build the site first" in done.stderr
