"""Workshop A1: the two numbers of a row that can be computed in parts.

    lessons check mergeable

The statistics of some scores are a pair: their maximum, and the sum of exp(score - maximum). Two pairs can be merged
into the pair of all scores without looking at any of them again. Edit only what lies between the marks. Round sums and
products with f32 and take exponentials with exp32, as a kernel would; maxima need no rounding.
"""

import math

from kernels.exercises.rounding import divide32, exp32, f32


def identity():
    """The pair of no scores at all: merging it with any pair changes nothing."""
    # --- fill in ---
    return -math.inf, 0.0
    # --- end ---


def merge(one, other):
    """The pair of all scores of two parts, from the pair of each."""
    # --- fill in ---
    highest = max(one[0], other[0])
    if highest == -math.inf:
        return identity()
    return highest, f32(f32(one[1] * exp32(one[0] - highest)) + f32(other[1] * exp32(other[0] - highest)))
    # --- end ---


def statistics(scores):
    """The pair of a list of scores. A score of -inf is one that does not count."""
    # --- fill in ---
    pair = identity()
    for score in scores:
        pair = merge(pair, (score, 1.0 if score > -math.inf else 0.0))
    return pair
    # --- end ---


def chain(pairs, merge):
    """All pairs merged one after the other, from the left, beginning with the identity."""
    # --- fill in ---
    result = identity()
    for pair in pairs:
        result = merge(result, pair)
    return result
    # --- end ---


def tree(pairs, merge):
    """All pairs merged as a tree: no pair waits for more than ceil(log2(count)) merges. The identity for none."""
    # --- fill in ---
    pairs = list(pairs) or [identity()]
    while len(pairs) > 1:
        pairs = [merge(*pairs[i : i + 2]) if i + 1 < len(pairs) else pairs[i] for i in range(0, len(pairs), 2)]
    return pairs[0]
    # --- end ---


def softmax_in_parts(row, part):
    """The weights of a row of scores, `part` of them at a time, from the merged pair. It is complete.

    A row that is all -inf gives NaN in every column, as torch.softmax does.
    """
    pairs = [statistics(row[start : start + part]) for start in range(0, len(row), part)]
    highest, total = tree(pairs, merge)
    return [divide32(exp32(f32(score - highest)), total) for score in row]
