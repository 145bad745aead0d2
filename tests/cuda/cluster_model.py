"""The barrier protocol of matmul_cluster and matmul_persistent with two blocks, as steps that any scheduler may order.

The host build runs blocks one after another, so what two blocks of a cluster do to each other is played here: each
copy of a tile of b lands in both blocks, and a stage is free when the warps of both have left it.
"""

import random
from dataclasses import dataclass, field


@dataclass
class Barrier:
    """An mbarrier: a phase ends when `count` have arrived and no byte is outstanding."""

    count: int
    arrived: int = 0
    outstanding: int = 0
    phase: int = 0

    def change(self, arrivals: int, pieces: int) -> None:
        self.arrived += arrivals
        self.outstanding += pieces
        if self.arrived > self.count:
            raise AssertionError("more arrivals than a phase has")
        if self.arrived == self.count and self.outstanding == 0:
            self.arrived, self.phase = 0, self.phase + 1

    def is_past(self, parity: int) -> bool:
        return self.phase % 2 != parity


@dataclass
class Block:
    stages: int
    arrivals: int
    full: list = field(init=False)
    empty: list = field(init=False)
    holds: list = field(init=False)  # for each stage: what its tile of a and both halves of b were fetched for
    readers: list = field(init=False)  # for each stage: warps in the middle of it

    def __post_init__(self) -> None:
        self.full = [Barrier(1) for _ in range(self.stages)]
        self.empty = [Barrier(self.arrivals) for _ in range(self.stages)]
        self.holds = [[None] * 3 for _ in range(self.stages)]
        self.readers = [0] * self.stages


def play(
    seed: int,
    *,
    steps: int,
    stages: int = 4,
    warps: int = 8,
    arrivals: int = 16,
    tell_both: bool = True,
    blocks: int = 2,
) -> None:
    """Runs every warp to its end in a random order.

    Raises:
        AssertionError: a tile was overwritten while a warp read it, a warp read another tile than its own, or nobody
            could go on.
    """
    rng = random.Random(seed)
    cluster = [Block(stages, arrivals) for _ in range(blocks)]
    in_flight = []

    def land(to: int, stage: int, part: int, step: int) -> None:
        if cluster[to].readers[stage]:
            raise AssertionError(f"step {step} overwrites stage {stage} of block {to} while it is read")
        cluster[to].holds[stage][part] = step
        cluster[to].full[stage].change(0, -1)

    def producer(me: int):
        for step in range(steps):
            stage, parity = step % stages, step // stages % 2
            while not cluster[me].empty[stage].is_past(parity ^ 1):
                yield False
            cluster[me].full[stage].change(1, 3)  # its own tile of a, and both halves of b
            in_flight.append((me, stage, 0, step))
            in_flight.extend((to, stage, 1 + me, step) for to in range(blocks))
            yield True

    def consumer(me: int):
        for step in range(steps):
            stage, parity = step % stages, step // stages % 2
            while not cluster[me].full[stage].is_past(parity):
                yield False
            if cluster[me].holds[stage] != [step] * 3:
                raise AssertionError(f"block {me} reads {cluster[me].holds[stage]} where it expects step {step}")
            cluster[me].readers[stage] += 1
            yield True
            cluster[me].readers[stage] -= 1
            for to in range(blocks) if tell_both else (me,):
                cluster[to].empty[stage].change(1, 0)
            yield True

    running = [make(me) for me in range(blocks) for make in [producer] + [consumer] * warps]
    idle = 0
    while running:
        if in_flight and rng.random() < 0.5:
            land(*in_flight.pop(rng.randrange(len(in_flight))))
            idle = 0
        who = rng.choice(running)
        moved = next(who, None)
        if moved is None:
            running.remove(who)
        idle = 0 if moved is not False else idle + 1
        if idle > 5000:
            raise AssertionError("nobody can go on")
