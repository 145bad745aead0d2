"""Where outputs are kept: the accepted ones, for people and git, and the last runs of this machine, for speed.

Accepted outputs are text files, one a block, in ``lessons_src/outputs/<page>/``, beside an ``index.json`` that says
from which code each came. Runs of this machine are in ``.lessons/``, which git ignores and anyone may delete. Every
file is written under another name and renamed, so a build that is killed, or two at once, leave whole files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels.lessons.locks import locked
from kernels.lessons.model import Block, Output, PageSource
from kernels.sources.files import write_whole

FORMAT = 2
_RUNS_KEPT = 4
_LEFT_S = 3600  # after this long nobody writes a temporary file any more: its process was killed
_NOT_AS_ACCEPTED = "is not what was accepted: it was edited by hand, or an accept was cut short"
INLINE_FILE = "inline.txt"
_ENTRY = ("file", "sha256", "code", "label", "commit", "environment", "modules", "data", "reached")
"""What every entry holds, as text. The last three are lists, each on one line so that a diff stays short."""


def dumps(document: Any) -> str:
    """JSON as it is committed: sorted, indented, strict but for values that are not finite, which become strings."""
    return json.dumps(_strict(document), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": repr(value)}
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_strict(each) for each in value]
    return value


def _loosened(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return float(value["float"])
        return {key: _loosened(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_loosened(each) for each in value]
    return value


def _checked(index: dict[str, Any]) -> dict[str, Any]:
    if index["format"] != FORMAT:
        raise ValueError(f"its format is {index['format']}, this engine writes {FORMAT}")
    for name, entry in index["blocks"].items():
        for field_name in _ENTRY:
            if not isinstance(entry[field_name], str):
                raise ValueError(f"{field_name} of block {name} is {entry[field_name]!r}")
    for name in ("symbols", "environments", "inline"):
        if not isinstance(index[name], dict):
            raise ValueError(f"{name} is {index[name]!r}")
    if index["inline"] and not {"sha256", "code", "modules", "data"} <= index["inline"].keys():
        raise ValueError("what is known of its inline values is not complete")
    return index


def _items(line: str) -> list[str]:
    return [item for item in line.split("; ") if item]


def text_digest(text: str) -> str:
    """Sixteen hex digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Accepted:
    """One accepted output with what is known of its making."""

    output: Output
    code: str
    environment: dict[str, str]
    label: str
    commit: str
    edited: str = ""
    """A sentence, where the files are not what was accepted."""
    reached: dict[str, str] = field(default_factory=dict)


