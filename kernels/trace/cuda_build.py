"""Compiles translated CUDA sources with the host's C++ compiler and keeps the libraries under `build/host/`.

Instrumentation: `-fsanitize=thread` puts a call before every access to memory that threads could share. Optimisations
that merge, drop, split or invent accesses are switched off, so that each access in the source is one call; the rest of
-O1 stays, which keeps locals in registers and loops fast.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernels.sources.closure import project_root
from kernels.sources.processes import TooLong, answered

ASKED_S = 20.0  # for a compiler to say which one it is
_COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fcf-protection=none")
_KERNELS = (
    "-g", "-w", "-fsanitize=thread", "-fno-strict-aliasing", "-fwrapv", "-fno-optimize-sibling-calls",
    "-fno-delete-null-pointer-checks", "-fno-builtin-memcpy", "-fno-builtin-memset", "-fno-builtin-memmove",
)  # fmt: skip
# Shared arrays are thread-local variables without initial values. g++ may call a function that would initialise an
# `extern` one, from a template even where there is none.
_SHARED_GCC = ("-fno-extern-tls-init",)
_KERNELS_GCC = (
    "-O1", "-fno-gnu-unique", *_SHARED_GCC, "--param", "tsan-instrument-func-entry-exit=0",
    "-fno-tree-sra", "-fno-tree-fre", "-fno-tree-pre", "-fno-tree-dominator-opts", "-fno-tree-loop-im", "-fno-tree-dse",
    "-fno-tree-sink", "-fno-tree-phiprop", "-fno-ssa-phiopt", "-fno-tree-loop-if-convert", "-fno-store-merging",
    "-fno-allocation-dce", "-fstack-clash-protection",
)  # fmt: skip
_KERNELS_CLANG = (
    "-O0",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-instrument-read-before-write=1",
    "-mllvm",
    "-tsan-distinguish-volatile=1",
)
SHARED_GAP = 256  # bytes at least behind a shared array
_SECTION = re.compile(r"\s*\.(?:(?:push|pop)?section\b|text\b|data\b|bss\b|previous\b)")
_WINDOWS = (
    "the traced host build of CUDA kernels runs on Linux and macOS; on Windows use it inside WSL (`wsl --install`)"
)
_ELSEWHERE = "the traced host build of CUDA kernels runs on Linux and macOS; this is {}"


class HostCompilerMissing(RuntimeError):
    """There is no C++ compiler for the host build. The message says how to get one."""


class Unavailable(RuntimeError):
    """The host build does not exist for this operating system."""


class CompileFailed(RuntimeError):
    """The host compiler refused a source; the message carries its first errors."""


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler: `family` is "g++" or "clang++", `version` its full version."""

    path: str
    family: str
    version: str

    @property
    def kernel_flags(self) -> tuple[str, ...]:
        """For traced kernels. Compilers before g++ 11 report a volatile access as any other."""
        if self.family != "g++":
            return (*_COMMON, *_KERNELS, *_KERNELS_CLANG)
        old = int(self.version.partition(".")[0]) < 11
        return (*_COMMON, *_KERNELS, *_KERNELS_GCC, *(() if old else ("--param", "tsan-distinguish-volatile=1")))

    @property
    def plain_flags(self) -> tuple[str, ...]:
        """For kernels that nobody records: to know what recording costs."""
        shared = _SHARED_GCC if self.family == "g++" else ()
        return (*_COMMON, "-w", "-O2", "-fno-strict-aliasing", "-fwrapv", *shared)

    @property
    def runtime_flags(self) -> tuple[str, ...]:
        return (*_COMMON, "-O2")


def why_not() -> str | None:
    """None where CUDA kernels can be traced on this machine, else a sentence that says why not."""
    try:
        host_compiler()
    except (Unavailable, HostCompilerMissing) as problem:
        return str(problem)
    return None


