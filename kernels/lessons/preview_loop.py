"""The loop of a live preview: a saved page is built and shown, then the others follow, while readers go on reading."""

from __future__ import annotations

import errno
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from kernels.lessons.keys import heard
from kernels.lessons.preview import Preview

log = logging.getLogger("mkdocs.plugins.lessons")

_OTHERS_AFTER_S = 0.3
_PATIENCE_S = 120.0  # for a page that is asked for and not there yet


class EditedFirst:
    """Goes before a live reload server among the bases of a class, and takes the place of its loop.

    A page is answered as it was last shown, also while another build runs; one that nobody has seen is built when a
    browser asks for it. A browser is told to load again when the page that it shows does not look as before, and when
    something was saved that is no page, as a style sheet is. A build that fails leaves what is shown. What can wait, as
    an exercise, stops no build: it has its turn after that.
    """

    _preview = Preview()
    _accept = staticmethod(lambda: None)
    _asked_to_accept = False
    _failures = 0
    """How many builds have failed."""
    _epochs: Mapping[str, int] = MappingProxyType({})
    """When pages that look different were last shown, by their names."""
    _of_all = 0
    """When something was last shown that is no page."""
    _paths: tuple[Path, ...] = ()
    """What was saved since the build began."""

    def follow(self, preview: Preview, accept: Callable[[], None]) -> None:
        """Let a build render the edited page only, as another comes after it. `accept` is called for the key a."""
        self._preview, self._accept = preview, accept
        preview.turns.stepwise = True
        preview.saved = lambda: (
            (self._want_rebuild and not self._can_wait(self._paths))
            or (self._asked_to_accept and not preview.turns.now.waited_for)  # somebody waits for that page, too
        )

    def note(self, path: Path) -> None:
        """Remember what was saved; that something was is told apart, and later."""
        with self._rebuild_cond:
            self._paths = (*self._paths, path)

    def hear(self, key: str) -> None:
        """Remember that the key a was pressed; the loop answers between two builds, and what can wait makes way."""
        if key == "a":
            with self._rebuild_cond:
                self._asked_to_accept = True
                self._rebuild_cond.notify_all()

    def wait_for_page(self, address: str) -> None:
        """A browser asks for a file of the site. If it is a page that nobody has seen, it comes next."""
        name = self._preview.open(address)
        if self._preview.turns.called:
            with self._rebuild_cond:
                self._rebuild_cond.notify_all()
        if name:
            with self._epoch_cond:
                failures = self._failures
                self._epoch_cond.wait_for(
                    lambda: self._preview.is_shown(name) or self._failures > failures or self._shutdown, _PATIENCE_S
                )

    def epoch_of(self, address: str) -> int:
        """When a page, or something that every page may show, was last shown anew."""
        return max(self._of_all, self._epochs.get(self._preview.addresses.get(address, address), 0))

    def _build_loop(self) -> None:
        with heard(self.hear) as keys:
            if keys:
                log.info("Press a to accept what the pages show, Control-C to end.")
            self._build_again_and_again()

    def _build_again_and_again(self) -> None:
        failed = told = False
        while True:
            with self._rebuild_cond:
                follows = self._preview.behind() and not failed
                if not (follows or failed or told or self._want_rebuild):
                    log.info("All pages are up to date%s.", _of_those_that_rest(self._preview.waiting()))
                    told = True
                while not (self._want_rebuild or self._shutdown or self._asked_to_accept or self._preview.turns.called):
                    self._rebuild_cond.wait(timeout=_OTHERS_AFTER_S if follows else self.shutdown_delay)
                    if follows:
                        break
                if self._shutdown:
                    return
                asked, self._asked_to_accept = self._asked_to_accept, False
                edited, self._want_rebuild = self._want_rebuild, False
                while edited and self._rebuild_cond.wait(timeout=self.build_delay):
                    self._want_rebuild = False
                unseen = self._can_wait(self._paths)  # what was saved is shown nowhere but on pages
                self._paths = ()
            began = time.perf_counter()
            if asked and not edited:
                self._accept()
                continue
            if asked:
                log.info("Nothing is accepted: a file was saved in between. Look, and press a again.")
            built, told = self._built(), False
            failed = built is False
            if built is None:
                continue
            with self._epoch_cond:
                if failed:
                    self._failures += 1
                elif self._preview.repainted or (edited and not unseen):
                    self._visible_epoch = self._wanted_epoch = _now()  # equal, or requests wait for the build's end
                    self._epochs = {**self._epochs} | dict.fromkeys(self._preview.repainted, self._visible_epoch)
                    if not self._preview.repainted:
                        self._of_all = self._visible_epoch
                self._epoch_cond.notify_all()
            if not failed:
                self._tell(time.perf_counter() - began, edited)

    def _can_wait(self, paths: tuple[Path, ...]) -> bool:
        return bool(paths) and all(self._preview.can_wait(path) for path in paths)

    def _tell(self, seconds: float, edited: bool) -> None:
        names = self._preview.rendered
        if names:
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            log.info("%s %s after %.2f s", some, "shown" if edited else "followed", seconds)

    def _built(self) -> bool | None:
        """Whether a build came to its end; None where one must begin again."""
        try:
            self.builder()
        except Exception as error:
            if why := _why(error):
                log.error(why)
            elif isinstance(error, FileNotFoundError) and self._want_rebuild:  # renamed, say: the next build sees that
                log.info("%s was gone before it was read; now again.", error.filename)
                return None
            else:
                traceback.print_exc()
            log.error("An error ended the build; what is shown is what was built before.")
            return False
        return True


def _why(error: Exception) -> str:
    """What ended a build, in a sentence; "" where nobody knows it without a traceback."""
    if isinstance(error, SystemExit | click.ClickException):  # the site generator has a sentence of its own
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}; make room, and save again."
    return ""


def _of_those_that_rest(count: int) -> str:
    pages = f"{count} pages show" if count > 1 else "1 page shows"
    return f"; {pages} what was accepted, and blocks that have not run here run when you open the page" if count else ""


def _now() -> int:
    return round(time.monotonic() * 1000)
