"""A fingerprint follows names through all CUDA sources, so a name that two of them define ties their records together.

Two sources that include neither each other nor a common header must not define a name that a launcher of one reaches.
"""

import pytest

from kernels.sources import Sources

SHARED = {"static_assert"}


def places(path, files):
    """The file and all that it includes."""
    found, pending = set(), [path]
    while pending:
        at = pending.pop()
        if at in found or at not in files:
            continue
        found.add(at)
        pending += [f"cuda/{name}" for name in files[at].includes]
    return found


def foreign(sources, path):
    """What the launchers of a file reach in files that it does not include."""
    files = sources.cuda_files()
    own = places(path, files)
    launchers = [f"{path}:{name}" for name, symbol in files[path].symbols.items() if symbol.exported]
    return sorted(
        {
            reached
            for launcher in launchers
            for reached in sources.explain([launcher])
            if reached.split(":")[0] not in own
        }
    )


FILES = (
    "divergence",
    "fused",
    "histogram",
    "kernels",
    "patterns",
    "probes",
    "reductions",
    "residency",
    "strided",
    "transposes",
)


@pytest.mark.parametrize("name", FILES)
def test_a_launcher_reaches_nothing_beyond_its_own_includes(name):
    found = [each for each in foreign(Sources(), f"cuda/{name}.cu") if each.split(":")[1] not in SHARED]
    assert found == [], f"give these other names, or records of cuda/{name}.cu become stale with them: {found}"
