"""What `scripts/sanitize_operators.py` does on a machine with a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels.bench.sanitizer.libraries import build_all
from kernels.bench.sanitizer.plants import TOOLS
from kernels.bench.sanitizer.record import Sanitizers, decode, encode, report, taken
from kernels.bench.sanitizer.run import Limits, run
from kernels.sources.files import write_whole


def tool_version(sanitizer: str) -> str:
    """ "compute-sanitizer 2025.3.1.0", as the tool says itself."""
    done = subprocess.run([sanitizer, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"[Vv]ersion\s+(\d[\w.]*)", done.stdout + done.stderr)
    return f"compute-sanitizer {found.group(1)}" if found else "compute-sanitizer, version not known"


def chosen(paths: Sequence[Any], wanted: Sequence[str]) -> list[int]:
    """The places of the paths of the wanted operators, or of all; KeyError with a sentence for an unknown name."""
    known = list(dict.fromkeys(path.op for path in paths))
    for name in wanted:
        if name not in known:
            raise KeyError(f"There is no kernel path of {name!r}; there are paths of {', '.join(known)}.")
    return [place for place, path in enumerate(paths) if not wanted or path.op in wanted]


def sanitize(
    wanted: Sequence[str],
    sanitizer: str,
    seconds: float,
    jobs: int | None,
    keep: Path,
    output: Path | None,
    say: Callable[[str], None],
    also: Sequence[Path] = (),
    unproved: Path | None = None,
) -> int:
    """Run, write the record, print the report. The exit status of the script: 0, 1, or 2 for an unknown operator or
    an earlier record that cannot stand beside this run.

    also: records of earlier runs, whose checks stand in the document where this run came to none (`merge`).
    unproved: such a record, of which only that is run which does not stand in it (`taken`).
    """
    from kernels.bench.device import CudaDevice
    from kernels.bench.provenance import provenance
    from kernels.bench.results import ResultsError
    from kernels.bench.sanitizer.merge import check_origins, merged
    from kernels.bench.sanitizer.paths import kernel_paths
    from kernels.sources import Sources

    began, paths = time.monotonic(), kernel_paths()
    origin = provenance(CudaDevice())
    try:  # before the run, which takes minutes
        earlier = [decode(path.read_bytes(), path.name) for path in ([unproved] if unproved else []) + [*also]]
        stands = taken(earlier[0]) if unproved else ()

        def asked(path: Any, tool: str) -> bool:
            return (path.op, path.way, path.dtype, tool) not in stands

        places = [place for place in chosen(paths, wanted) if any(asked(paths[place], tool) for tool in TOOLS)]
        if not places:
            say(f"Nothing of {unproved} is still to be taken.")
            return 0
        check_origins([origin, *(document.provenance for document in earlier)])
    except (KeyError, OSError, ResultsError) as error:
        say(error.args[0] if isinstance(error, KeyError) else str(error))
        return 2
    folder = keep.resolve() / time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    if any(paths[place].cuda for place in places):  # the paths without CUDA come first, and need not wait
        threading.Thread(target=build_all, args=(say,), daemon=True).start()
    limits = Limits(total=seconds - (time.monotonic() - began), jobs=jobs or os.cpu_count() or 1)
    hashes = Sources()

    def functions(reference: str) -> list[str]:
        return [name.rpartition(":")[2] for name in hashes.explain([reference])]

    def fingerprint(reference: str) -> str:
        return hashes.fingerprint([reference])

    records, other = run(paths, places, sanitizer, limits, fingerprint, folder, say, functions, asked)
    document = Sanitizers(
        provenance=origin,
        tool_version=tool_version(sanitizer),
        seconds=round(time.monotonic() - began, 1),
        unattributed=other,
        paths=records,
    )
    if earlier:
        document = merged([document, *earlier], fingerprint)
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_whole(output, encode(document))
    say(report(document))
    return int(any(check.state in ("no", "unproved", "not run") for path in document.paths for check in path.checks))
