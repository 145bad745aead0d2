"""The code hash of an output: its block, what led to it, and all that these reach in the project."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
from functools import lru_cache

from kernels.lessons.look import Look
from kernels.lessons.model import Block, Output, PageScan

_CHECKER = ("kernels.exercises.worker:look", "kernels.exercises.show:verdict_lines")


class Reach:
    """What the outputs of one page stand on, as the sources are now."""

    def __init__(self, scan: PageScan, look: Look) -> None:
        self.scan, self.look, self.sources = scan, look, look.sources
        self._known: dict[tuple[str, ...], tuple[str, dict[str, str]]] = {}

    def forget(self) -> None:
        """Look again: what ran may have written files that it read."""
        self._known.clear()
        self.look.forget_data()

    def of_block(self, block: Block, output: Output) -> tuple[str, dict[str, str]]:
        """The hash of all code and data behind a block's output, and the symbols and files that it reaches."""
        key = (block.id, *output.modules, "", *output.data)
        if key not in self._known:
            self._known[key] = self._of(self.scan.session_of(block), output.modules, output.data)
        return self._known[key]

    def of_inlines(self, modules: list[str], data: list[str]) -> str:
        """The hash behind the page's inline values."""
        blocks = self.scan.before_inlines()
        order = "\n".join(
            f"{sum(block.line < inline.line for block in blocks)} {inline.expression}" for inline in self.scan.inlines
        )
        return self._of(blocks, modules, data, order)[0]

    def _of(
        self, blocks: list[Block], modules: list[str], data: list[str], extra: str = ""
    ) -> tuple[str, dict[str, str]]:
        digest = hashlib.sha256(extra.encode())
        reached: dict[str, str] = {}
        if blocks and modules:
            # What an earlier block of the page imported by name is that block's, whatever its session.
            modules = self.sources.unexplained(self._codes_up_to(blocks[-1]), modules)
        for block in blocks:
            fields = (
                block.language,
                block.code,
                block.needs,
                block.html,
                block.returncode,
                block.raises,
                block.normalise,
            )
            digest.update(repr(fields).encode())
            if block.language == "python":
                try:
                    reached |= self.sources.explain_code(block.code, modules)
                except SyntaxError:
                    continue  # its run will say so
            else:
                reached |= self.sources.explain_shell(block.code) | self._checked(block.code)
        for path in data:
            reached[f"file {path}"] = self.look.data(path)
            if path.startswith("results/") and path.endswith(".json"):
                reached |= self.look.measured(path)
        for name, value in sorted(reached.items()):
            digest.update(f"{name}={value}\n".encode())
        return digest.hexdigest()[:16], reached

    def _checked(self, code: str) -> dict[str, str]:
        """What `lessons check NAME` in a shell block stands on: the exercise's files, and what judges and shows."""
        found: dict[str, str] = {}
        for name in re.findall(r"\blessons\s+check\s+([A-Za-z_]\w*)", code):
            with contextlib.suppress(KeyError):
                found |= self.sources.explain(_CHECKER)
            for file in (f"exercises/{name}.py", f"solutions/{name}.py", f"checks/{name}.py", f"checks/{name}.toml"):
                path = self.look.root / "lessons_src" / file
                found[f"file lessons_src/{file}"] = self.look.data(f"lessons_src/{file}")
                with contextlib.suppress(OSError, SyntaxError):
                    found |= self.sources.explain_code(path.read_text(encoding="utf-8") if path.suffix == ".py" else "")
        return found

    def _codes_up_to(self, last: Block) -> list[str]:
        before = [b for b in self.scan.blocks if b.compiled is last.compiled and b.line <= last.line]
        return [b.code for b in before if b.language == "python" and _is_python(b.code)]  # else its run will say so


@lru_cache(maxsize=4096)
def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True
