#!/usr/bin/env python3
"""Results of kernel-bench as a table: `report_results.py FILE... [--output FILE.md]`."""

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kernels.bench.report import report, write
from kernels.bench.results import ResultsError

ROOT = Path(__file__).resolve().parents[1]


def makes(file: Path) -> str:
    """The command that a page names for this results file; of a file that none names, that of kernel-bench."""
    name = file.resolve()
    name = name.relative_to(ROOT).as_posix() if name.is_relative_to(ROOT) else file.as_posix()
    named = re.compile(
        rf"(?:kernel-bench|python \S+\.py)\b[^`|<>\"\n]* --output {re.escape(name)}(?![\w./-])[^`|<>\"\n]*"
    )
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if found := named.search(page.read_text(encoding="utf-8")):
            return f"{found[0].strip()} makes it"
    return f"kernel-bench --output {file} measures the operators into it"


def main() -> int:
    parser = argparse.ArgumentParser(description="Turn results files of kernel-bench into a readable Markdown table.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="results file; all from one GPU")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="where to write; standard output without it")
    chosen = parser.parse_args()
    for file in chosen.files:
        if not file.exists():
            print(f"{file} is not there: {makes(file)}, on a machine with a GPU.", file=sys.stderr)
            return 1
    try:
        text = report(chosen.files)
        if chosen.output:
            write(text, chosen.output)
            print(f"Written: {chosen.output}", file=sys.stderr)
        else:
            print(text, end="")
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
