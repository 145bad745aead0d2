"""A small site of its own, in a temporary folder, with the commands that people use on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mkdocs.__main__
import typer
from click.testing import CliRunner
from mkdocs.config.defaults import MkDocsConfig

import kernels
from kernels.lessons import command

SCRIPTS = Path(sys.executable).parent
LIMIT_S = 400.0  # against hanging: nothing here fails because a machine is slow
OUTSIDE = ("LESSONS_MODE", "LESSONS_WITHOUT", "LESSONS_JOBS", "MIKE_DOCS_VERSION", "KERNEL_LESSONS_ROOT", "PYTHONPATH")

CONFIG = """\
site_name: Small
theme: {name: null, custom_dir: theme}
plugins: [lessons]
markdown_extensions:
  - admonition
  - attr_list
  - md_in_html
  - tables
  - toc: {permalink: true}
  - pymdownx.details
  - pymdownx.highlight: {anchor_linenums: false}
  - pymdownx.inlinehilite
  - pymdownx.superfences
  - pymdownx.tabbed: {alternate_style: true}
"""
TEMPLATE = """<!doctype html><meta charset="utf-8"><title>{{ page.title }}</title>
<nav>{{ page.toc }}</nav><main>{{ page.content }}</main>"""
# The project's own `kernels` beside the engine's: what a block imports lies in the project.
PACKAGE = f"__path__ = [*__path__, {str(Path(kernels.__file__).parent)!r}]\n"


@dataclass
class Done:
    """How a command ended and what it said on both streams."""

    status: int
    text: str

    def counts(self) -> dict[str, int]:
        """The numbers of the last summary line."""
        line = [each for each in self.text.splitlines() if re.search(r"\d+ blocks? on ", each)][-1]
        found = {word: int(number) for number, word in re.findall(r"(\d+) (ran|kept|frozen|failed|drifted)", line)}
        return found | {"blocks": int(re.search(r"(\d+) blocks? on", line)[1])}


class Project:
    """A project folder: write pages and code, run commands, read the site."""

    def __init__(self, root: Path, config: str = CONFIG) -> None:
        self.root = root
        self.write("mkdocs.yml", config)
        self.write("theme/main.html", TEMPLATE)
        self.write("kernels/__init__.py", PACKAGE)
        (root / "docs").mkdir()
        self.log = root.parent / f"{root.name}-ran.log"

    def write(self, path: str, text: str | bytes) -> Path:
        """Write a file of the project, line ends as given."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def read(self, path: str) -> str:
        """The text of a file of the project."""
        return (self.root / path).read_bytes().decode()

    def page(self, name: str, text: str | bytes) -> Path:
        """Write `docs/<name>.md`."""
        return self.write(f"docs/{name}.md", text)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that must be there."""
        text = self.read(path)
        assert old in text, f"{path} does not hold {old!r}"
        self.save(path, text.replace(old, new))

    def save(self, path: str, text: str) -> None:
        """Save a file of the project as many editors do: another takes its place, and that is one event.

        A file that is written in its place is heard of twice, and on a slow machine so far apart that a block which
        the first has started is stopped and started again by the second.
        """
        other = self.root.parent / f"{self.root.name}-saved"
        other.write_bytes(text.encode())
        other.replace(self.root / path)

    def environment(self, **named: str) -> dict[str, str]:
        """The environment of a command: nothing of the tests' own settings, then `named`."""
        kept = {name: value for name, value in os.environ.items() if name not in OUTSIDE}
        path = os.pathsep.join([str(SCRIPTS), kept.get("PATH", "")])  # as when activated: mike calls mkdocs
        under_test = str(Path(kernels.__file__).parents[1])  # the engine that these tests import, installed or not
        return kept | {"RAN_LOG": str(self.log), "PYTHONUTF8": "1", "PYTHONPATH": under_test, "PATH": path, **named}

    def call(self, app, arguments: tuple[str, ...], named: dict[str, str]) -> Done:
        """Run a command's function in this process: the same, without a second of imports."""
        before, folder = dict(os.environ), Path.cwd()
        inside = self.environment(**named)
        os.environ.clear()
        os.environ.update(inside)
        os.chdir(self.root)
        vars(MkDocsConfig)["plugins"].plugin_cache.clear()  # as a new process starts: with nothing kept
        try:
            result = CliRunner().invoke(app, arguments, catch_exceptions=True)
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)
        text = result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            text += "".join(traceback.format_exception(result.exception))
        return Done(result.exit_code, text)

    def start(self, *command: str, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **named: str) -> subprocess.Popen:
        """Start `lessons …`, `mkdocs …` or `mike …` in the project; its errors go to its output."""
        program = str(SCRIPTS / command[0]) if (SCRIPTS / command[0]).exists() else command[0]
        return subprocess.Popen(
            [program, *command[1:]],
            cwd=self.root,
            env=self.environment(**named),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
        )

    def run(self, *command: str, **named: str) -> Done:
        """Run a command to its end."""
        process = self.start(*command, **named)
        text, _ = process.communicate(timeout=LIMIT_S)
        return Done(process.returncode, text.decode())

    def lessons(self, *arguments: str, **named: str) -> Done:
        """Run `lessons …`."""
        return self.call(typer.main.get_command(command.app), arguments, named)

    def build(self, *arguments: str, **named: str) -> Done:
        """Run `mkdocs build …`."""
        return self.call(mkdocs.__main__.cli, ("build", *arguments), named)

    def html(self, name: str = "index") -> str:
        """What the built site says on a page."""
        folder = "" if name == "index" else name + "/"
        return self.read(f"site/{folder}index.html")

    def accepted(self) -> dict[str, bytes]:
        """Every file under `lessons_src/outputs`, by path."""
        folder = self.root / "lessons_src" / "outputs"
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def ran(self) -> list[str]:
        """Names that blocks wrote with `marks` since the last call, sorted."""
        names = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(names)


