"""What Triton's own profiler, Proton, says of our kernels: `python lessons_src/examples/profile_with_proton.py`.

Proton writes a tree of scopes and kernels as JSON, which this program prints. It needs an NVIDIA GPU; without one it
says so and ends with 3.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

CALLS = 100


def lines(node: dict, depth: int = 0) -> list[str]:
    """A line a scope or kernel: calls and mean time, children below, the slowest first."""
    metrics, name = node.get("metrics", {}), node.get("frame", {}).get("name", "")
    total, count = metrics.get("time (ns)", 0), metrics.get("count", 0)
    mean = f"{count:>6} launches {total / count / 1e3:>9.2f} µs each" if count else ""
    here = [f"{'  ' * depth + name:<44}{mean}".rstrip()]
    children = sorted(node.get("children", []), key=lambda child: -child.get("metrics", {}).get("time (ns)", 0))
    return here + [line for child in children for line in lines(child, depth + 1)]


def main() -> int:
    if not torch.cuda.is_available():
        print("Proton counts launches on a GPU, and there is no NVIDIA GPU here.", file=sys.stderr)
        return 3
    import triton.profiler as proton

    from kernels.ops.row_sum import row_sum
    from kernels.ops.softmax import softmax

    narrow, wide = torch.randn(4096, 1024, device="cuda"), torch.randn(32, 1 << 20, device="cuda")
    for x in (narrow, wide):
        softmax(x), row_sum(x)  # compiling is no part of the profile
    torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        name = str(Path(folder) / "launches")
        proton.start(name)
        for _ in range(CALLS):
            with proton.scope("4096 rows of 1024"):
                softmax(narrow), row_sum(narrow)
            with proton.scope("32 rows of 1048576"):
                softmax(wide), row_sum(wide)
        torch.cuda.synchronize()
        proton.finalize()
        tree = json.loads(Path(f"{name}.hatchet").read_text())
    print("\n".join(lines(tree[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
