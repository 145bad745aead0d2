#!/usr/bin/env python3
"""Puts a merge of attention over two sets of keys to the test: `try_halves.py [FILE.py]`. Needs PyTorch, no GPU.

FILE.py defines merge_halves(out_a, lse_a, out_b, lse_b); without it, ours is tried.
"""

import argparse
import runpy
import sys

CASES = {  # (queries, keys, keys of the first part): why
    (5, 24, 12): "two halves",
    (3, 24, 1): "a part of one key",
    (4, 16, 0): "a part without keys",
    (2, 0, 0): "no key at all",
}


def merge_halves(out_a, lse_a, out_b, lse_b):
    """Attention over all keys from attention over two parts of them.

    out: (queries, D), each the average under its own softmax; lse: (queries,), the logarithm of its sum of
    exponentials, -inf where the part holds no key. Returns both for all keys; zeros and -inf where there is none.
    """
    import torch

    lse = torch.logaddexp(lse_a, lse_b)
    base = torch.where(lse == float("-inf"), 0.0, lse)
    return out_a * torch.exp(lse_a - base)[:, None] + out_b * torch.exp(lse_b - base)[:, None], lse


def attend(q, k, v):
    """Attention by the formula, and the logarithm of each query's sum of exponentials."""
    import torch

    if not len(k):
        return torch.zeros_like(q), q.new_full((len(q),), float("-inf"))
    score = q @ k.T * q.shape[1] ** -0.5
    return torch.softmax(score, 1) @ v, torch.logsumexp(score, 1)


def complaint(merge):
    """What is wrong with a merge, as a sentence, and "" where nothing was found."""
    import torch

    for (queries, keys, cut), why in CASES.items():
        generator = torch.Generator().manual_seed(keys + cut)
        q, k, v = (torch.randn(n, 8, generator=generator, dtype=torch.float64) for n in (queries, keys, keys))
        if keys:
            k[-1] *= 5.0  # the parts' sums differ by a lot
        whole = attend(q, k, v)
        found = merge(*attend(q, k[:cut], v[:cut]), *attend(q, k[cut:], v[cut:]))
        for name, got, right in zip(("out", "lse"), found, whole):
            if got.isnan().any():
                return f"{queries} queries, {cut} and {keys - cut} keys ({why}): {name} is NaN"
            if not torch.allclose(got, right, rtol=0, atol=256 * 2.0**-53 * (1 + float(k.abs().sum()))):
                return f"{queries} queries, {cut} and {keys - cut} keys ({why}): {name} is wrong"
    return ""


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Try a merge of attention over two sets of keys.")
    parser.add_argument("file", nargs="?", metavar="FILE.py", help="defines merge_halves; left out: ours")
    chosen = parser.parse_args(arguments)
    merge = runpy.run_path(chosen.file).get("merge_halves") if chosen.file else merge_halves
    if merge is None:
        parser.error(f"{chosen.file} defines no merge_halves(out_a, lse_a, out_b, lse_b).")
    said = complaint(merge)
    print(said or f"right: {len(CASES)} ways to cut the keys, a part without keys and no key at all among them")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
