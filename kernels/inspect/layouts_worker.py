"""Reads the layouts of compiled Triton kernels, in a process of its own: requests come as JSON on stdin.

Started by `kernels.inspect.layouts`, without TRITON_INTERPRET.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.inspect.facts import InspectionFailed
from kernels.inspect.triton_worker import answer_requests, compile_request

# Name in TTGIR: what it does to global memory, and whether a copy engine does it.
OPERATIONS = {
    "tt.load": ("read", False),
    "tt.store": ("write", False),
    "tt.atomic_rmw": ("atomic", False),
    "tt.atomic_cas": ("atomic", False),
    "ttg.async_copy_global_to_local": ("read", False),
    "ttng.async_tma_copy_global_to_local": ("read", True),
    "ttng.async_tma_copy_local_to_global": ("write", True),
    "ttng.async_tma_reduce": ("atomic", True),
    "ttng.async_tma_gather": ("read", True),
    "ttng.async_tma_scatter": ("write", True),
}
# What the instruction's name begins with in PTX. An atomic without a result is a reduction.
PTX = {"read": ("ld.", "cp.async."), "write": ("st.", "cp.async."), "atomic": ("atom.", "red.", "cp.reduce.")}
_Position = tuple[str, int, int]


def main() -> int:
    return answer_requests(_layouts)


def _layouts(request: dict[str, Any]) -> dict[str, Any]:
    compiled = compile_request(request)
    text, ptx = compiled.asm["ttgir"], compiled.asm["ptx"]
    found = []
    instructions = read_instructions(ptx)
    for operation, linear in zip(read_operations(text), _linear_layouts(text), strict=True):
        positions = [place for place in operation.pop("positions") if place[0]]
        if not positions:
            raise InspectionFailed(f"{operation['operation']} of {request['kernel']} has no place in a source file.")
        what, engine = OPERATIONS[operation["operation"]]
        moved = [i for place in positions for i in instructions.get(place, ()) if i[0].startswith(PTX[what])]
        if not engine and not moved:
            raise InspectionFailed(
                f"{request['kernel']}: the PTX has no instruction for the {operation['operation']} of "
                f"{positions[0][0]}:{positions[0][1]}, so its width is not known."
            )
        opcode, size = max(moved, key=lambda item: item[1], default=("", 0))
        # Code from Triton's own library belongs to the line that calls it.
        file, line, column = next((p for p in positions if not p[0].startswith(_library())), positions[0])
        vector = 1 if engine else max(1, size // operation["element_bytes"])
        found.append(
            {**operation, **linear, "what": what, "engine": engine, "vector": vector, "instruction": opcode}
            | {"file": file, "line": line, "column": column}
        )
    return {"accesses": found, "ttgir": text}


def _library() -> str:
    import triton

    return str(Path(triton.__file__).parent)


def read_operations(ttgir: str) -> list[dict[str, Any]]:
    """The memory operations in a module's text, in order: name, shape, element size, layout, and the chain of places
    they come from, innermost first."""
    places = _Places(ttgir)
    names = "|".join(re.escape(name) for name in OPERATIONS)
    found = []
    for match in re.finditer(rf"^\s*(?:%[^=\n]+ = )?({names})\b([^\n]*?) loc\(([^\n]*)\)$", ttgir, re.M):
        name, rest, place = match.groups()
        types = rest.rpartition(" : ")[2]
        if OPERATIONS[name][1]:
            shape, element, layout = re.search(
                r"(?:tensordesc|memdesc)<(?:tensor<)?((?:\d+x)+)([\w]+)(.*)", types
            ).groups()
            layout = ""
        elif tensor := re.search(r"tensor<((?:\d+x)+)!tt\.ptr<(\w+)[^>]*>(?:, (.*?))?>(?=$|,| ->|\))", types):
            shape, element, layout = tensor.groups()
        else:
            shape, layout, element = "", "", re.search(r"!tt\.ptr<(\w+)", types)[1]
        found.append(
            {
                "operation": name,
                "shape": [int(size) for size in shape.split("x") if size],
                "element_bytes": max(1, int(re.search(r"\d+", element)[0]) // 8) if "f8" not in element else 1,
                "layout": _spelled(layout or "", ttgir),
                "positions": places.chain(place),
            }
        )
    return found


def _spelled(layout: str, ttgir: str) -> str:
    """A layout's text with the module's abbreviations written out."""
    for _ in range(4):
        for name, value in re.findall(r"^(#\w+) = (#ttg\..*)$", ttgir, re.M):
            layout = re.sub(rf"{name}\b", lambda _, value=value: value, layout)
    return layout


class _Places:
    """The source positions that a module's location attributes stand for."""

    def __init__(self, ttgir: str) -> None:
        self._named = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", ttgir, re.M))

    def chain(self, text: str) -> list[_Position]:
        """The positions of a location, innermost first: a helper function's line, then the line that calls it."""
        text = text.strip()
        if text in self._named:
            return self.chain(self._named[text])
        if match := re.fullmatch(r'"([^"]*)":(\d+):(\d+)', text):
            return [(match[1], int(match[2]), int(match[3]))]
        if match := re.fullmatch(r'"[^"]*"\((.*)\)', text):
            return self.chain(match[1])
        if match := re.fullmatch(r"callsite\((.*)\)", text):
            callee, caller = _split(match[1], " at ")
            return self.chain(callee) + self.chain(caller)
        if match := re.fullmatch(r"fused(?:<.*>)?\[(.*)\]", text):
            return [place for part in match[1].split(", ") for place in self.chain(part)]
        return []


