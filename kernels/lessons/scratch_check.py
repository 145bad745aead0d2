"""Whether a scratch snippet still gives what its page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PASSED, DIFFERS, UNAVAILABLE = 0, 1, 3
_PLACE = re.compile(r"(?<![\w.-])[\w./-]+\.(?:md|py):\d+")  # a verdict names a line of the page, or of the snippet


def check(page: str, block_id: str, snippet: str) -> int:
    """Run `snippet` in a process of its own and compare the end of what it prints with the block's accepted output.

    page: by its path below docs/, as in "labs/1-vector-add.md". Prints a sentence, and a diff where there is one.

    Returns:
        0 as on the page, 1 it differs or fails, 3 the block is gone, or this machine lacks what it needs.
    """
    from kernels.lessons.compare import differences, unified_diff
    from kernels.lessons.mkdocs_plugin import open_project
    from kernels.lessons.model import Output
    from kernels.lessons.normalise import normalise
    from kernels.lessons.store import AcceptedPage

    engine, sources, docs = open_project("mkdocs.yml")
    try:
        scan = next((engine.scan(source) for source in sources if source.name == page), None)
        if scan is None:
            print(f"UNAVAILABLE: this branch has no page {docs}/{page} any more")
            return UNAVAILABLE
        block = next((each for each in scan.blocks if each.id == block_id), None)
        if block is None:
            ids = ", ".join(each.id for each in scan.blocks) or "none"
            print(f"UNAVAILABLE: {docs}/{page} has no block {block_id!r} any more; it has {ids}")
            return UNAVAILABLE
        lacking = engine.machine.lacking(scan.needs_of(block))
        root = Path(engine.root)
    finally:
        engine.close()
    if lacking:
        print(f"UNAVAILABLE: {lacking[0]}")
        return UNAVAILABLE
    accepted = AcceptedPage(root / "lessons_src" / "outputs", scan.source.slug).get(block)
    done = subprocess.run(
        _command(block.language, snippet),
        cwd=root,
        env=_environment(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    said = done.stdout.decode("utf-8", "replace")
    if block.raises:
        raised = said.strip().rpartition("\n")[2].partition(":")[0].rpartition(".")[2]
        if done.returncode and raised == block.raises.rpartition(".")[2]:
            print(f"as on the page: it raises {block.raises}")
            return PASSED
        print(f"it should raise {block.raises}; it ended with status {done.returncode}\n{said[-2000:]}")
        return DIFFERS
    if done.returncode != block.returncode:
        print(f"{snippet} ended with status {done.returncode}, expected {block.returncode}\n{said[-2000:]}")
        return DIFFERS
    if block.check == "none" or accepted is None:
        why = block.why or "the page has no accepted output of this block"
        print(f"it runs; its output is not compared: {why}")
        return PASSED
    text = normalise(said, block.normalise, str(root), html=block.html)
    wanted = accepted.output.text
    lines = wanted.count("\n") + 1 if wanted else 0  # what the blocks before it print comes first
    end = "\n".join(text.split("\n")[-lines:]) if lines else ""
    found = differences(block, Output(text=_PLACE.sub("here", wanted)), Output(text=_PLACE.sub("here", end)))
    if not found:
        print(f"as on the page: {docs}/{page}#{block_id}")
        return PASSED
    print("\n".join([*found, unified_diff(wanted, end, block_id)]))
    return DIFFERS


def _command(language: str, snippet: str) -> list[str]:
    return ["bash", snippet] if language == "bash" else [sys.executable, snippet]


def _environment(root: Path) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    return environment | {"PATH": path, "PYTHONPATH": str(root), "PYTHONUTF8": "1"}