class Preview:
    """`lessons serve` on a free port."""

    def __init__(self, project: Project, *arguments: str, stdin=None) -> None:
        self.project = project
        self.ends = 0
        self.said = project.root.parent / "said.log"
        with self.said.open("wb") as said:
            command = ("lessons", "serve", "--address", "127.0.0.1:0", *arguments)
            self.process = project.start(*command, stdin=subprocess.DEVNULL if stdin is None else stdin, stdout=said)

    def end(self) -> None:
        """End it as a terminal that is closed does, so that it takes away what it made."""
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    @property
    def address(self) -> str:
        """Where it answers; "" until it has said so."""
        said = re.search(r"Serving on (http://\S+)$", self.said.read_text(), re.MULTILINE)
        return said[1] if said else ""

    def read(self, page: str = "") -> str:
        """What a page shows; "" where it does not answer."""
        if not (address := self.address):
            return ""
        try:
            with urllib.request.urlopen(address + page, timeout=LIMIT_S) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def wait_for(self, words: str, page: str = "") -> None:
        """Wait until the page holds the words."""
        until(lambda: words in self.read(page), lambda: f"{page!r} does not hold {words!r}: {self.read(page)}")

    def wait_until_gone(self, words: str, page: str = "") -> None:
        """Wait until the page answers and does not hold the words any more."""
        until(lambda: words not in (self.read(page) or words), lambda: f"{page!r} still holds {words!r}")

    def wait_for_all_to_follow(self) -> None:
        """Wait until the preview says, once more than at the last call, that all that had to follow is written.

        Or that a build has failed: then nothing follows.
        """
        until(lambda: self._ends() > self.ends, lambda: f"the preview still says\n{self.said.read_text()}")
        self.ends = self._ends()

    def _ends(self) -> int:
        return len(re.findall("All pages are up to date|An error ended", self.said.read_text()))


def until(what: Callable[[], object], otherwise: Callable[[], str] = lambda: "it did not happen") -> None:
    """Wait for something; `otherwise` says what is the case instead when the limit is over."""
    over = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < over, f"after {LIMIT_S} s: {otherwise()}"
        time.sleep(0.02)


def fence(code: str, options: str, language: str = "python") -> str:
    """An executed fence; `options` begins with the block's id."""
    name, _, rest = options.partition(" ")
    return f'```{language} exec="1" id="{name}"{" " + rest if rest else ""}\n{code}\n```\n'


def marks(name: str) -> str:
    """Code that notes outside the project that it was run."""
    return f'with open(__import__("os").environ["RAN_LOG"], "a") as log: log.write("{name} ")'


def line_of(text: str, part: str) -> int:
    """Line of the first line that holds `part`, from one."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)
