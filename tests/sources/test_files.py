"""Files that several processes write: a reader sees a whole one, and no writer takes back what another wrote."""

import stat
import threading
import time

import pytest

from kernels.exercises.progress import Progress
from kernels.sources.files import locked, write_whole


def test_writing_makes_folders_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "one" / "two" / "a.json"
    for data in (b"first", "é\n"):
        write_whole(path, data)
    assert path.read_bytes() == "é\n".encode()
    assert [each.name for each in path.parent.iterdir()] == ["a.json"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044 and time.time() - path.stat().st_mtime < 60


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def fails(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step, fails)
        with pytest.raises(OSError, match="no space"):
            write_whole(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_verdicts_that_are_noted_at_once_are_all_kept(tmp_path, monkeypatch):
    pytest.importorskip("fcntl", reason="this system has no locks of folders")
    read = Progress.read

    def slowly(self):
        found = read(self)
        time.sleep(0.02)
        return found

    monkeypatch.setattr(Progress, "read", slowly)
    names = [f"exercise_{number}" for number in range(5)]
    noting = [threading.Thread(target=Progress(tmp_path).note, args=(name, "PASS")) for name in names]
    for each in noting:
        each.start()
    for each in noting:
        each.join()
    assert sorted(Progress(tmp_path).read()) == names


def test_readers_share_a_lock_and_a_folder_that_is_not_there_has_none(tmp_path):
    with locked(tmp_path, shared=True), locked(tmp_path, shared=True), locked(tmp_path / "gone"):
        pass
