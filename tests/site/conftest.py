"""The site as readers meet it: two versions published with mike, served as plain files, read with Chromium."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from site_host import NEW, OLD, ROOT, Host

sys.path.insert(0, str(ROOT / "scripts"))
from site_browser import NoBrowser
from site_browser import chromium as started


@dataclass
class Deployed:
    """The published branch."""

    host: Host
    files: Path
    versions_after_first: str

    def url(self, path: str = "") -> str:
        return self.host.url + path


def pytest_collection_modifyitems(items) -> None:
    """The first test that reads the published site waits for two builds of it."""
    for item in items:
        if "deployed" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def deployed(tmp_path_factory) -> Iterator[Deployed]:
    """Two versions deployed into a repository of their own; the project's checkout is only read."""
    if made := os.environ.get("SITE_TEST_FILES"):  # a published branch that lies there already: this takes minutes
        host = Host(Path(made))
        yield Deployed(host, Path(made), "[]")
        return host.stop()
    work = tmp_path_factory.mktemp("site")
    repository, files = work / "repository", work / "files"
    for folder in (repository, files):
        folder.mkdir()
    host = Host(files)
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in
           (("NAME", "Site test"), ("EMAIL", "site@test.invalid"))}  # fmt: skip
    environment = os.environ | who | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SITE_URL": host.url, "SITE_DIR": str(work / "built"), "LESSONS_MODE": "run", "NO_MKDOCS_2_WARNING": "1",
    }  # fmt: skip
    environment.pop("TRITON_INTERPRET", None)  # other tests set it for their own process

    def call(*command: object) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=800,
        )
        assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-6000:]}{done.stderr[-12000:]}"
        return done.stdout

    config = ("--config-file", ROOT / "mkdocs.yml")
    try:
        call("git", "init", "--quiet", "--initial-branch=main")
        call("git", "commit", "--quiet", "--allow-empty", "--message=Start")
        call("mike", "deploy", *config, "--update-aliases", OLD, "latest")
        first = call("git", "show", "gh-pages:versions.json")
        call("mike", "set-default", *config, "latest")
        call("mike", "deploy", *config, "--update-aliases", NEW, "latest")
        call("bash", ROOT / "scripts" / "publish_404.sh")
        call("git", "archive", "--output", work / "branch.tar", "gh-pages")
        shutil.unpack_archive(work / "branch.tar", files, filter="data")
        yield Deployed(host, files, first)
    finally:
        host.stop()


@pytest.fixture(scope="session")
def chromium():
    """Chromium from the system, through Playwright. It waits long for a page: a limit is against hanging alone."""
    with contextlib.ExitStack() as open_until_the_end:
        try:
            browser = open_until_the_end.enter_context(started())
        except NoBrowser as missing:
            if os.environ.get("REQUIRE_CHROMIUM") == "1":
                pytest.fail(f"{missing} REQUIRE_CHROMIUM=1 forbids skipping this.")
            pytest.skip(f"The site is not looked at in a browser. {missing}")
        make = browser.new_context

        def patient(**named):
            context = make(**named)
            context.set_default_timeout(120_000)
            return context

        browser.new_context = patient
        yield browser


@dataclass
class Reading:
    """One page in one window, and everything that went wrong in it."""

    page: object
    console: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


@pytest.fixture
def read(chromium, deployed):
    """`with read(path, scheme, width) as reading`: opens a page of the site; no request leaves the machine."""

    @contextmanager
    def reading(path: str, scheme: str = "light", width: int = 1280, **named) -> Iterator[Reading]:
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}, **named)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=deployed.host.origin)
        page = context.new_page()
        found = Reading(page)

        def route(request) -> None:
            if request.request.url.startswith((deployed.host.origin + "/", "data:", "blob:")):
                request.continue_()
            else:
                found.outside.append(request.request.url)
                request.abort()

        context.route("**/*", route)
        page.on("console", lambda m: found.console.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: found.console.append(str(error)))
        page.on("response", lambda r: found.failed.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        try:
            page.goto(deployed.url(path), wait_until="networkidle")
            yield found
        finally:
            context.close()

    return reading
