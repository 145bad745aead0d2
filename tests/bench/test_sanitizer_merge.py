"""Records of several runs put together, and what the tools say wrongly: on documents made here."""

from types import SimpleNamespace

import msgspec
import pytest

from kernels.bench.results import Provenance, ResultsError
from kernels.bench.sanitizer import merge, record
from kernels.bench.sanitizer.plants import TOOLS
from kernels.bench.sanitizer.readings import MISREAD, is_misread, why_misread, why_unseen

NEW, OLD = "b" * 40, "a" * 40


def plant(state, **words):
    return record.Plant(kernel="_rows", state=state, **words)


SEEN = plant("reported", report="Invalid __global__ read of size 4 bytes")
LATE = plant("not run", reason="The time of the run was over.")
MISSED = plant("cannot see", reason=record.UNREPORTED)


def check(clean="yes", *plants, tool="memcheck", **words):
    return record.Check(tool=tool, clean=clean, plants=list(plants), **words)


def document(commit, day, *checks, hash="now", way="block", kernels=("_rows",), **origin):
    path = record.PathRecord(
        op="add", way=way, dtype="float32", source="source:add", source_hash=hash, kernels=list(kernels),
        checks=list(checks),
    )  # fmt: skip
    given = {"gpu": "NVIDIA H200", "gpu_slug": "h200", "sm_count": 132, "l2_bytes": 1, "memory_bytes": 1}
    given |= {"python": "3.12.3", "command": f"run of {day}", "utc": f"2026-11-{day}T03:00:00Z", "commit": commit}
    return record.Sanitizers(
        provenance=Provenance(**given | origin), tool_version="tool", seconds=90.0, unattributed={"memcheck": 2},
        paths=[path],
    )  # fmt: skip


def put(*documents, now="now"):
    return merge.merged(documents, lambda _: now)


def only(made):
    (path,) = made.paths
    (found,) = path.checks
    return found


