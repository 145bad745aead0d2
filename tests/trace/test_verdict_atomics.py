"""Atomics of Triton programs order what stands before them; a plain access beside another's atomic is a race."""

import os

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from kernels.trace.triton import trace_triton  # noqa: E402

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") != "1",
        reason="Triton is compiled in this run; with TRITON_INTERPRET=1 its kernels are traced.",
    ),
]


@triton.jit
def last_program_adds(x_ptr, part_ptr, ticket_ptr, out_ptr, SEM: tl.constexpr, BLOCK: tl.constexpr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    i = tl.arange(0, BLOCK)
    tl.store(part_ptr + program, tl.sum(tl.load(x_ptr + program * BLOCK + i)))
    done = tl.atomic_add(ticket_ptr, 1, sem=SEM)
    if done == programs - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + i, mask=i < programs, other=0.0)))


@triton.jit
def under_a_lock(lock_ptr, out_ptr, LOCKED: tl.constexpr):
    if LOCKED:
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)
    if LOCKED:
        tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def hands_on(flag_ptr, value_ptr, seen_ptr):
    program = tl.program_id(0)
    if program == 0:
        tl.store(value_ptr, 1.0)
    if program <= 1:
        tl.atomic_add(flag_ptr, 1)
    if program >= 1:
        tl.atomic_add(flag_ptr + 1, 1)
    if program == 2:
        tl.store(seen_ptr, tl.load(value_ptr))


@triton.jit
def adds_up(total_ptr, out_ptr, MODE: tl.constexpr):
    program = tl.program_id(0)
    if MODE == "sets" and program == 0:
        tl.store(total_ptr, 0.0)
    tl.atomic_add(total_ptr, 1.0, sem="relaxed")
    if MODE == "reads":
        tl.store(out_ptr + program, tl.load(total_ptr))


def last_program(sem):
    x, part, ticket, out = torch.ones(64), torch.zeros(4), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    buffers = {"x": x, "part": part, "ticket": ticket, "out": out}
    trace = trace_triton(lambda: last_program_adds[(4,)](x, part, ticket, out, SEM=sem, BLOCK=16), buffers)
    assert out.item() == 64
    return trace.faults(outputs=["out", "part"])


def test_the_last_program_may_read_what_the_others_released():
    assert last_program("acq_rel") == []


@pytest.mark.parametrize("sem", ["relaxed", "acquire", "release"])
def test_an_atomic_without_both_halves_orders_nothing(sem):
    (fault,) = last_program(sem)
    assert (fault.kind, fault.buffer, fault.element, fault.count) == ("read-write-overlap", "part", 0, 3)
    assert fault.who == "program 3"


def test_a_lock_orders_plain_writes_and_its_absence_does_not():
    lock, out = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    run = lambda locked: trace_triton(  # noqa: E731
        lambda: under_a_lock[(3,)](lock, out, LOCKED=locked), {"lock": lock, "out": out}
    ).faults()
    assert run(True) == []
    assert [fault.kind for fault in run(False)] == ["double-write", "read-write-overlap"]


def test_what_was_handed_on_through_a_second_program_is_known():
    flag, value, seen = torch.zeros(2, dtype=torch.int32), torch.zeros(1), torch.zeros(1)
    trace = trace_triton(lambda: hands_on[(3,)](flag, value, seen), {"flag": flag, "value": value, "seen": seen})
    assert trace.faults() == [] and seen.item() == 1


@pytest.mark.parametrize(("mode", "word", "who"), [("sets", "writes", "program 0"), ("reads", "reads", "program 0")])
def test_a_plain_access_beside_an_atomic_of_another_program(mode, word, who):
    total, out = torch.zeros(1), torch.zeros(3)
    trace = trace_triton(lambda: adds_up[(3,)](total, out, MODE=mode), {"total": total, "out": out})
    (fault,) = trace.faults(outputs=["total"])
    assert (fault.kind, fault.buffer, fault.element, fault.who, fault.mask) == ("global-race", "total", 0, who, "on")
    assert f"{word} total[0] by a plain access" in fault.sentence and "updates it by an atomic" in fault.sentence


def test_atomics_alone_are_no_race():
    total, out = torch.zeros(1), torch.zeros(3)
    assert trace_triton(lambda: adds_up[(3,)](total, out, MODE=""), {"total": total, "out": out}).faults() == []
    assert total.item() == 3
