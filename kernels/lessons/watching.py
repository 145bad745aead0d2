"""Tells a live preview that a file was saved: where the system tells of that, it listens, and elsewhere it looks."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserverVFS

log = logging.getLogger("mkdocs.plugins.lessons")

LOOK_S = 0.5
_SAVES = [
    events.FileCreatedEvent,
    events.FileModifiedEvent,
    events.FileMovedEvent,
    events.FileDeletedEvent,
    events.FileClosedEvent,  # after it was written
    events.DirDeletedEvent,  # also when it is moved away with all that is in it
]
"""What is listened to. A build opens and reads every file: to hear of that as well would be work for nothing."""
_LEFT_BESIDE = ("~", "#", ".tmp", ".swp", ".pyc")
# What another system writes there, nobody tells: Windows below WSL, the host of a virtual machine, a file server.
_UNTOLD = ("9p", "afs", "ceph", "cifs", "drvfs", "fuse", "nfs", "prl_fs", "smb", "vboxsf", "virtiofs")


class Watcher:
    """What a live reload server calls of an observer, over two of them: one listens and one looks."""

    def __init__(self, tell: Callable[[Path], None] = lambda path: None) -> None:
        """`tell` hears the path of what was saved, before its handler hears that something was."""
        self._tell = tell
        self._looks: BaseObserver = PollingObserverVFS(os.stat, _entries, polling_interval=LOOK_S)
        self._listens: BaseObserver | None = None
        self._started = False
        self._watched: list[_Watched] = []

    def schedule(self, handler: events.FileSystemEventHandler, path: str, *, recursive: bool = True) -> _Watched:
        """Hand what is saved below a folder, or to one file, to `handler`; returns what `unschedule` takes."""
        if Path(path).is_dir():
            watched = _Watched(_Saves(handler, self._tell), path, recursive)
        else:  # its folder: many editors put another file in its place, and what watches the first goes with it
            watched = _Watched(_Saves(handler, self._tell, only=Path(path).name), str(Path(path).parent), False)
        self._watched.append(watched)
        if self._started:
            self._watch(watched)
        return watched

    def unschedule(self, watched: _Watched) -> None:
        """Undo `schedule`."""
        watched.saves.handler = None
        self._watched.remove(watched)

    def start(self) -> None:
        """Begin. Where the system has no room for so many folders, all of them are looked at.

        Raises:
            OSError: a folder is not there.
        """
        self._started = True
        self._looks.start()
        try:
            self._listens = Observer()
            self._listens.start()
            self._watch(*self._watched)
            if sys.platform == "linux":
                _watch_one_more(self._listens)
        except OSError as error:
            why = error.strerror or error
            log.info("The system does not tell of saved files (%s): they are looked at every %s s.", why, LOOK_S)
            if self._listens is not None:
                self._listens.stop()
            self._listens = None
            self._watch(*self._watched)

    def stop(self) -> None:
        """End."""
        for each in self._observers():
            each.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end."""
        for each in self._observers():
            if each.is_alive():
                each.join(timeout)

    def _observers(self) -> list[BaseObserver]:
        return [self._looks] if self._listens is None else [self._looks, self._listens]

    def _watch(self, *watched: _Watched) -> None:
        for each in watched:
            looks = self._listens is None or must_look(Path(each.folder))
            observer = self._looks if looks else self._listens
            observer.schedule(
                each.saves, each.folder, recursive=each.recursive, event_filter=_SAVES, follow_symlink=True
            )


class _Saves(events.FileSystemEventHandler):
    """Passes saves on, but not those of what editors and Python write beside a file.

    A folder that is gone is passed on as a file, since MkDocs does not listen to folders.
    """

    def __init__(self, handler: events.FileSystemEventHandler, tell: Callable[[Path], None], only: str = "") -> None:
        self.handler: events.FileSystemEventHandler | None = handler
        self.tell = tell
        self.only = only

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        paths = [Path(os.fsdecode(path)) for path in (event.src_path, event.dest_path) if path]
        saved = [path for path in paths if is_page_or_code(path) and self.only in ("", path.name)]
        if saved and self.handler is not None:
            for path in saved:
                self.tell(path)
            self.handler.on_any_event(events.FileDeletedEvent(event.src_path) if event.is_directory else event)


@dataclass(frozen=True, eq=False)
class _Watched:
    saves: _Saves
    folder: str
    recursive: bool


def is_page_or_code(path: Path) -> bool:
    """Whether a file, by its name, may be shown or run: no hidden one, no copy that an editor or Python makes."""
    beside = path.name.startswith((".", "#")) or path.name.endswith(_LEFT_BESIDE)
    return not beside and path.name != "4913" and "__pycache__" not in (path.name, path.parent.name)  # 4913: vim's try


def _entries(folder: str | None) -> Iterator[os.DirEntry]:
    with os.scandir(folder) as entries:
        return iter([each for each in entries if each.name != "__pycache__"])


def _watch_one_more(observer: BaseObserver) -> None:
    """OSError where the limit on watched folders is reached: those below a folder are left out without a word."""
    with tempfile.TemporaryDirectory() as folder:
        observer.unschedule(observer.schedule(events.FileSystemEventHandler(), folder))


def must_look(folder: Path) -> bool:
    """Whether nothing tells of what is saved below a folder: its file system is of such a kind, or LESSONS_POLL=1."""
    return os.environ.get("LESSONS_POLL", "0") not in ("", "0") or file_system(folder).startswith(_UNTOLD)


def file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on, as in ext4; "" where the system does not list them."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    folder, longest, kind = folder.resolve(), -1, ""
    for line in lines:  # number, parent, device, root, mount point, options …, "-", kind, …
        before, _, after = line.partition(" - ")
        place = before.split(" ")[4].replace("\\040", " ")
        if len(place) >= longest and folder.is_relative_to(place):
            longest, kind = len(place), after.split(" ")[0]
    return kind