class AcceptedPage:
    """The accepted outputs of one page."""

    def __init__(self, folder: Path, slug: str) -> None:
        self._all = folder
        self.folder = folder / slug
        self.slug = slug
        self.problem = ""
        self._index: dict[str, Any] = {"format": FORMAT, "blocks": {}, "inline": {}, "symbols": {}, "environments": {}}
        try:
            self._index |= _checked(json.loads((self.folder / "index.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = f"{type(error).__name__}: {error}"
            self.problem = f"lessons_src/outputs/{slug}/index.json cannot be read ({said}); restore it from git"

    def ids(self) -> list[str]:
        """Blocks that have an accepted output."""
        return sorted(self._index["blocks"])

    def get(self, block: Block) -> Accepted | None:
        """The accepted output of a block, or None."""
        entry = self._index["blocks"].get(block.id)
        if entry is None:
            return None
        file = self.folder / entry["file"]
        edited = ""
        try:
            text = file.read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError):
            text, edited = "", f"{self.slug}/{entry['file']} is gone or not text"
        if not edited and text_digest(text) != entry["sha256"]:
            edited = f"{self.slug}/{entry['file']} {_NOT_AS_ACCEPTED}"
        values: dict[str, Any] = {}
        if entry.get("values"):
            try:
                values = _loosened(json.loads((self.folder / f"{block.id}.json").read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError):
                edited = f"{self.slug}/{block.id}.json is gone or not JSON"
            if not edited and text_digest(dumps(values)) != entry["values"]:
                edited = f"{self.slug}/{block.id}.json {_NOT_AS_ACCEPTED}"
        symbols = self._index["symbols"]
        output = Output(text, values, _items(entry["modules"]), _items(entry["data"]), entry.get("stale_records", []))
        reached = {name: symbols.get(name, "") for name in _items(entry["reached"])}
        environment = self._index["environments"].get(entry["environment"], {})
        return Accepted(output, entry["code"], environment, entry["label"], entry["commit"], edited, reached)

    def inline(self) -> tuple[dict[str, str], str, dict[str, Any]]:
        """Accepted inline values by key, a sentence where the file was edited, and what they were made from."""
        known = self._index["inline"]
        if not known:
            return {}, "", {}
        try:
            text = (self.folder / INLINE_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return {}, f"{self.slug}/{INLINE_FILE} is gone or not text", known
        values = dict(line.split(" => ", 1) for line in text.split("\n") if " => " in line)
        edited = "" if text_digest(text) == known["sha256"] else f"{self.slug}/{INLINE_FILE} {_NOT_AS_ACCEPTED}"
        return values, edited, known

    def write(
        self,
        entries: dict[str, tuple[Block, Output, dict[str, Any]]],
        inline: dict[str, str] | None,
        inline_made: dict[str, Any],
        keep: set[str],
    ) -> list[str]:
        """Accept `entries` (and nothing else: blocks in `keep` stay, others go). Returns the paths that changed.

        An entry whose output and code are what was accepted is left as it stands, commit and machine included; but a
        commit with changes on top of it (a `+`) gives way to one without. Where `inline` is None, the inline values are
        left as well. What another process has accepted since this page was read stays.
        """
        with locked(self._all):
            read = self._index["blocks"].keys()
            now = AcceptedPage(self._all, self.slug)
            if now.problem:  # it could be read a moment ago
                return []
            self._index = now._index
            return self._write(entries, inline, inline_made, keep | (self._index["blocks"].keys() - read))

    def _write(
        self,
        entries: dict[str, tuple[Block, Output, dict[str, Any]]],
        inline: dict[str, str] | None,
        inline_made: dict[str, Any],
        keep: set[str],
    ) -> list[str]:
        changed: list[str] = []
        blocks = {name: entry for name, entry in self._index["blocks"].items() if name in keep}
        kept = {name for entry in blocks.values() for name in _items(entry["reached"])}
        symbols = {name: self._index["symbols"].get(name, "") for name in kept}
        environments = dict(self._index["environments"])
        for name, (block, output, made) in entries.items():
            file = f"{name}{block.suffix}"
            entry = {
                "file": file,
                "sha256": text_digest(output.text),
                "modules": "; ".join(output.modules),
                "data": "; ".join(output.data),
                **{key: made[key] for key in ("code", "label", "commit")},
                "environment": text_digest(dumps(made["environment"])),
                "reached": "; ".join(sorted(made["reached"])),
            }
            if output.values:
                entry["values"] = text_digest(dumps(output.values))
            if output.stale_records:
                entry["stale_records"] = output.stale_records
            old = self._index["blocks"].get(name)
            same = old and all(old.get(key) == entry.get(key) for key in ("file", "sha256", "values", "code"))
            if same and (entry["commit"].endswith("+") or not old["commit"].endswith("+")):
                entry |= {key: old[key] for key in ("environment", "label", "commit")}
            blocks[name] = entry
            environments[text_digest(dumps(made["environment"]))] = made["environment"]
            symbols |= made["reached"]
            changed += self._put(file, output.text + "\n")
            if output.values:
                changed += self._put(f"{name}.json", dumps(output.values))
        of_inline = self._index["inline"]
        if inline is not None:
            inline_text = "".join(f"{key} => {value}\n" for key, value in inline.items())
            of_inline = inline_made | {"sha256": text_digest(inline_text)} if inline else {}
        index = {
            "format": FORMAT,
            "blocks": blocks,
            "symbols": symbols,
            "environments": {
                key: value
                for key, value in environments.items()
                if key in {entry["environment"] for entry in blocks.values()}
            },
            "inline": of_inline,
        }
        if inline:
            changed += self._put(INLINE_FILE, inline_text)
        if blocks or of_inline:
            changed += self._put("index.json", dumps(index))
        elif (self.folder / "index.json").exists():
            (self.folder / "index.json").unlink()
            changed.append(f"{self.slug}/index.json (removed: the page runs nothing any more)")
        self._index = json.loads(dumps(index))
        known = {"index.json"} | ({INLINE_FILE} if of_inline else set())
        known |= {entry["file"] for entry in blocks.values()} | {
            f"{name}.json" for name, entry in blocks.items() if entry.get("values")
        }
        for file in self.folder.glob("*"):
            if file.name.startswith("."):  # of the system, or of another process that writes now
                if file.suffix == ".tmp" and time.time() - file.stat().st_mtime > _LEFT_S:
                    file.unlink()
            elif file.is_file() and file.name not in known:
                file.unlink()
                changed.append(f"{self.slug}/{file.name} (removed: its block is gone)")
        return changed

    def _put(self, name: str, text: str) -> list[str]:
        path = self.folder / name
        with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
            if path.read_bytes().decode("utf-8") == text:
                return []
        write_whole(path, text)
        return [f"{self.slug}/{name}"]


class RunStore:
    """The last runs on this machine, by page and block: what may stand in for a run."""

    def __init__(self, folder: Path, stamp: str = "") -> None:
        """What was stored under another `stamp` (by another engine, with other settings) is not read."""
        self.folder = folder
        self.stamp = stamp
        self._pages: dict[str, dict[str, Any]] = {}

    def candidates(self, page: PageSource, key: str) -> list[dict[str, Any]]:
        """Stored runs of a block or of a page's inline values, newest first."""
        return list(self._load(page.slug).get(key, []))

    def add(self, page: PageSource, key: str, run: dict[str, Any]) -> None:
        """Remember a run. Failures are never given here."""
        runs = self._load(page.slug).setdefault(key, [])
        same = ("code", "environment_hash")
        runs[:] = [run, *(old for old in runs if any(old.get(name) != run.get(name) for name in same))][:_RUNS_KEPT]

    def note(self, page: PageSource, key: str, value: Any) -> None:
        """Remember anything else about a page (its scan, its rendered blocks). No block's id holds a colon."""
        self._load(page.slug)[f"note:{key}"] = value

    def noted(self, page: PageSource, key: str) -> Any:
        """What `note` stored, or None."""
        return self._load(page.slug).get(f"note:{key}")

    def save(self, page: PageSource) -> None:
        """Write a page's runs to disk."""
        document = self._load(page.slug)
        body = json.dumps(document)
        with contextlib.suppress(OSError):  # a read-only checkout only costs speed
            write_whole(self._path(page.slug), f"{self._seal(body)}\n{body}", durable=False)

    def _seal(self, body: str) -> str:
        return text_digest(f"{self.stamp}\n{body}")

    def _path(self, slug: str) -> Path:
        return self.folder / f"{slug.replace('/', '--')}.json"

    def _load(self, slug: str) -> dict[str, Any]:
        if slug not in self._pages:
            self._pages[slug] = {}
            with contextlib.suppress(OSError, ValueError):
                seal, _, body = self._path(slug).read_text(encoding="utf-8").partition("\n")
                if seal == self._seal(body):  # else it was cut short, edited or another engine's: run again
                    self._pages[slug] = json.loads(body)
        return self._pages[slug]
