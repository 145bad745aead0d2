"""The host's trace against what a GPU did, access by access. Needs no GPU."""

import numpy as np
import pytest
from gpu_play import SMALL, launchers, shapes_of, through_a_file

from kernels.trace import gpu_record, ground_truth
from kernels.trace.cuda import why_not
from kernels.trace.ground_truth import Difference, accesses, compare, host_trace, recorded, unlisted

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RECORDS = {record.kernel: record for record in gpu_record.records()}
recorded_once = pytest.mark.skipif(
    not RECORDS, reason=f"No GPU's accesses are committed yet; on one, run python {gpu_record.COMMAND}."
)


@traced
@pytest.mark.parametrize("kernel", sorted(launchers()))
def test_what_the_host_does_survives_the_recorders_file_and_the_record(kernel, tmp_path):
    shape = shapes_of(kernel)[1]
    host, gpu = through_a_file(kernel, shape, tmp_path)
    assert compare(kernel, shape, host, gpu) == []
    assert {key: len(rows) for key, rows in gpu.items()} == {key: len(rows) for key, rows in host.items()}


def first_write_of(rows, number):
    return np.flatnonzero(rows["what"] % 16 == 1)[number]


def drop(rows):
    return np.delete(rows, first_write_of(rows, 40))


def shift(rows):
    rows["address"][first_write_of(rows, 40)] += 4
    return rows


def other_thread(rows):
    rows["thread"][first_write_of(rows, 40), 0] += 1
    return rows


def other_block(rows):
    rows["block_x"][first_write_of(rows, 40)] += 1
    return rows


def twice(rows):
    return np.append(rows, rows[first_write_of(rows, 40)])


@traced
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all on the GPU"),
        (shift, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all on the GPU"),
        (other_thread, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all"),
        (other_block, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and not at all"),
        (twice, "thread 7 of block 1 writes the word at byte 172 once in the host's trace and 2 times on the GPU"),
    ],
)
def test_one_access_that_differs_is_found_and_named(change, words, tmp_path):
    def in_out(rows):  # only what goes to global memory: the shared writes keep their places
        glob = rows["what"] < 16
        return np.concatenate([rows[~glob], change(rows[glob].copy())])

    host, gpu = through_a_file("softmax_parallel", SMALL, tmp_path, change=in_out)
    (found,) = compare("softmax_parallel", SMALL, host, gpu)
    assert (found.kind, found.space, found.buffer, found.what) == ("other", "global", "out", "write")
    assert words in str(found), str(found)
    assert "softmax_parallel, rows 7, columns 33, x_stride 40, out_stride 36: out, writes: " in str(found)
    everything = Difference("softmax_parallel", "global", "out", "write", "other", "")
    assert str(found) in unlisted([found], [everything])  # this kind cannot be excused


@traced
def test_a_shared_access_that_differs_is_found(tmp_path):
    def change(rows):
        shared = np.flatnonzero(rows["what"] == 17)
        rows["address"][shared[3]] += 4
        return rows

    host, gpu = through_a_file("transpose_tile_33", shapes_of("transpose_tile_33")[1], tmp_path, change=change)
    (found,) = compare("transpose_tile_33", {}, host, gpu)
    assert (found.kind, found.space, found.what) == ("other", "shared", "write")


def row(block, thread, offset, size):
    return [block, thread, offset, size]


X_READ = ("global", "x", "read")
FOUR = np.array([row(0, 0, 0, 4), row(0, 0, 4, 4), row(0, 1, 8, 4), row(0, 1, 12, 4)])


@pytest.mark.parametrize(
    ("gpu", "kinds"),
    [
        (FOUR[::-1], []),
        (np.array([row(0, 0, 0, 8), row(0, 1, 8, 8)]), ["wider"]),
        (np.array([row(0, 0, 0, 16)]), ["other"]),  # the right words, one of them by another thread
        (FOUR[:3], ["other"]),
        (np.empty((0, 4), np.int64), ["other"]),
    ],
)
def test_wider_accesses_are_told_from_missing_ones(gpu, kinds):
    assert [m.kind for m in compare("k", {}, {X_READ: FOUR}, {X_READ: gpu})] == kinds


def test_fewer_means_that_each_word_is_still_read_by_its_thread():
    host = {X_READ: np.concatenate([FOUR, FOUR])}
    assert [m.kind for m in compare("k", {}, host, {X_READ: FOUR})] == ["fewer"]
    wide = np.array([row(0, 0, 0, 8), row(0, 1, 8, 8)])
    assert [m.kind for m in compare("k", {}, host, {X_READ: wide})] == ["fewer", "wider"]
    assert [m.kind for m in compare("k", {}, {X_READ: wide}, {X_READ: FOUR})] == ["narrower"]
    assert [m.kind for m in compare("k", {}, {X_READ: FOUR}, host)] == [
        "other"
    ]  # more than the source is not excusable
    assert [m.kind for m in compare("k", {}, host, {X_READ: FOUR[:3]})] == ["other"]


def test_the_table_must_name_each_difference_and_nothing_else():
    listed = Difference("k", "global", "x", "read", "fewer", "kept in a register")
    found = compare("k", {"n": 1}, {X_READ: np.concatenate([FOUR, FOUR])}, {X_READ: FOUR})
    assert unlisted(found, [listed]) == []
    assert unlisted(found, []) == [str(found[0])]
    assert unlisted([], [listed]) == ["the listed difference k, global, x, read, fewer does not occur; remove it"]


# ---- the committed records ------------------------------------------------------------------------------------------


@recorded_once
def test_there_is_a_record_for_every_kernel_and_shape():
    assert set(RECORDS) == set(launchers())
    for kernel, record in RECORDS.items():
        assert [case.shape for case in record.cases] == shapes_of(kernel), kernel


@recorded_once
@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_a_record_belongs_to_todays_kernel(kernel):
    record = RECORDS[kernel]
    assert gpu_record.stale(kernel, record.source, record.source_hash) is None


@recorded_once
def test_the_first_thing_recorded_is_what_was_known_before():
    case = next(case for case in RECORDS["vector_add"].cases if case.shape == {"n": 257})
    assert {what: sum(g.accesses for g in case.groups if g.what == what) for what in ("read", "write")} == {
        "read": 514,
        "write": 257,
    }


@recorded_once
@traced
def test_host_and_gpu_agree_for_every_kernel_and_shape():
    found = []
    for kernel, record in RECORDS.items():
        for case in record.cases:
            trace = host_trace(record.source.partition(":")[0], kernel, case.shape)
            assert (list(trace.launches[0].grid), list(trace.launches[0].block)) == (case.grid, case.block)
            found += compare(kernel, case.shape, accesses(trace), recorded(case))
    assert unlisted(found, ground_truth.DIFFERENCES) == []
