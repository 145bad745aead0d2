"""The theme's templates, kept for as long as a live preview lasts: an edit of a page does not read a theme again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader


class KeptTemplates:
    """Gives every build the same environment; a template that was edited is compiled again."""

    def __init__(self, root: Path) -> None:
        self._root = str(root.resolve())
        self._made: tuple[list[str], Environment] | None = None

    def environment(self, make: Callable[[], Environment], folders: list[str]) -> Environment:
        """The environment of an earlier build with these folders, or a new one, which later builds will get."""
        if self._made is None or self._made[0] != folders:
            made = make()
            made.auto_reload = True
            made.loader = _Folders(folders, self._root)
            self._made = list(folders), made
        return self._made[1]


class _Folders(FileSystemLoader):
    """Lists the folders of an installed theme once (an icon set has thousands of files), the project's every time."""

    def __init__(self, folders: list[str], root: str) -> None:
        super().__init__(folders)
        self._root = root
        self._listed: dict[str, list[str]] = {}

    def list_templates(self) -> list[str]:
        found: set[str] = set()
        for folder in map(os.fspath, self.searchpath):
            own = folder.startswith(self._root + os.sep) and "site-packages" not in folder
            if own or folder not in self._listed:
                self._listed[folder] = _files_of(folder)
            found.update(self._listed[folder])
        return sorted(found)


def _files_of(folder: str) -> list[str]:
    """Paths below a folder, without hidden ones: those are no part of a site."""
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name).relative_to(folder).as_posix() for name in files if not name.startswith(".")]
    return found