def host_compiler() -> HostCompiler:
    """The C++ compiler to use: `CXX` if set, else g++, else clang++. Raises HostCompilerMissing or Unavailable."""
    if sys.platform == "win32":
        raise Unavailable(_WINDOWS)
    if not sys.platform.startswith(("linux", "darwin")):
        raise Unavailable(_ELSEWHERE.format(sys.platform))
    return _describe(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _describe(named: str, path: str) -> HostCompiler:
    for name in [named] if named else ["g++", "clang++"]:
        found = shutil.which(name, path=path)
        if found is None:
            continue
        try:
            done = answered([found, "-dM", "-E", "-x", "c++", os.devnull], ASKED_S)
        except (TooLong, OSError):
            continue
        macros = dict(re.findall(r"^#define (\w+) (.+)$", done.stdout, re.M))
        for family, stem in (("clang++", "__clang_{}__"), ("g++", "__GNUC{}__")):
            words = ("major", "minor", "patchlevel") if family == "clang++" else ("", "_MINOR", "_PATCHLEVEL")
            parts = [stem.format(word) for word in words]
            if all(part in macros for part in parts):
                return HostCompiler(found, family, ".".join(macros[part] for part in parts))
    if named:
        raise HostCompilerMissing(f"CXX names {named}, which is not a g++ or clang++ that runs; correct it or unset it")
    raise HostCompilerMissing(
        "tracing CUDA kernels needs a C++ compiler, and there is no g++ or clang++ on PATH; "
        "install one, for example with `apt-get install g++`"
    )


def build_folder() -> Path:
    """Where libraries are kept: `build/host/` of the project, or the user's own folder where that cannot be written."""
    folder = project_root() / "build" / "host"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    folder = Path(tempfile.gettempdir()) / f"kernel-lessons-host-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; set TMPDIR to a folder of your own")
    return folder


def host_sources() -> Path:
    """The folder of the shim headers and the runtime."""
    return project_root() / "cuda" / "host"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # the lock goes when the file closes, also when the process is killed


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OURS = (errno.EROFS, errno.EACCES, errno.EPERM)
_LEFT_BEHIND_S = 60  # a younger folder may belong to a process that has not locked it yet


