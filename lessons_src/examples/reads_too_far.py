"""An addition that reads past its inputs, to be run under compute-sanitizer. Never copy from here.

    compute-sanitizer --tool memcheck python lessons_src/examples/reads_too_far.py
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python lessons_src/examples/reads_too_far.py

The result is right both times: what is read too far is never stored. The first command finds nothing, because PyTorch's
allocator keeps one large piece of memory and cuts it up itself. The second asks it not to.
"""

import sys

import torch


def main() -> int:
    if not torch.cuda.is_available():
        print("compute-sanitizer watches kernels on a GPU, and there is no NVIDIA GPU here.", file=sys.stderr)
        return 3
    from add_gone_wrong import _add_no_load_mask

    x, y = torch.arange(257.0, device="cuda"), torch.ones(257, device="cuda")
    out = torch.full_like(x, float("nan"))
    _add_no_load_mask[(2,)](x, y, out, 257, BLOCK=256)
    torch.cuda.synchronize()
    print("right" if torch.equal(out, x + y) else "wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
