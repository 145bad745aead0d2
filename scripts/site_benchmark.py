#!/usr/bin/env python3
"""What building this site costs beside plain Material with the same Markdown and no blocks.

    python scripts/site_benchmark.py --json docs/authoring/site-builds.json

Both sites are made in a copy of the last commit: ours from its accepted outputs, so that no block runs; the plain one
with every executed or included fence turned into plain code, without our plugin, our hooks and the notebooks. Measured
are a full build in a new process, the time from saving a page to seeing it in the live preview, and the search index.

Processor seconds are those of the build with all its processes; another program at work beside it hardly changes
them, while it stretches the seconds on the clock. So both are kept, with the load of the machine. Linux only.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = Path(sys.executable).parent
FENCE = re.compile(
    r"^(?P<indent>[ \t>]*)(?P<ticks>`{3,})(?P<language>[\w+-]+)[^`\n]*\b(?:exec|include)=[^`\n]*$", re.MULTILINE
)
EDITED = "lessons/1-offsets-and-masks"  # the page that is edited
WAIT_S = 600
REST_S, REST_SHARE = 3, 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def section(text: str, name: str) -> str:
    """A top-level part of mkdocs.yml with its name.

    Raises:
        ValueError: there is no such part.
    """
    found = re.search(rf"^{name}:.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"mkdocs.yml has no part {name!r}")
    return found[0]


def plain_config(text: str) -> str:
    """Our mkdocs.yml as one of Material alone: its theme, search, extensions of Markdown and navigation."""
    theme = re.sub(r"^  custom_dir:.*\n", "", section(text, "theme"), flags=re.MULTILINE)
    search = re.search(r"^  - search:\n(?:      .*\n)*", section(text, "plugins"), re.MULTILINE)[0]
    nav = re.sub(r"^.*\.ipynb\n", "", section(text, "nav"), flags=re.MULTILINE)
    parts = ["site_name: Plain\n", theme, f"plugins:\n{search}", section(text, "markdown_extensions"), nav]
    return "\n".join(parts)


def plain_page(text: str) -> str:
    """A page whose executed and included fences are plain code."""
    return FENCE.sub(r"\g<indent>\g<ticks>\g<language>", text)


def make_plain(ours: Path, folder: Path) -> None:
    """The plain site in `folder`, from our sources in `ours`."""
    for path in (ours / "docs").rglob("*.md"):
        copy = folder / "docs" / path.relative_to(ours / "docs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(plain_page(path.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "docs/assets").mkdir()
    (folder / "docs/assets/logo.svg").write_bytes((ours / "docs/assets/logo.svg").read_bytes())
    (folder / "mkdocs.yml").write_text(
        plain_config((ours / "mkdocs.yml").read_text(encoding="utf-8")), encoding="utf-8"
    )


def environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LESSONS_", "MIKE_"))}
    temporary = root.parent / "temporary"  # MkDocs leaves its site there when it is told to end
    temporary.mkdir(exist_ok=True)
    own = {"PYTHONPATH": str(root), "NO_MKDOCS_2_WARNING": "1", "SITE_DIR": "site", "TMPDIR": str(temporary)}
    return kept | own


def full_build(root: Path, command: list[str]) -> dict[str, float]:
    """Seconds of one build in a new process, of the processor and on the clock.

    Raises:
        RuntimeError: the build failed; the message is what it said.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, cwd=root, env=environment(root), capture_output=True, text=True)
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in {root}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": round(cpu, 2), "clock_s": round(clock, 2)}


def session_cpu(session: int) -> float:
    """Processor seconds of all processes of a session, with those of their children that have ended."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended in between
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS


def shown(port: int, words: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{EDITED}/", timeout=30) as answer:
            return words in answer.read().decode()
    except OSError:
        return False


def wait_for(port: int, words: str, server: subprocess.Popen) -> None:
    """Until the page shows the words.

    Raises:
        RuntimeError: the server ended, or it took longer than `WAIT_S`.
    """
    until = time.perf_counter() + WAIT_S
    while not shown(port, words):
        if server.poll() is not None or time.perf_counter() > until:
            raise RuntimeError(f"the live preview did not show {words!r} (exit status {server.poll()})")
        time.sleep(0.1)


def calm(session: int) -> None:
    """Until the session has hardly used the processor for three seconds; what other programs use does not count.

    Raises:
        RuntimeError: it has not come to rest within `WAIT_S`.
    """
    until = time.perf_counter() + WAIT_S
    while time.perf_counter() < until:
        before = session_cpu(session)
        time.sleep(REST_S)
        used = (session_cpu(session) - before) / REST_S
        if used < REST_SHARE:
            return
    raise RuntimeError(
        f"the live preview, which nobody asks for anything, still takes {used:.0%} of a core after {WAIT_S} s; "
        f"it is at rest below {REST_SHARE:.0%}"
    )


def end(server: subprocess.Popen) -> None:
    """End a live preview and its processes; it has some seconds to take away what it made."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.terminate()
        server.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def edits(root: Path, command: list[str], times: int) -> dict[str, float]:
    """Medians, over edits of one paragraph, of the seconds from saving a page to its being served."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    page, found = root / "docs" / f"{EDITED}.md", []
    text = page.read_text(encoding="utf-8")
    server = subprocess.Popen(
        [*command, f"127.0.0.1:{port}"], cwd=root, env=environment(root), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(port, "</html>", server)
        for number in range(times):
            calm(server.pid)
            words = f"Words of edit {number}"
            before, began = session_cpu(server.pid), time.perf_counter()
            page.write_text(f"{text}\n\n{words}\n", encoding="utf-8")
            wait_for(port, words, server)
            found.append((session_cpu(server.pid) - before, time.perf_counter() - began))
    finally:
        end(server)
        page.write_text(text, encoding="utf-8")
    cpu, clock = (round(statistics.median(each), 2) for each in zip(*found, strict=True))
    return {"cpu_s": cpu, "clock_s": clock}


def search_index(root: Path) -> dict[str, int]:
    index = (root / "site/search/search_index.json").read_bytes()
    return {"bytes": len(index), "gzip_bytes": len(gzip.compress(index, 6, mtime=0))}


def measure(repeat: int) -> dict[str, object]:
    """Both sites from the last commit of this checkout, as a document for --json."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        ours, plain = Path(name, "ours"), Path(name, "plain")
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(ours)], check=True)
        make_plain(ours, plain)
        python = [sys.executable, "-m"]
        sites = {
            "ours": (ours, [*python, "kernels.lessons.command"], ["--mode", "frozen"]),
            "plain": (plain, [*python, "mkdocs"], ["--quiet"]),
        }
        found: dict[str, object] = {}
        for name, (root, command, more) in sites.items():
            builds = [full_build(root, [*command, "build", *more]) for _ in range(repeat)]
            listen = "--address" if name == "ours" else "--dev-addr"
            found[name] = {
                "pages": sum(1 for _ in (root / "docs").rglob("*.md")),
                "full": min(builds, key=lambda each: each["cpu_s"]),
                "edit": edits(root, [*command, "serve", listen], max(2, repeat)),
                "search": search_index(root),
            }
            print(name, json.dumps(found[name]), flush=True)
    versions = {each: importlib.metadata.version(each) for each in ("mkdocs", "mkdocs-material")}
    return {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "load": round(load, 1), "python": platform.python_version()} | versions,
        "sites": found,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure builds of this site beside plain Material's.")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="full builds of each; the least counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found here")
    asked = parser.parse_args()
    found = measure(max(1, asked.repeat))
    text = json.dumps(found, indent=1) + "\n"
    if asked.json:
        asked.json.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
