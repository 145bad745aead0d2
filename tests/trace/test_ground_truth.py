"""The host's trace against what a GPU did, access by access. Needs no GPU."""

from functools import cache

import numpy as np
import pytest
from gpu_play import ROOT, SMALL, launchers, shapes_of, through_a_file

from kernels.sources import Sources
from kernels.trace import gpu_record, ground_truth
from kernels.trace.cuda import why_not
from kernels.trace.gpu_record import RecordError, find_case
from kernels.trace.ground_truth import Difference, accesses, compare, compare_all, host_trace, recorded, unlisted

traced = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
RECORDS = {record.kernel: record for record in gpu_record.records()}


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

EVERY = [(kernel, shape) for kernel in sorted(launchers()) for shape in shapes_of(kernel)]


@cache
def disagreements():
    """Mismatches of every kernel, over all its shapes. A case without a record is an error that names the command."""
    found = {kernel: [] for kernel in launchers()}
    for kernel, shape in EVERY:
        case = find_case(RECORDS, kernel, shape)
        trace = host_trace(launchers()[kernel], kernel, shape)
        assert (list(trace.launches[0].grid), list(trace.launches[0].block)) == (case.grid, case.block), kernel
        found[kernel] += compare(kernel, shape, accesses(trace), recorded(case))
    return found


def test_records_are_of_todays_kernels_and_shapes_and_no_others():
    assert sorted(RECORDS) == sorted(launchers())
    for kernel, record in RECORDS.items():
        assert record.source == f"{launchers()[kernel]}:launch_{kernel}"
        assert [case.shape for case in record.cases] == shapes_of(kernel), kernel


@pytest.mark.parametrize("kernel", sorted(launchers()))
def test_a_record_belongs_to_todays_kernel(kernel):
    record = RECORDS[kernel]
    assert gpu_record.stale(kernel, record.source, record.source_hash) is None


def test_the_first_thing_recorded_is_what_was_known_before():
    case = find_case(RECORDS, "vector_add", {"n": 257})
    counts = {what: sum(g.accesses for g in case.groups if g.what == what) for what in ("read", "write")}
    assert counts == {"read": 514, "write": 257}


@traced
@pytest.mark.parametrize("kernel", sorted(launchers()))
def test_host_and_gpu_agree(kernel):
    listed = [difference for difference in ground_truth.DIFFERENCES if difference.kernel == kernel]
    assert unlisted(disagreements()[kernel], listed) == []


def test_each_listed_difference_is_of_a_kernel_that_there_is():
    assert {difference.kernel for difference in ground_truth.DIFFERENCES} <= set(launchers())


def test_a_case_without_a_record_is_an_error_that_names_the_command():
    run = "on a machine with a GPU, run: python scripts/gpu_trace.py"
    with pytest.raises(RecordError, match=f"no record of softmax_row at all; {run}"):
        find_case(RECORDS, "softmax_row", SMALL)
    with pytest.raises(RecordError, match=f"no record of vector_add for n 258; {run}"):
        find_case(RECORDS, "vector_add", {"n": 258})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "FOLDER",
            "results/nowhere",
            "no records in results/nowhere; on a machine with a GPU, run: python scripts/gpu_t",
        ),
        (
            "stale",
            lambda kernel, *more: f"{kernel} has changed" if len(more) == 2 else None,
            "^copy_columns has changed$",
        ),
    ],
)
def test_nothing_is_compared_with_records_that_are_missing_or_old(name, value, words, monkeypatch):
    monkeypatch.setattr(gpu_record, name, value)
    with pytest.raises(RecordError, match=words):
        compare_all()


def without_one(rows):
    return np.delete(rows, len(rows) // 2, axis=0)


def one_word_on(rows):
    rows[len(rows) // 2, 2] += 4
    return rows


def one_thread_on(rows):
    rows[len(rows) // 2, 1] += 1
    return rows


@traced
@pytest.mark.parametrize("change", [without_one, one_word_on, one_thread_on])
@pytest.mark.parametrize(
    ("kernel", "key"),
    [
        ("vector_add", ("global", "y", "read")),
        ("softmax_parallel", ("global", "out", "write")),
        ("softmax_online", ("shared", "shared", "read")),
        ("transpose_tile_33", ("shared", "shared", "write")),
    ],
)
def test_one_access_of_a_real_record_that_is_changed_is_found(kernel, key, change):
    shape = shapes_of(kernel)[1]
    host = accesses(host_trace(launchers()[kernel], kernel, shape))
    gpu = recorded(find_case(RECORDS, kernel, shape))
    gpu[key] = change(gpu[key].copy())
    (found,) = compare(kernel, shape, host, gpu)
    assert (found.space, found.buffer, found.what) == key
    excuse = Difference(kernel, *key, "other", "")
    assert found.kind == "fewer" or str(found) in unlisted([found], [excuse])
    assert unlisted([found], ground_truth.DIFFERENCES) != []


def test_a_changed_kernel_makes_its_record_stale(tmp_path, monkeypatch):
    record = RECORDS["softmax_parallel"]
    text = (ROOT / "cuda" / "kernels.cu").read_text(encoding="utf-8")
    (tmp_path / "cuda").mkdir()
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    changed = text.replace("column += kThreads", "column += 2 * kThreads", 1)
    assert changed != text
    said = []
    for version in (text, changed):
        (tmp_path / "cuda" / "kernels.cu").write_text(version, encoding="utf-8")
        monkeypatch.setattr("kernels.sources.fingerprint", lambda source: Sources(tmp_path).fingerprint([source]))
        said.append(gpu_record.stale(record.kernel, record.source, record.source_hash))
    assert said == [
        None,
        "softmax_parallel (cuda/kernels.cu:launch_softmax_parallel) has changed since a GPU ran it; "
        "on a machine with a GPU, run: python scripts/gpu_trace.py",
    ]
