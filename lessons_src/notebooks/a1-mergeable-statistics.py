# %% [markdown]
# # Workshop A1 as a notebook: mergeable statistics
#
# The bench beside [Workshop A1](../../docs/workshops/a1-mergeable-statistics.md), whose exercise is checked with
# `lessons check mergeable`. The softmax of a row needs its maximum and a sum. If the row is cut, each part has
# its own pair. There is a rule that makes one pair of two. This notebook needs nothing but Python.

# %% id="setup"
import itertools
import math
import random

NEUTRAL = (-math.inf, 0.0)
print("Python alone")

# %% [markdown]
# ## The rule
#
# A pair is the largest score of a part, and the sum of the exponentials below it. To merge two, both sums must
# refer to the same maximum.


# %% id="rule"
def pair(scores):
    maximum = max(scores)
    return maximum, sum(math.exp(score - maximum) for score in scores)


def merge(first, second):
    maximum = max(first[0], second[0])
    if maximum == -math.inf:  # nothing on either side: -inf less -inf is no number
        return NEUTRAL
    return maximum, sum(total * math.exp(own - maximum) for own, total in (first, second))


random.seed(0)
row = [random.gauss(0, 3) for _ in range(100)]
whole, parts = pair(row), merge(pair(row[:30]), pair(row[30:]))
print("maximum equal:", whole[0] == parts[0], "  sum close:", math.isclose(whole[1], parts[1], rel_tol=1e-12))

# %% [markdown]
# ## Predict: does the order matter?
#
# Five parts can be merged in any order and in any bracketing. Do all of them give the same pair? The same bits?

# %% id="orders"
pieces = [pair(row[start : start + 20]) for start in range(0, 100, 20)]
found = set()
for order in itertools.permutations(pieces):
    left = merge(merge(merge(merge(order[0], order[1]), order[2]), order[3]), order[4])
    tree = merge(merge(merge(order[0], order[1]), merge(order[2], order[3])), order[4])
    found |= {left, tree}
sums = sorted(total for _, total in found)
print(f"{len(found)} different results; they differ by {(sums[-1] - sums[0]) / sums[0]:.0e} at most")
print("maxima:", len({maximum for maximum, _ in found}))

# %% [markdown]
# The maximum is exact in any order. The sum is not, and differs in its last bits. If your kernel must give the
# same bits every time, it needs the same order every time.
#
# ## Parts that hold nothing
#
# A part may be masked out entirely: every score is minus infinity.

# %% id="masked"
empty = NEUTRAL
print("with nothing:", merge(empty, whole) == whole == merge(whole, empty))
print("two nothings:", merge(empty, empty))


def careless(first, second):
    maximum = max(first[0], second[0])
    return maximum, sum(total * math.exp(own - maximum) for own, total in (first, second))


print("without the guard:", careless(empty, empty))

# %% [markdown]
# ## Break it
#
# Add the sums as they are. When is that right?


# %% id="broken"
def added(first, second):
    return max(first[0], second[0]), first[1] + second[1]


for name, (left, right) in {"equal maxima": ([1, 5], [5, 2]), "different": ([1, 2], [5, 2])}.items():
    got, wanted = added(pair(left), pair(right)), pair([*left, *right])
    print(
        f"{name:<13} {'right' if math.isclose(got[1], wanted[1]) else 'wrong'}: {got[1]:.4f}, should be {wanted[1]:.4f}"
    )

# %% [markdown]
# ## Your turn
#
# Find the rule for mean and variance: a count, a mean, and a sum of squared distances. Which is the neutral
# element? [Lab 3](../../docs/labs/3-softmax.md#wider-than-a-block) uses the rule of this notebook in a kernel.
