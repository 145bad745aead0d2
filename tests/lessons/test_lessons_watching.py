"""What a live preview hears of files: every save, by the system's events and by looking, and nothing of a build."""

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from watchdog.events import FileSystemEventHandler

import kernels
from kernels.lessons import watching

LOOK_S = 0.1
QUIET_S = 3 * LOOK_S


class Heard(FileSystemEventHandler):
    """What a watcher over one folder and one file handed on."""

    def __init__(self, root: Path) -> None:
        self.root, self.names = root, []
        self.watcher = watching.Watcher()
        self.folder = self.watcher.schedule(self, str(root / "docs"))
        self.watcher.schedule(self, str(root / "mkdocs.yml"))
        self.watcher.start()
        time.sleep(QUIET_S)  # what was written before is not news

    def on_any_event(self, event) -> None:
        assert not event.is_directory  # MkDocs does not listen to folders
        self.names += [
            Path(path).relative_to(self.root).as_posix() for path in (event.src_path, event.dest_path) if path
        ]

    def hears(self, name: str, limit_s: float = 400.0) -> set[str]:
        """Wait until a save of that name is handed on, and then for quiet; returns all names since the last call."""
        began = time.perf_counter()
        while name not in self.names:
            assert time.perf_counter() - began < limit_s, f"after {limit_s} s {name!r} is not among {self.names}"
            time.sleep(0.005)
        time.sleep(QUIET_S)
        names = set(self.names)
        self.names.clear()
        return names