@pytest.mark.parametrize(
    ("new", "old", "state", "commit"),
    [
        (check("yes", SEEN), check("yes", SEEN), "proved", None),
        (check("not run"), check("yes", SEEN), "proved", OLD),
        (check("yes", LATE), check("yes", SEEN), "proved", OLD),
        (check("yes", LATE), check("yes", LATE), "unproved", None),
        (check("not run"), check("yes", LATE), "unproved", OLD),
        (check("not run"), check("not run"), "not run", None),
        (check("yes", MISSED), check("yes", SEEN), "blind", None),  # the newest that ran
        (check("yes", LATE), check("yes", MISSED), "unproved", None),  # an old plant that went unseen says no more
        (check("not run"), check("yes", MISSED), "blind", OLD),
        (check("no", LATE, reports=["Error: x"]), check("yes", SEEN), "no", None),  # no silence takes a report back
        (check("yes", LATE), check("no", LATE, reports=["Error: x"]), "no", OLD),
        (check("yes", SEEN), check("no", SEEN, reports=["Error: x"]), "no", OLD),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_the_newest_check_that_ran_with_its_plants_is_taken_and_says_its_commit(new, old, state, commit, turned):
    runs = [document(NEW, 30, new), document(OLD, 29, old)]
    found = only(put(*(reversed(runs) if turned else runs)))
    assert (found.state, found.commit) == (state, commit)


def test_an_earlier_check_counts_only_for_todays_code_and_the_same_kernels():
    new = document(NEW, 30, check("not run"))
    assert only(put(new, document(OLD, 29, check("yes", SEEN), hash="then"))).state == "not run"
    assert only(put(new, document(OLD, 29, check("yes", SEEN), kernels=["_rows", "_more"]))).state == "not run"
    stale = put(document(NEW, 30, check("not run"), hash="then"), document(OLD, 29, check("yes", SEEN)))
    assert (stale.paths[0].source_hash, only(stale).commit) == ("now", OLD)
    gone = put(document(NEW, 30, check("yes", SEEN), hash="then"), document(OLD, 29, check("no"), hash="before"))
    assert (gone.paths[0].source_hash, only(gone).state) == ("then", "proved")  # stale, and shown as such


def test_runs_of_one_commit_are_one_and_a_merged_record_may_be_merged_again():
    both = put(
        document(NEW, 30, check("yes", SEEN)), document(NEW, 30, check("yes", LATE), way="loop", command="the other")
    )
    assert [path.way for path in both.paths] == ["block", "loop"] and both.seconds == 180.0
    assert both.unattributed == {"memcheck": 4} and both.provenance.command == "run of 30; the other"
    assert not merge.earlier(both)
    again = put(document("c" * 40, 31, check("not run")), put(document(NEW, 30, check("not run")),
                                                               document(OLD, 29, check("yes", SEEN))))  # fmt: skip
    assert merge.earlier(again) == {OLD: 1} and again.seconds == 90.0
    assert record.decode(record.encode(again)) == again


def test_what_cannot_be_put_together_is_refused_with_a_sentence():
    with pytest.raises(ResultsError, match="give one at least"):
        put()
    with pytest.raises(ResultsError, match="several GPUs: NVIDIA H100, NVIDIA H200"):
        put(document(NEW, 30, check()), document(OLD, 29, check(), gpu="NVIDIA H100"))
    with pytest.raises(ResultsError, match="of no one commit"):
        put(document(NEW, 30, check()), document(OLD, 29, check(), dirty=True))


def test_the_command_writes_the_document_and_says_what_is_wrong(tmp_path, capsys):
    run, output = tmp_path / "run.json", tmp_path / "output.json"
    run.write_bytes(record.encode(document(NEW, 30, check("yes", SEEN))))
    assert merge.main(str(output), str(run)) == 0 and "memcheck: 1 proved" in capsys.readouterr().out
    assert only(record.decode(output.read_bytes())).state == "proved"
    assert merge.main(str(output), str(tmp_path / "none.json")) == 2 and "none.json" in capsys.readouterr().err


def test_a_record_without_the_new_field_is_still_read():
    old = msgspec.json.decode(record.encode(document(NEW, 30, check("yes", SEEN))))
    del old["paths"][0]["checks"][0]["commit"]
    assert only(record.decode(msgspec.json.encode(old))).commit is None


def test_a_report_is_misread_only_with_its_tool_its_kernel_and_its_line():
    words = "Error: Race reported between Write access at {}+0x5a40 in attention_gluon_backward.py:{}"
    known = words.format("_attention_one_pass__p288", 138)
    assert is_misread("racecheck", known) and "bar.warp.sync" in why_misread("racecheck", known)
    for tool, kernel, line in (
        ("memcheck", "_attention_one_pass__p288", 138),
        ("racecheck", "_attention_ring__p288", 138),
        ("racecheck", "_attention_one_pass__p288", 137),
        ("racecheck", "_attention_one_pass__p288", 1381),
    ):
        assert not is_misread(tool, words.format(kernel, line)), (tool, kernel, line)
    assert check("no", reports=[known], tool="racecheck").state == "misread"
    assert check("no", reports=[known, words.format("_rows", 1)], tool="racecheck").state == "no"
    assert check("no", tool="racecheck").state == "no"


def test_the_lines_that_are_misread_are_what_the_reasons_say():
    from kernels.sources import project_root

    def line(file, number):
        return (project_root() / "kernels" / "ops" / file).read_text().splitlines()[number - 1]

    for known in MISREAD:
        for number in known.lines:
            text = line(known.file, number)
            assert text.startswith(f"def {known.kernel}(") or ("r_ring" in text and ".store(" in text), (known, text)


def test_why_a_plant_went_unseen_is_said_only_where_it_is_known():
    assert "2025.4" in why_unseen("initcheck", "_matmul_ring")
    assert why_unseen("racecheck", "_rows") == "" and "earlier run" in why_unseen("racecheck", "_rows", True)


def test_what_stands_in_a_record_is_not_to_be_taken_again(monkeypatch):
    tools = [check("yes", SEEN), check("yes", LATE, tool="racecheck"), check("not run", tool="initcheck")]
    made = document(OLD, 29, *tools, check("no", SEEN, tool="synccheck", reports=["Error"]))
    monkeypatch.setattr(record, "stale", lambda _: [False])
    assert record.taken(made) == {("add", "block", "float32", tool) for tool in ("memcheck", "synccheck")}
    monkeypatch.setattr(record, "stale", lambda _: [True])
    assert record.taken(made) == set()


def test_of_an_earlier_record_only_what_does_not_stand_is_run(tmp_path, monkeypatch):
    """The paths and tools that the run is asked for; the earlier checks stand beside what it gives."""
    from kernels.bench import device, provenance
    from kernels.bench.sanitizer import command, paths

    known = [SimpleNamespace(op="add", way=way, dtype="float32", cuda=None) for way in ("block", "new")]
    earlier = document(OLD, 29, check("yes", SEEN), check("yes", LATE, tool="synccheck"))
    earlier.paths[0].source_hash = "today"
    later = document(NEW, 30, check("not run"), check("yes", SEEN, tool="synccheck"))
    later.paths[0].source_hash = "today"
    seen = []

    def run(_, places, *more):
        asked = more[-1]
        seen.extend((known[place].way, tool) for place in places for tool in TOOLS if asked(known[place], tool))
        return later.paths, {}

    monkeypatch.setattr(device, "CudaDevice", lambda: None)
    monkeypatch.setattr(provenance, "provenance", lambda _: later.provenance)
    monkeypatch.setattr(paths, "kernel_paths", lambda: known)
    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "tool_version", lambda _: "tool")
    monkeypatch.setattr(record, "stale", lambda _: [False])
    monkeypatch.setattr("kernels.sources.Sources.fingerprint", lambda *_: "today")
    file, output = tmp_path / "earlier.json", tmp_path / "out.json"
    file.write_bytes(record.encode(earlier))
    command.sanitize([], "none", 60.0, 1, tmp_path / "keep", output, print, unproved=file)
    assert set(seen) == {("block", tool) for tool in TOOLS if tool != "memcheck"} | {("new", tool) for tool in TOOLS}
    (path,) = record.decode(output.read_bytes()).paths
    assert [(each.tool, each.state, each.commit) for each in path.checks] == [
        ("memcheck", "proved", OLD),
        ("synccheck", "proved", None),
    ]
    said = []
    known.pop()
    earlier.paths[0].checks = [check("yes", SEEN, tool=tool) for tool in TOOLS]
    file.write_bytes(record.encode(earlier))
    monkeypatch.setattr(command, "run", lambda *_: pytest.fail("the run began"))
    assert command.sanitize([], "none", 60.0, 1, tmp_path / "keep", None, said.append, unproved=file) == 0
    assert said == [f"Nothing of {file} is still to be taken."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (record.encode(document(OLD, 29, check(), gpu="NVIDIA H100")), "several GPUs: NVIDIA H100, NVIDIA H200"),
        (record.encode(document(OLD, 29, check(), dirty=True)), "of no one commit"),
        (record.encode(document(OLD, 29, check()))[:300], "earlier.json is no record of the sanitizers"),
    ],
    ids=["another GPU", "changed code", "cut off"],
)
def test_an_earlier_record_that_does_not_fit_is_refused_before_the_run(tmp_path, monkeypatch, text, said):
    from kernels.bench import device, provenance
    from kernels.bench.sanitizer import command

    monkeypatch.setattr(device, "CudaDevice", lambda: None)
    monkeypatch.setattr(provenance, "provenance", lambda _: document(NEW, 30).provenance)
    monkeypatch.setattr(command, "run", lambda *_: pytest.fail("the run began"))
    (tmp_path / "earlier.json").write_bytes(text)
    words = []
    status = command.sanitize(
        ["softmax"], "none", 60.0, 1, tmp_path / "keep", None, words.append, [tmp_path / "earlier.json"]
    )
    assert status == 2 and said in words[-1]