def _split(text: str, between: str) -> tuple[str, str]:
    """Two parts of a text, at the first separator outside of parentheses."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text.startswith(between, i):
            return text[:i], text[i + len(between) :]
    return text, ""


def read_instructions(ptx: str) -> dict[_Position, list[tuple[str, int]]]:
    """The instructions on global memory in a PTX text by source position: opcode, and bytes that a lane moves."""
    folders = {
        number: str(Path(folder) / name) if name else folder
        for number, folder, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', ptx, re.M)
    }
    found: dict[_Position, list[tuple[str, int]]] = {}
    place: _Position = ("", 0, 0)
    for line in ptx.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", line):
            place = (folders[match[1]], int(match[2]), int(match[3]))
        elif match := re.match(r"\s*(?:@!?%\w+\s+)?((?:ld|st|atom|red|cp\.async)\.[\w.:]*)(.*)", line):
            opcode, operands = match.groups()
            if "global" in opcode and ".bulk" not in opcode:
                found.setdefault(place, []).append((opcode, _bytes_moved(opcode, operands)))
    return found


def _bytes_moved(opcode: str, operands: str) -> int:
    if opcode.startswith("cp."):
        return int(re.findall(r"\b0x[0-9a-fA-F]+|\b\d+\b", operands.split("]")[2])[0], 0)
    vector = re.search(r"\.v(\d)", opcode)
    kind = re.search(r"\.[bfsu]f?(\d+)(x2)?(?=$|\.)", opcode.replace(".bf", ".f"))
    return (int(vector[1]) if vector else 1) * int(kind[1]) // 8 * (2 if kind[2] else 1)


def _linear_layouts(ttgir: str) -> list[dict[str, list[int]]]:
    """The bases of each memory operation's tensor, from Triton's own library, in the order of the text."""
    from triton._C.libtriton import gluon_ir, ir, nvidia

    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    with tempfile.TemporaryDirectory(prefix="layouts_") as folder:
        path = Path(folder) / "kernel.ttgir"
        path.write_text(ttgir, encoding="utf-8")
        module = ir.parse_mlir_module(str(path), context)
    module.context = context
    builder = gluon_ir.GluonOpBuilder(context)
    shapes = [operation["shape"] for operation in read_operations(ttgir)]
    warps = int(re.search(r'"ttg\.num-warps" = (\d+)', ttgir)[1])
    found: list[dict[str, list[int]]] = []
    names: list[str] = []

    def visit(operation: Any) -> None:
        name = operation.get_name()
        if name not in OPERATIONS:
            return
        shape = shapes[len(names)]
        names.append(name)
        if OPERATIONS[name][1] or not shape:  # a copy engine's tensor is in no register; a scalar is in every thread
            none = [0] * (0 if OPERATIONS[name][1] else 5)
            some = [0] * (0 if OPERATIONS[name][1] else warps.bit_length() - 1)
            found.append({"register_bases": [], "lane_bases": none, "warp_bases": some})
            return
        layout = builder.get_gluon_layout_from_tensor(operation.get_operand(0))
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        found.append(
            {
                "register_bases": _flat(linear.reg_bases, shape),
                "lane_bases": _flat(linear.lane_bases, shape),
                "warp_bases": _flat(linear.warp_bases, shape),
            }
        )

    _walk(module, visit)
    expected = [operation["operation"] for operation in read_operations(ttgir)]
    if names != expected:
        raise InspectionFailed(f"The TTGIR's text has the operations {expected}, its module {names}.")
    return found


def _walk(module: Any, visit: Callable[[Any], None]) -> None:
    module.walk(visit)


def _flat(bases: list[list[int]], shape: list[int]) -> list[int]:
    """Bases in indices as bases in elements, counted in C order. Extents are powers of two, so that bits stay bits."""
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return [sum(index * stride for index, stride in zip(basis, strides, strict=True)) for basis in bases]


if __name__ == "__main__":
    sys.exit(main())