@contextmanager
def _writing() -> Iterator[None]:
    """CompileFailed, with what to do, where there is no room for a library or no right to write it."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in (*_NO_ROOM, *_NOT_OURS):
            raise
        where = problem.filename or "its folder"
        raise CompileFailed(_not_written(where, problem.strerror, problem.errno in _NO_ROOM)) from problem


def _not_written(where: object, why: str, full: bool) -> str:
    mend = "make room on that disk" if full else "make that folder writable"
    return f"the library of the kernels cannot be written: {where}: {why}; {mend}, and trace again"


@contextmanager
def _making(folder: Path) -> Iterator[Path]:
    """A folder to compile in, locked as long as it is used. Those of processes that were killed are removed first."""
    import fcntl

    for old in folder.glob("making-*"):
        with suppress(OSError):  # another process is compiling there, or was quicker to remove it
            if time.time() - old.stat().st_mtime < _LEFT_BEHIND_S:
                continue
            with _opened(old) as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)
    made = tempfile.TemporaryDirectory(dir=folder, prefix="making-", ignore_cleanup_errors=True)
    with made as name, _opened(Path(name)) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield Path(name)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    held = os.open(folder, os.O_RDONLY)
    try:
        yield held
    finally:
        os.close(held)


def _key(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:20]


@_writing()
def build(
    text: str,
    shown: str,
    include: Path | None = None,
    traced: bool = True,
    translated: Sequence[tuple[str, str]] = (),
) -> Path:
    """The shared library of a translated source, compiled if it is not there yet.

    `shown` is the name that the debug information gives the source, relative to nothing. `include` is the folder of the
    original, for its own headers; `translated` are those of them that were rewritten. Where `traced` is False, no
    access is recorded. The library's name is a hash of the text, the headers, the shim, the compiler's version and the
    flags. CompileFailed with the compiler's first errors, or where the library cannot be written.
    """
    compiler = host_compiler()
    flags = compiler.kernel_flags if traced else compiler.plain_flags
    folder = build_folder()
    shim = host_sources()
    headers = _digest(sorted(shim.rglob("*.h")))
    local = _digest(sorted([*include.glob("*.h"), *include.glob("*.cuh")])) if include else ""
    runtime = _runtime_objects(compiler, folder, shim, headers)
    key = _key(
        text,
        shown,
        local,
        *(part for header in translated for part in header),
        *runtime,
        compiler.family,
        compiler.version,
        flags,
        SHARED_GAP,
        os.uname().machine,
    )
    library = folder / f"{key}.so"
    if library.exists():
        return library
    with _locked(folder / f"{key}.lock"):
        if library.exists():
            return library
        with _making(folder) as work:
            copy = work / shown
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
            for name, content in translated:  # beside the copy, where the compiler looks first
                (copy.parent / name).parent.mkdir(parents=True, exist_ok=True)
                (copy.parent / name).write_text(content, encoding="utf-8")
            # nvcc includes its run-time header without being asked, and so does this.
            found = [f"-I{shim}", "-include", "cuda_runtime.h", *([f"-I{include}"] if include else [])]
            _run([compiler.path, *flags, *found, "-x", "c++", "-S", shown, "-o", "kernels.s"], work)
            _leave_gaps(work / "kernels.s")
            _run([compiler.path, "-c", "kernels.s", "-o", "kernels.o"], work)
            objects = [str(folder / item) for item in runtime]
            _run([compiler.path, "kernels.o", *objects, *_link_flags(True), "-o", "library.so"], work)
            if sys.platform == "darwin":  # the linker leaves the lines in the object file, which is deleted
                _run(["dsymutil", "library.so", "-o", "lines.dSYM"], work)
                shutil.rmtree(folder / f"{key}.so.dSYM", ignore_errors=True)
                (work / "lines.dSYM").replace(folder / f"{key}.so.dSYM")
            (work / "library.so").replace(library)
    (folder / f"{key}.lock").unlink(missing_ok=True)
    return library


@_writing()
def build_program(
    text: str, shown: str, program: Path, translated: Sequence[tuple[str, str]] = (), options: Sequence[str] = ()
) -> None:
    """Compile a translated source with a `main` into `program`, which runs by itself and records nothing.

    `translated` are the source's own headers, `options` more of the compiler's. CompileFailed as for `build`.
    """
    compiler, folder, shim = host_compiler(), build_folder(), host_sources()
    runtime = _runtime_objects(compiler, folder, shim, _digest(sorted(shim.rglob("*.h"))))
    with _making(folder) as work:
        for file, content in ((shown, text), *translated):
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            (work / file).write_text(content, encoding="utf-8")
        found = [f"-I{shim}", "-include", "cuda_runtime.h", *options]
        _run([compiler.path, *compiler.plain_flags, *found, "-x", "c++", "-c", shown, "-o", "kernels.o"], work)
        objects = [str(folder / item) for item in runtime]
        _run([compiler.path, "kernels.o", *objects, *_link_flags(False), "-o", "program"], work)
        (work / "program").replace(program)


def _leave_gaps(assembly: Path) -> None:
    """Room behind every shared array, so that an index past its end does not meet the next one. Mach-O has none."""
    lines, thread_local = [], False
    for line in assembly.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True):
        if _SECTION.match(line):
            thread_local = ".tbss" in line
        lines.append(line)
        if thread_local and line.lstrip().startswith(".zero"):
            lines.append(f"\t.zero\t{SHARED_GAP}\n")
    assembly.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")


def _link_flags(shared: bool) -> list[str]:
    """Linux binds the library's own names within it, and older C libraries have timers apart; macOS needs neither."""
    if sys.platform == "darwin":
        return ["-dynamiclib"] if shared else []
    return [*(["-shared", "-Wl,-Bsymbolic"] if shared else []), "-lrt"]


def _digest(paths: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in paths)).hexdigest()


def _runtime_objects(compiler: HostCompiler, folder: Path, shim: Path, headers: str) -> list[str]:
    """Object files of the runtime: the same for every kernel, so compiled once."""
    names = []
    for source in sorted(shim.glob("*.cpp")):
        key = _key(
            source.read_text(encoding="utf-8"), headers, compiler.family, compiler.version, compiler.runtime_flags
        )
        made = folder / f"{source.stem}-{key}.o"
        names.append(made.name)
        if made.exists():
            continue
        with _making(folder) as work:
            _run([compiler.path, *compiler.runtime_flags, "-c", str(source), "-o", "part.o"], work)
            (work / "part.o").replace(made)
    return names


def _run(command: list[str], work: Path) -> None:
    try:
        done = answered(command, 120, cwd=work)
    except TooLong as error:
        raise CompileFailed(f"the host compiler was too slow: {error}") from None
    if done.returncode and not done.stderr.strip():  # killed from outside, or by its own driver
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        raise CompileFailed(f"the host compiler {command[0]} died without a message ({how}); is there memory left?")
    if done.returncode and (why := os.strerror(errno.ENOSPC)) in done.stderr:
        raise CompileFailed(_not_written(work.parent, why, True))
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
        text = "\n".join((errors or done.stderr.splitlines())[:5]).replace(str(work) + "/", "")
        raise CompileFailed(f"the host compiler refused the source:\n{text}")