@pytest.fixture(params=["told", "looking"])
def heard(request, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "LOOK_S", LOOK_S)
    if request.param == "looking":
        monkeypatch.setenv("LESSONS_POLL", "1")
    else:
        monkeypatch.delenv("LESSONS_POLL", raising=False)
        if watching.must_look(tmp_path):
            pytest.skip(f"on {watching.file_system(tmp_path)} the system does not tell of saved files")
    for path in ("mkdocs.yml", "docs/index.md", "docs/.theme/main.html", "docs/more/old.md", "outside/far.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("before")
    (tmp_path / "docs/linked").symlink_to(tmp_path / "outside", target_is_directory=True)
    listener = Heard(tmp_path)
    yield listener
    listener.watcher.stop()
    listener.watcher.join(5)


def replaced(path: Path, text: str) -> None:
    """As many editors save: a copy beside the file takes its place."""
    copy = path.with_name(path.name + ".tmp")
    copy.write_text(text)
    copy.replace(path)


def test_every_way_of_saving_is_heard(heard):
    root = heard.root
    (root / "docs/index.md").write_text("in its place")
    heard.hears("docs/index.md")
    for text in ("once", "and again, for the file that was watched first is gone"):
        replaced(root / "docs/index.md", text)
        heard.hears("docs/index.md")
    (root / "docs/.theme/main.html").write_text("in a hidden folder")
    heard.hears("docs/.theme/main.html")
    (root / "docs/new/below").mkdir(parents=True)
    (root / "docs/new/below/page.md").write_text("in a new folder")
    heard.hears("docs/new/below/page.md")
    (root / "docs/new/below/page.md").write_text("and again")
    heard.hears("docs/new/below/page.md")
    (root / "docs/index.md").rename(root / "docs/home.md")
    heard.hears("docs/home.md")
    (root / "docs/home.md").unlink()
    heard.hears("docs/home.md")
    (root / "docs/linked/far.md").write_text("through a link")
    heard.hears("docs/linked/far.md")
    (root / "docs/more").rename(root / "gone")
    heard.hears("docs/more")


def test_a_watched_file_may_be_replaced(heard):
    for text in ("once", "twice"):
        replaced(heard.root / "mkdocs.yml", text)
        heard.hears("mkdocs.yml")
    (heard.root / "mkdocs.yml").rename(heard.root / "mkdocs.yml~")
    time.sleep(QUIET_S)
    (heard.root / "mkdocs.yml").write_text("as vim saves, but slowly")
    heard.hears("mkdocs.yml")
    (heard.root / "beside.yml").write_text("another file of its folder")
    (heard.root / "mkdocs.yml").write_text("last")
    assert "beside.yml" not in heard.hears("mkdocs.yml")


def test_what_a_build_and_an_editor_do_beside_is_not_heard(heard):
    page, cache = heard.root / "docs/index.md", heard.root / "docs/.theme/__pycache__"
    for path in heard.root.rglob("*.md"):
        path.read_text()
    list(page.parent.iterdir())
    cache.mkdir()
    for name in ("hook.cpython-311.pyc.140234", "hook.cpython-311.pyc"):  # Python writes the first and renames it
        (cache / name).write_bytes(b"compiled")
    shutil.rmtree(cache)
    for name in (".index.md.swp", "4913", "index.md~", "#index.md#", ".index.json.x1.tmp"):
        (page.parent / name).write_text("beside")
        (page.parent / name).unlink()
    (page.parent / "empty").mkdir()
    time.sleep(QUIET_S)
    assert heard.names == []
    page.write_text("and then a save")
    heard.hears("docs/index.md")


def test_what_is_not_watched_any_more_is_not_heard(heard):
    heard.watcher.unschedule(heard.folder)
    (heard.root / "docs/index.md").write_text("unheard")
    (heard.root / "mkdocs.yml").write_text("heard")
    assert "docs/index.md" not in heard.hears("mkdocs.yml")
    (heard.root / "docs/index.md").write_text("unheard")
    time.sleep(QUIET_S)
    assert "docs/index.md" not in heard.names  # the other one may be heard of once more, and late


LIMITED = """
import sys, time
from pathlib import Path
from watchdog.events import FileSystemEventHandler
from kernels.lessons.watching import Watcher
import logging

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
root, names = Path(sys.argv[1]), []
handler = FileSystemEventHandler()
handler.on_any_event = lambda event: names.append(Path(event.src_path).name)
watcher = Watcher()
watcher.schedule(handler, str(root))
watcher.start()
until = time.monotonic() + 400
(root / "7/page.md").write_text("after")
while not names and time.monotonic() < until:
    time.sleep(0.1)
print(sorted(set(names)))
"""


def test_where_the_system_has_no_room_all_folders_are_looked_at(tmp_path):
    """In a user namespace of its own, where the limit can be set: the fourth folder has no place any more."""
    for number in range(10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "page.md").write_text("before")
    limit = "echo 4 > /proc/sys/user/max_inotify_watches"
    within = ["unshare", "--user", "--map-root-user", "sh", "-ec", f'{limit}; exec "$@"', "sh"]
    try:
        allowed = subprocess.run([*within, "true"], capture_output=True, timeout=500)
    except FileNotFoundError:
        pytest.skip("there is no unshare here to set a limit with")
    if allowed.returncode:
        pytest.skip(f"no user namespace may be made here: {allowed.stderr.decode().strip()}")
    path = os.pathsep.join([str(Path(kernels.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*within, sys.executable, "-c", LIMITED, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=500,
    )
    said, _, names = done.stdout.strip().rpartition("\n")
    assert done.returncode == 0, done.stderr
    assert "The system does not tell of saved files" in said
    assert ast.literal_eval(names) == ["page.md"]


@pytest.mark.parametrize("kind", ["9p", "fuse.sshfs", "nfs4", "ext4"])
def test_a_network_s_folders_are_looked_at(tmp_path, monkeypatch, kind):
    monkeypatch.delenv("LESSONS_POLL", raising=False)
    monkeypatch.setattr(watching, "file_system", lambda folder: kind)
    assert watching.must_look(tmp_path) == (kind != "ext4")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list their file systems in /proc")
def test_the_file_system_of_a_folder_is_that_of_the_last_mount_above_it():
    assert watching.file_system(Path("/proc/self")) == "proc"
    assert watching.file_system(Path("/")) not in ("", "proc")
