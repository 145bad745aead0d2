"""How long something takes beside a sort of a million numbers: where that is slow, so is the other."""

import time
from collections.abc import Callable

import numpy as np

ROUNDS = 3


def in_sorts(call: Callable[[], object]) -> float:
    """The processor's time for a call, in times for a sort; of each the best of a few, taken in turns."""
    numbers = np.random.default_rng(0).random(1 << 20)
    taken = [(_seconds(call), _seconds(lambda: np.sort(numbers))) for _ in range(ROUNDS)]
    return min(ours for ours, _ in taken) / min(sort for _, sort in taken)


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began
