"""The commands that pages tell a reader to type, and what is wrong with one: no such program, option, file or page."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parents[2]
OPENS = re.compile(r"^(?P<indent>[ >]*)(?P<fence>`{3,}|~{3,})(?P<head>.*)$")
SHELLS = {"bash", "sh", "console", "powershell"}
OF_THE_SYSTEM = {"sudo", "git", "cd", "source", "export", "mkdir", "cp"}
"""What a page may ask for that this project does not bring."""
PLACEHOLDER = re.compile(r"[A-Z]+(?:\.[a-z]+)?$|…|\.\.\.")  # NAME, PAGE, FILE.md


def pages() -> list[Path]:
    """Every page, and what stands beside the project's files for its readers."""
    return [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def fences(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, head and body of every fence that is not quoted in a longer one."""
    lines, number = text.split("\n"), 0
    while number < len(lines):
        opening = OPENS.match(lines[number])
        if not opening:
            number += 1
            continue
        fence, first = opening["fence"], number
        number += 1
        while number < len(lines) and not re.fullmatch(
            rf"[ >]*{re.escape(fence[0])}{{{len(fence)},}} *", lines[number]
        ):
            number += 1
        yield first + 1, opening["head"].strip(), "\n".join(lines[first + 1 : number])
        number += 1


def typed(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every command that stands in a fence which is shown and not run."""
    for line, head, body in fences(text):
        language = head.partition(" ")[0]
        if language not in SHELLS or "exec=" in head:
            continue
        for number, command in enumerate(body.replace("\\\n", " ").split("\n"), line + 1):
            command = command.strip()
            if language == "console" and not command.startswith("$ "):
                continue
            command = re.sub(r"\s+#.*$|^#.*$", "", command.removeprefix("$ ")).strip()
            if command:
                yield number, command


def mentioned(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every command of the project that is named in prose, between backticks."""
    inside = set()
    for line, _, body in fences(text):
        inside |= set(range(line, line + body.count("\n") + 3))
    for number, line in enumerate(text.split("\n"), 1):
        if number not in inside:
            for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", line):
                if re.match(
                    r"(?:lessons|kernel-bench|make) \w|kernel-bench --|python scripts/|python lessons_src/", code
                ):
                    yield number, code


def fault(command: str, loose: bool = False) -> str:
    """What is wrong with a command, as a sentence; empty where nothing is. `loose`: it may hold placeholders."""
    for part in re.split(r"\s*(?:&&|\|\|?|;)\s*", command):
        words = shlex.split(part)
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words and (why := _fault(words, loose)):
            return why
    return ""


def _of_mike(given: list[str]) -> str:
    command = [str(Path(sys.executable).with_name("mike")), *given[:1], "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if not given or done.returncode:
        return f"mike has no command {' '.join(given[:1])!r}"
    options = [each.partition("=")[0] for each in given if each.startswith("-")]
    return next((f"{each} is no option of mike {given[0]}" for each in options if each not in done.stdout), "")


def _fault(words: list[str], loose: bool) -> str:
    program, given = words[0], words[1:]
    name = Path(program).name
    if name == "lessons":
        return _of_lessons(given, loose)
    if name == "kernel-bench":
        from kernels.bench.command import app

        return _parsed(typer.main.get_command(app), given, loose) or _operators(given)
    if name == "make" or name == "make.ps1":
        return _of_make(given, name)
    if name in ("python", "python3"):
        return _of_python(given, loose)
    if name == "mike":
        return _of_mike(given)
    if name == "pytest":
        return next((f"there is no {each}" for each in given if not each.startswith("-") and not _exists(each)), "")
    if name in ("cuda_portfolio", "cuda_portfolio.exe"):
        source = (ROOT / "cuda" / "portfolio.cu").read_text()
        return next((f"{each} is no option of {name}" for each in given if f'"{each}"' not in source), "")
    if program.startswith((".", "scripts/")):
        return "" if _exists(program.replace("\\", "/")) else f"there is no {program}"
    return "" if program in OF_THE_SYSTEM else f"{program} is no program that this project brings or names"


def _of_lessons(given: list[str], loose: bool) -> str:
    from kernels.lessons.command import app

    group = typer.main.get_command(app)
    if not given or given[0].startswith("-"):
        return _parsed(group, given, loose)
    command = group.commands.get(given[0])
    if command is None:
        return f"lessons has no command {given[0]!r}; it has {', '.join(group.commands)}"
    arguments = [word for word in given[1:] if not word.startswith("-") and not PLACEHOLDER.match(word)]
    if given[0] in ("verify", "accept", "list"):
        for page in arguments:
            path = page.partition("#")[0].removeprefix("docs/")
            if path.endswith(".md") and path != "lessons/mine.md" and not _exists(f"docs/{path}"):
                return f"there is no page {page}"
    if given[0] == "check" and arguments and not PLACEHOLDER.match(given[1]):
        if not _exists(f"lessons_src/exercises/{arguments[0]}.py"):
            return f"there is no exercise {arguments[0]}"
        if "--wrong" in given:
            text = (ROOT / "lessons_src" / "checks" / f"{arguments[0]}.toml").read_text(encoding="utf-8")
            wrong = given[given.index("--wrong") + 1]
            if not PLACEHOLDER.match(wrong) and f'name = "{wrong}"' not in text:
                return f"{arguments[0]} has no wrong answer {wrong!r}"
    if given[0] == "scratch" and arguments:
        page, _, block = arguments[0].partition("#")
        if block:
            path = ROOT / "docs" / f"{page.removesuffix('.md')}.md"
            if not path.is_file() or f'id="{block}"' not in path.read_text(encoding="utf-8"):
                return f"there is no block {arguments[0]}"
        elif not _exists(f"lessons_src/exercises/{page}.py"):
            return f"there is no exercise {page}"
    return _parsed(command, given[1:], loose)


def _parsed(command, given: list[str], loose: bool) -> str:
    """What the command itself says of these arguments, without running."""
    given = [re.sub(r"^\[|\]$", "", word) for word in given] if loose else given
    if loose:
        known = {spelled for parameter in command.params for spelled in parameter.opts + parameter.secondary_opts}
        used = [word.partition("=")[0] for word in given if word.startswith("-")]
        return next((f"{word} is no option of {command.name}" for word in used if word not in known | {"--help"}), "")
    try:
        command.make_context(command.name, list(given))
    except Exception as error:  # of click, or of the copy of it that newer typers carry
        if type(error).__name__ == "Exit":  # --help
            return ""
        if hasattr(error, "format_message"):
            return error.format_message()
        raise
    return ""


def _operators(given: list[str]) -> str:
    if "--op" not in given:
        return ""
    ops = ROOT / "kernels" / "ops"
    names = []
    for file in ("registry.py", "unmeasured.py"):  # commands find an operator that has no measurements yet, too
        found = re.search(r"NAMES(?:: tuple\[.*\])? = \(([^)]*)\)", (ops / file).read_text())
        for module in re.findall(r'"(\w+)"', found[1] if found else ""):
            names += [module, *re.findall(r'_record\("(\w+)"', (ops / f"{module}.py").read_text())]
    asked = given[given.index("--op") + 1]
    return "" if asked in names or asked == "all" or PLACEHOLDER.match(asked) else f"there is no operator {asked!r}"


def _of_make(given: list[str], name: str) -> str:
    text = (ROOT / ("make.ps1" if name == "make.ps1" else "Makefile")).read_text()
    for word in given:
        variable, is_one, _ = word.partition("=")
        if is_one and not re.search(rf"^{variable} \??[:?]?=", text, re.MULTILINE):
            return f"the Makefile has no variable {variable}"
        pattern = rf'"{word}"' if name == "make.ps1" else rf"^{re.escape(word)}:"
        if not is_one and not re.search(pattern, text, re.MULTILINE) and f"'{word}'" not in text:
            return f"{name} has no target {word!r}"
    return ""


def _of_python(given: list[str], loose: bool) -> str:
    if given[:1] == ["-m"]:
        return "" if given[1:] and importlib.util.find_spec(given[1]) else f"there is no module {given[1:2]}"
    if not given or PLACEHOLDER.match(given[0]):
        return "" if loose else "python without a file starts a prompt"
    if not (ROOT / given[0]).is_file():
        return f"there is no file {given[0]}"
    options = [word.partition("=")[0] for word in given[1:] if word.startswith("--")]
    shown = _help(given[0]) if options else ""
    return next((f"{each} is no option of {given[0]}" for each in options if not re.search(rf"{each}\b", shown)), "")


@lru_cache
def _help(file: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, file, "--help"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{file} --help: {done.stderr}"
    return done.stdout


def _exists(path: str) -> bool:
    return (ROOT / path).exists()
