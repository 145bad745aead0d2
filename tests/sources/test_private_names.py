"""A name that begins with _ is its module's own: what another module calls has a name that says so."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = "a record of the GPU stands on that name; it changes when the records are next taken"


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def borrowed(path: Path) -> Iterator[str]:
    """`module:_name` of every private name of another module of the project that a file imports or reads."""
    modules: dict[str, str] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kernels"):
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                if private(alias.name) and node.module != own:
                    yield f"{node.module}:{alias.name}"
        elif isinstance(node, ast.Import):
            modules |= {
                each.asname: each.name for each in node.names if each.asname and each.name.startswith("kernels")
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if (ROOT / f"{module.replace('.', '/')}.py").is_file():
                yield f"{module}:{node.attr}"


OF_TRITON = "kernels.ops"
"""Its kernels begin with _, as Triton's own do, and modules of operators share them."""
TOLERATED = {
    "kernels/bench/sanitizer/paths.py": RECORDED,
    "kernels/bench/sanitizer/worker.py": RECORDED,
    "kernels/bench/two_devices.py": RECORDED,
    "kernels/cuda/ladder.py": RECORDED,
    "kernels/cuda/patterns.py": RECORDED,
    "kernels/inspect/launches_worker.py": RECORDED,
}


def test_no_module_borrows_a_private_name():
    files = [*(ROOT / "kernels").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    found = {path.relative_to(ROOT).as_posix(): sorted(set(borrowed(path))) for path in sorted(files)}
    within_ops = [name for name in found if name.startswith("kernels/ops/")]
    assert len(found) > 200 and any(found[name] for name in within_ops)  # so it does see some
    for name in within_ops:
        assert all(each.startswith(OF_TRITON) for each in found.pop(name)), name
    assert {name: names for name, names in found.items() if names}.keys() == TOLERATED.keys(), found


def test_what_is_borrowed_is_seen_however_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/other.py").write_text("_own = 1\n")
    text = "from kernels import other\nimport kernels.other as same\nfrom kernels.other import _own\n"
    text += "other._own, same._own, other.public, other.__doc__, self._own\n"
    (tmp_path / "kernels/here.py").write_text(text)
    assert list(borrowed(tmp_path / "kernels/here.py")) == ["kernels.other:_own"] * 3
