"""From a reference to all that it reaches, through Python modules and CUDA files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from kernels.sources.cuda import CudaFile, parse_cuda
from kernels.sources.python import WHOLE, PythonModule, Symbol, parse_module

CUDA_SUFFIXES = (".cu", ".cuh")
_REFERENCE = re.compile(r"^[\w./]+:\w+$")


def project_root() -> Path:
    """The folder that holds `kernels/`, `cuda/` and `docs/`: `KERNEL_LESSONS_ROOT`, or where this package lies."""
    named = os.environ.get("KERNEL_LESSONS_ROOT")
    return Path(named) if named else Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1024)
def _read_python(path: str, mtime_ns: int, size: int, module: str) -> PythonModule:
    text = Path(path).read_text(encoding="utf-8")
    return parse_module(text, module, is_package=Path(path).name == "__init__.py")


@lru_cache(maxsize=256)
def _read_cuda(path: str, mtime_ns: int, size: int) -> CudaFile:
    return parse_cuda(Path(path).read_text(encoding="utf-8"))


@lru_cache(maxsize=4096)
def _parse_code(code: str) -> PythonModule:
    return parse_module(code, "__page__", is_package=False)


class Sources:
    """One consistent look at the project's sources. Make a new one after files may have changed."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or project_root()
        self._files: dict[str, Path | None] = {}
        self._mentions: dict[str, set[str]] = {}
        self._wholes: dict[str, dict[str, str]] = {}
        self._importable: dict[frozenset[str], set[str]] = {}
        self._modules: dict[str, PythonModule | None] = {}
        self._cuda: dict[str, CudaFile] | None = None
        self._codes: dict[str, tuple[dict[str, str], set[str]]] = {}

    def fingerprint(self, references: Iterable[str]) -> str:
        """Sixteen hex digits for everything that the references reach together."""
        digest = hashlib.sha256()
        for name, value in self.explain(references).items():
            digest.update(f"{name}={value}\n".encode())
        return digest.hexdigest()[:16]

    def explain(self, references: Iterable[str]) -> dict[str, str]:
        """Every reached symbol with the hash of its own text, sorted by name.

        Raises:
            KeyError: a reference names no module, file or symbol of the project.
        """
        found: dict[str, str] = {}
        for reference in references:
            place, _, name = reference.rpartition(":")
            if place.endswith(CUDA_SUFFIXES):
                self.check_cuda(place, name)
                self._walk(
                    [(place, name), *([("cuda", f"launch_{name}")] if self._cuda_symbol(f"launch_{name}") else [])],
                    found,
                )
            else:
                self.check_python(place, name)
                self._walk([(place, name)], found)
        return dict(sorted(found.items()))

    def explain_code(self, code: str, modules: Iterable[str] = ()) -> dict[str, str]:
        """What a piece of page code reaches. `modules` were really imported while it ran.

        A module that was imported but that the text never leads to (a name built at run time, say) counts whole.
        """
        found = dict(self._reached_by(code)[0])
        for module in self.unexplained([code], modules):
            if module not in self._wholes:
                self._wholes[module] = {}
                self._walk([(module, WHOLE)], self._wholes[module])
            found |= self._wholes[module]
        return dict(sorted(found.items()))

    def unexplained(self, codes: Iterable[str], modules: Iterable[str]) -> list[str]:
        """Those of the imported `modules` that the text of none of the `codes` leads to."""
        led_to: set[str] = set()
        for code in codes:
            led_to |= self._reached_by(code)[1]
        return [module for module in modules if module not in led_to and not self._is_plumbing(module, led_to)]

    def _reached_by(self, code: str) -> tuple[dict[str, str], set[str]]:
        """Symbols that the text of a code reaches, and modules that it names or reaches."""
        if code not in self._codes:
            found: dict[str, str] = {}
            parsed = _parse_code(code)
            for symbol in [*parsed.symbols.values(), parsed.effects]:
                self._walk(self._targets(symbol, parsed), found)
            for module, name in parsed.imports.values():
                self._walk([(module, name)] if name != WHOLE else [], found)
            led_to = {name.partition(":")[0] for name in found} | {target[0] for target in parsed.imports.values()}
            self._codes[code] = found, led_to
        return self._codes[code]

    def explain_shell(self, code: str) -> dict[str, str]:
        """What a piece of shell code names of the project: references, ``python -m`` modules, and files.

        Programs that a shell starts read what they like, unseen. So a page's shell block names what it stands on, in
        its commands or in a comment: ``# stands on cuda/portfolio.cu:main``.
        """
        found: dict[str, str] = {}
        for module in re.findall(r"-m\s+([A-Za-z_][\w.]*)", code):
            for each in (module, f"{module}.__main__"):
                self._walk([(each, WHOLE)], found)
        for word in set(re.findall(r"[\w./:-]+", code)):
            path = self.root / word
            if _REFERENCE.match(word) and self._from_string(word):
                self._walk(self._from_string(word), found)
            elif path.is_file() and path.suffix == ".py":
                text = path.read_text(encoding="utf-8")
                found |= self.explain_code(text)
                self._walk(self._registered_with(_parse_code(text).imports.values()), found)
            elif path.is_file() and not word.startswith("build/"):
                found[f"file {word}"] = hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()[:16]
        return dict(sorted(found.items()))

    def _registered_with(self, imported: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """What the module of an imported name does with that name: the commands of an application, say."""
        targets: list[tuple[str, str]] = []
        for module, name in imported:
            parsed = self._module(module)
            if parsed is not None and name in parsed.symbols:
                targets += [
                    (module, each)
                    for each, symbol in parsed.symbols.items()
                    if any(chain[0] == name for chain in symbol.chains)
                ]
        return targets

    def module_file(self, module: str) -> Path | None:
        """The file of a project module, or None where the module is not the project's."""
        if module not in self._files:
            self._files[module] = None
            if re.fullmatch(r"[A-Za-z_][\w.]*", module):
                base = self.root.joinpath(*module.split("."))
                candidates = (base.with_suffix(".py"), base / "__init__.py")
                self._files[module] = next((each for each in candidates if each.is_file()), None)
        return self._files[module]

    def cuda_files(self) -> dict[str, CudaFile]:
        """Every parsed file of `cuda/`, by its path from the root."""
        if self._cuda is None:
            self._cuda = {}
            for path in sorted((self.root / "cuda").glob("*")):
                if path.suffix in CUDA_SUFFIXES:
                    stat = path.stat()
                    self._cuda[f"cuda/{path.name}"] = _read_cuda(str(path), stat.st_mtime_ns, stat.st_size)
        return self._cuda

    def _is_plumbing(self, module: str, led_to: set[str]) -> bool:
        """Modules imported only because a reached one lies beneath them or imports from them by name."""
        parsed = self._module(module)
        return (
            parsed is None or any(name.startswith(module + ".") for name in led_to) or self._imported_by(module, led_to)
        )

    def _imported_by(self, module: str, led_to: set[str]) -> bool:
        """Imported by the text of a reached module: what is used of it was followed symbol by symbol."""
        key = frozenset(led_to)
        if key not in self._importable:
            frontier, seen = set(led_to), set()
            while frontier:
                name = frontier.pop()
                seen.add(name)
                frontier |= self._mentioned_by(name) - seen
            self._importable[key] = {each for name in seen for each in self._mentioned_by(name)}
        return module in self._importable[key]

    def _mentioned_by(self, module: str) -> set[str]:
        """The project modules that a module's imports name, at the top or inside a function."""
        if module not in self._mentions:
            parsed = self._module(module)
            found: set[str] = set()
            if parsed is not None:
                mentioned = [*parsed.imports.values()]
                for symbol in parsed.symbols.values():
                    mentioned += symbol.imports.values()
                candidates = {each for base, name in mentioned for each in (base, f"{base}.{name}")}
                found = {each for each in candidates if self.module_file(each)}
            self._mentions[module] = found
        return self._mentions[module]

    def _module(self, module: str) -> PythonModule | None:
        if module not in self._modules:
            path = self.module_file(module)
            if path is None:
                self._modules[module] = None
            else:
                stat = path.stat()
                self._modules[module] = _read_python(str(path), stat.st_mtime_ns, stat.st_size, module)
        return self._modules[module]

    def _walk(self, targets: list[tuple[str, str]], found: dict[str, str]) -> None:
        pending = list(targets)
        while pending:
            place, name = pending.pop()
            if place == "cuda" or place.endswith(CUDA_SUFFIXES):
                pending += self._visit_cuda(place, name, found)
            else:
                pending += self._visit_python(place, name, found)

    def _visit_python(self, module: str, name: str, found: dict[str, str]) -> list[tuple[str, str]]:
        parsed = self._module(module)
        if parsed is None:
            return []
        if name == WHOLE:
            return [(module, each) for each in parsed.symbols if f"{module}:{each}" not in found] or (
                self._visit_effects(module, parsed, found)
            )
        label = f"{module}:{name}"
        if label in found:
            return []
        if name not in parsed.symbols:
            if name in parsed.imports:
                return [parsed.imports[name]]
            return [(f"{module}.{name}", WHOLE)] if self._module(f"{module}.{name}") else []
        symbol = parsed.symbols[name]
        found[label] = _combine(symbol.digests)
        return self._targets(symbol, parsed, module) + self._visit_effects(module, parsed, found)

    def _visit_effects(self, module: str, parsed: PythonModule, found: dict[str, str]) -> list[tuple[str, str]]:
        label = f"{module}:<module>"
        if label in found or not parsed.effects.digests:
            return []
        found[label] = _combine(parsed.effects.digests)
        return self._targets(parsed.effects, parsed, module)

    def _targets(self, symbol: Symbol, parsed: PythonModule, module: str = "__page__") -> list[tuple[str, str]]:
        targets: list[tuple[str, str]] = []
        imports = parsed.imports | symbol.imports
        for chain in symbol.chains:
            if chain[0] in parsed.symbols and chain[0] not in symbol.imports:
                targets.append((module, chain[0]))
            elif chain[0] in imports:
                targets.append(self._resolve(*imports[chain[0]], chain[1:]))
        for local, (base, name) in symbol.imports.items():
            if local == WHOLE:
                targets.append((base, WHOLE))
            elif name != WHOLE:
                targets.append((base, name))
        for text in symbol.strings:
            targets += self._from_string(text)
        return [target for target in targets if target[0] == "cuda" or target[0] != "__page__"]

    def _resolve(self, base: str, name: str, rest: tuple[str, ...]) -> tuple[str, str]:
        """`cuda.vector_add` with `cuda` bound to a module is a symbol of that module; else the symbol named."""
        if name != WHOLE:
            if not self._module(f"{base}.{name}"):
                return base, name
            base = f"{base}.{name}"
        for index, part in enumerate(rest):
            parsed = self._module(base)
            if parsed is not None and (part in parsed.symbols or part in parsed.imports):
                return base, part
            if self._module(f"{base}.{part}") is None:
                return base, rest[index] if parsed is None else WHOLE
            base = f"{base}.{part}"
        return base, WHOLE

    def _from_string(self, text: str) -> list[tuple[str, str]]:
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            symbol = self._cuda_symbol(text)
            if symbol is not None and symbol.is_function:
                launcher = f"launch_{text}"
                return [("cuda", text), *([("cuda", launcher)] if self._cuda_symbol(launcher) else [])]
        elif _REFERENCE.match(text):
            place, _, name = text.rpartition(":")
            if place.endswith(CUDA_SUFFIXES):
                return [("cuda", name)]
            if self._module(place) is not None:
                return [(place, name)]
        return []

    def _visit_cuda(self, place: str, name: str, found: dict[str, str]) -> list[tuple[str, str]]:
        """`place` is a file, or "cuda" where any may define the name. A file's own definition hides the others'."""
        targets: list[tuple[str, str]] = []
        for path, parsed in self.cuda_files().items():
            if place not in ("cuda", path):
                continue
            symbol = parsed.symbols.get(name)
            label = f"{path}:{name}"
            if symbol is None or label in found:
                continue
            assertions = [a for a in parsed.assertions if name in a.names]
            found[label] = _combine([*symbol.digests, *(d for a in assertions for d in a.digests)])
            for each in symbol.names - {name}:
                if each in parsed.symbols:
                    targets.append((path, each))
                elif self._cuda_symbol(each):
                    targets.append(("cuda", each))
        return targets

    def _cuda_symbol(self, name: str):
        for parsed in self.cuda_files().values():
            if name in parsed.symbols:
                return parsed.symbols[name]
        return None

    def check_cuda(self, place: str, name: str) -> None:
        files = self.cuda_files()
        if place not in files:
            raise KeyError(f"There is no CUDA file {place!r}; the project has {', '.join(files) or 'none'}.")
        if name not in files[place].symbols:
            known = ", ".join(sorted(files[place].symbols))
            raise KeyError(f"{place} defines no {name!r}; it defines {known}.")

    def check_python(self, module: str, name: str) -> None:
        parsed = self._module(module)
        if parsed is None:
            raise KeyError(
                f"There is no project module {module!r}; write a reference as 'kernels.ops.softmax:softmax' or "
                "'cuda/kernels.cu:vector_add'."
            )
        if name not in parsed.symbols and name not in parsed.imports:
            raise KeyError(f"{module} defines no {name!r}; it defines {', '.join(sorted(parsed.symbols))}.")


def _combine(digests: list[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]
