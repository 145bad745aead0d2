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
    # Which maximum does not win against any other, and which sum adds nothing?
    raise NotImplementedError("return the pair of no scores")
    # --- end ---


def merge(one, other):
    """The pair of all scores of two parts, from the pair of each."""
    # --- fill in ---
    # The larger maximum is the maximum of all. Each sum is relative to its own maximum: what is it relative to the
    # new one?
    # And what if neither part has a score that counts?
    raise NotImplementedError("return the merged pair")
    # --- end ---


def statistics(scores):
    """The pair of a list of scores. A score of -inf is one that does not count."""
    # --- fill in ---
    # A single score is a part as well: what is its pair? And that of a score of -inf?
    raise NotImplementedError("return the pair of the scores")
    # --- end ---


def chain(pairs, merge):
    """All pairs merged one after the other, from the left, beginning with the identity."""
    # --- fill in ---
    # From the left: the identity with the first pair, the result with the second, and so on.
    raise NotImplementedError("merge the pairs one after the other")
    # --- end ---


def tree(pairs, merge):
    """All pairs merged as a tree: no pair waits for more than ceil(log2(count)) merges. The identity for none."""
    # --- fill in ---
    # Neighbours first, then the results of neighbours. Keep the order; a pair without a neighbour waits a level.
    raise NotImplementedError("merge the pairs level by level")
    # --- end ---


def softmax_in_parts(row, part):
    """The weights of a row of scores, `part` of them at a time, from the merged pair. It is complete.

    A row that is all -inf gives NaN in every column, as torch.softmax does.
    """
    pairs = [statistics(row[start : start + part]) for start in range(0, len(row), part)]
    highest, total = tree(pairs, merge)
    return [divide32(exp32(f32(score - highest)), total) for score in row]
