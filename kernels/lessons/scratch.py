"""A place to try things: a branch `scratch/NAME` in a git worktree of its own, made whole or not at all.

The worktree lies beside the project, in `../<project>-scratch/NAME`, and not in a folder that git ignores: `git clean`
does not reach it there, and neither do the project's own tools, which walk its folders.

Nothing of the caller's working tree, index or HEAD is touched. The files of the scratch are written as git objects
through an index of their own, a worktree of that commit is made under another name beside its place, and last it is
renamed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernels.lessons.locks import ended_by_signals, is_alive

_PART = ".part-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:[./][A-Za-z0-9_-]+)*(?:/[a-z0-9][a-z0-9-]*)?")


class Refused(Exception):
    """No scratch branch is made; the message says why, and what to do."""


@dataclass(frozen=True)
class Made:
    """What was made. `folder` holds the project's files of the branch."""

    branch: str
    folder: Path
    worktree: Path
    commit: str
    base: str
    """The commit that `commit` adds files to: the last one of the caller's branch."""
    uncommitted: int
    """Files of the caller's tree that differ from the last commit, and stay as they are."""


class Repository:
    """The git repository that a project lies in.

    Raises:
        Refused: git is not installed, or there is no repository with a working tree and a commit here.
    """

    def __init__(self, project: Path) -> None:
        self.project = project.resolve()
        if shutil.which("git") is None:
            raise Refused("git is not installed here, or not on the PATH; a scratch branch needs it")
        if self._ask("rev-parse", "--is-bare-repository") == "true":
            raise Refused(f"{self.project} is a bare repository, without files to work on: clone it, and ask there")
        inside = self._run("rev-parse", "--show-toplevel")
        if inside.returncode:
            why = inside.stderr.strip().partition("\n")[0].removeprefix("fatal: ")
            raise Refused(
                f"{self.project} is in no git repository that can be used ({why}); "
                "a scratch branch needs one: git init && git add --all && git commit -m Start"
            )
        self.top = Path(inside.stdout.rstrip("\n"))
        self.prefix = self._ask("rev-parse", "--show-prefix").rstrip("/")
        self.head = self._ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if not self.head:
            raise Refused("this repository has no commit yet, and a branch begins at one: git commit first")

    def text(self, path: str) -> str | None:
        """A file of the project as it is in the last commit, or None."""
        done = self._run("show", f"{self.head}:{self._inside(path)}")
        return None if done.returncode else done.stdout

    def names(self, folder: str) -> list[str]:
        """The files of a folder of the project in the last commit."""
        listed = self._run("ls-tree", "--name-only", "-z", self.head, f"{self._inside(folder)}/", cwd=self.top)
        return [PurePosixPath(path).name for path in listed.stdout.split("\0") if path]

    def uncommitted(self) -> int:
        """How many files differ from the last commit, untracked ones included. Does not refresh the index."""
        listed = self._run("--no-optional-locks", "status", "--porcelain", "-z", "--untracked-files=all")
        return sum(bool(entry[:2].strip()) and entry[2:3] == " " for entry in listed.stdout.split("\0"))

    def default_folder(self, name: str) -> Path:
        """Beside the repository's working tree: `../<its name>-scratch/NAME`."""
        return self.top.parent / f"{self.top.name}-scratch" / name

    def make(self, name: str, files: dict[str, str], folder: Path | None = None) -> Made:
        """Make the branch `scratch/NAME` with `files` (paths below the project) in a worktree of its own.

        Raises:
            Refused: the name is odd, the branch or the folder exists, or git or the disk could not do it. Then
                nothing of it is left.
        """
        if not _NAME.fullmatch(name) or ".." in name or name.endswith(".lock"):
            raise Refused(f"{name!r} cannot name a branch and a folder: letters, digits, _ - . and / between them")
        branch = f"scratch/{name}"
        final = Path(os.path.abspath(folder or self.default_folder(name)))  # noqa: PTH100 (a link stays a link)
        self._refuse_what_exists(branch, final)
        created = _missing_parents(final)
        part = final.parent / f"{_PART}{os.getpid()}" / final.name
        with ended_by_signals():
            try:
                commit = self._commit(files, f"Scratch: {name}")
                part.parent.mkdir(parents=True)
                self._do("worktree", "add", "--quiet", "--detach", str(part), commit)
                self._do("checkout", "--quiet", "-b", branch, cwd=part)
                _settle(part, final)
                part.parent.rmdir()
            except BaseException as error:
                self._remove(part.parent)
                for parent in created:
                    with contextlib.suppress(OSError):
                        parent.rmdir()
                if isinstance(error, OSError):
                    raise Refused(
                        f"{final} cannot be made ({error.strerror}); --folder chooses another place"
                    ) from None
                raise
        return Made(branch, final / self.prefix, final, commit, self.head, self.uncommitted())

    def _refuse_what_exists(self, branch: str, final: Path) -> None:
        for part in final.parent.glob(f"{_PART}*"):  # left by one that was killed
            process = part.name.removeprefix(_PART)
            if process.isdecimal() and not is_alive(int(process)):
                self._remove(part)
        if not self._run("show-ref", "--verify", "--quiet", "refs/heads/scratch").returncode:
            raise Refused("a branch named 'scratch' is in the way of scratch/…: git branch --move scratch scratch-old")
        if not self._run("show-ref", "--verify", "--quiet", f"refs/heads/{branch}").returncode:
            where = self._worktree_of(branch)
            if where and where.exists():
                raise Refused(f"the branch {branch} exists already; go on with it: cd {where}")
            prune = "git worktree prune && " if where else ""
            raise Refused(
                f"the branch {branch} exists already, without a folder; go on with it: "
                f"{prune}git worktree add {final} {branch}"
            )
        if os.path.lexists(final):
            raise Refused(
                f"{final} exists already, and is never written over; "
                "look into it, move it away, or choose another place with --folder"
            )

    def _worktree_of(self, branch: str) -> Path | None:
        for entry in self._run("worktree", "list", "--porcelain").stdout.split("\n\n"):
            lines = entry.split("\n")
            if f"branch refs/heads/{branch}" in lines:
                return Path(lines[0].removeprefix("worktree "))
        return None

    def _commit(self, files: dict[str, str], message: str) -> str:
        """A commit on top of the last one with `files` added, on no branch yet."""
        with tempfile.TemporaryDirectory(prefix="lessons-scratch-") as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            self._do("read-tree", self.head, more=index)
            for path, text in files.items():
                blob = self._do("hash-object", "-w", "--stdin", given=text)
                self._do("update-index", "--add", "--cacheinfo", f"100644,{blob},{self._inside(path)}", more=index)
            tree = self._do("write-tree", more=index)
        who = {}
        if self._run("var", "GIT_COMMITTER_IDENT").returncode:  # nobody has said who commits here
            for role in ("AUTHOR", "COMMITTER"):
                who |= {f"GIT_{role}_NAME": "lessons scratch", f"GIT_{role}_EMAIL": "scratch@localhost"}
        return self._do("commit-tree", tree, "-p", self.head, "-m", message, more=who)

    def _remove(self, part_folder: Path) -> None:
        """Take back what is unfinished: its files, what git noted of it, and its branch."""
        known = Path(self.project, self._ask("rev-parse", "--git-common-dir") or ".git").resolve() / "worktrees"
        noted = [_administration(part) for part in part_folder.glob("*")]
        noted += [
            each.parent for each in known.glob("*/gitdir") if str(part_folder) in each.read_text(encoding="utf-8")
        ]
        for administration in {each.resolve() for each in noted if each is not None}:
            if administration.parent != known:
                continue
            with contextlib.suppress(OSError):
                head = (administration / "HEAD").read_text(encoding="utf-8").removeprefix("ref:").strip()
                shutil.rmtree(administration)
                if head.startswith("refs/heads/scratch/"):
                    self._run("branch", "--delete", "--force", head.removeprefix("refs/heads/"))
        shutil.rmtree(part_folder, ignore_errors=True)

    def _inside(self, path: str) -> str:
        return f"{self.prefix}/{path}" if self.prefix else path

    def _ask(self, *command: str) -> str:
        done = self._run(*command)
        return "" if done.returncode else done.stdout.strip()

    def _do(self, *command: str, **named) -> str:
        done = self._run(*command, **named)
        if done.returncode:
            said = " ".join(done.stderr.split()).removeprefix("fatal: ") or f"exit status {done.returncode}"
            raise Refused(f"git {command[0]} failed, and nothing was made: {said}")
        return done.stdout.strip()

    def _run(
        self, *command: str, cwd: Path | None = None, given: str | None = None, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        # A hook, or a git command that calls this one, names its own repository and index in the environment.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key in _KEPT}
        settings = (
            "-c",
            f"core.hooksPath={os.devnull}",
            "-c",
            "commit.gpgSign=false",
            "-c",
            "worktree.useRelativePaths=false",
        )
        return subprocess.run(
            ["git", *settings, *command],
            cwd=cwd or self.project,
            env=environment | {"LC_ALL": "C"} | (more or {}),
            input=given,
            stdin=None if given is not None else subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )


_KEPT = {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
         "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
         "GIT_CEILING_DIRECTORIES"}  # fmt: skip


def _settle(part: Path, final: Path) -> None:
    """Give a finished worktree its place: git is told where its `.git` file will lie, then all of it appears at once.

    `git worktree move` would do it, and refuses where the repository has submodules.
    """
    (_administration(part) / "gitdir").write_text(f"{final / '.git'}\n", encoding="utf-8")
    part.rename(final)


def _administration(worktree: Path) -> Path | None:
    """The folder in which git keeps what it knows of a worktree, None where that is not to be read."""
    try:
        text = (worktree / ".git").read_text(encoding="utf-8")
    except OSError:
        return None
    return worktree / text.removeprefix("gitdir:").strip()


def _missing_parents(path: Path) -> list[Path]:
    """The folders above `path` that are not there yet, the innermost first."""
    found = []
    for parent in path.parents:
        if parent.exists():
            break
        found.append(parent)
    return found
