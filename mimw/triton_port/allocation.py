"""Where Triton's allocator puts buffers and scratch in shared memory: its pass run once more over a finished kernel's TTGIR."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from math import prod
from pathlib import Path

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes

_BITS = {"i1": 8, "i8": 8, "f8E5M2": 8, "f8E4M3FN": 8, "f16": 16, "bf16": 16, "i16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}
_PTX = 86  # the version of PTX that the pass asks for; nothing here depends on it


@dataclass(frozen=True)
class Piece:
    """Bytes [start, end) for one op, with its source line and column from 1. Scratch has one byte as its extent: the pass does
    not tell how much it takes."""

    op: str
    file: str
    line: int
    column: int
    start: int
    end: int

    @property
    def is_buffer(self) -> bool:
        return self.op == "ttg.local_alloc"

    def overlaps(self, other: Piece) -> bool:
        return self.start < other.end and other.start < self.end


def allocation(ttgir: str, capability: int = 90) -> list[Piece]:
    """The pieces of shared memory of a kernel whose final TTGIR this is, for an NVIDIA chip."""
    context = mlir.context()
    mlir.load_dialects(context)
    nvidia.load_dialects(context)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ttgir")
        path.write_text(ttgir)
        module = mlir.parse_mlir_module(str(path), context)
    module.context = context
    manager = mlir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, _PTX)
    manager.run(module, "allocation")
    return list(_pieces(str(module)))


def _pieces(text: str):
    places = {name: (file, int(line), int(column))
              for name, file, line, column in re.findall(r'(#loc\d*) = loc\("(.*)":(\d+):(\d+)\)', text)}
    places |= {name: places[inside] for name, inside in re.findall(r'(#loc\d*) = loc\(".*"\((#loc\d*)\)\)', text)
               if inside in places}  # a position inside the name of a recorded op
    around = []  # ops whose regions are open; their attributes stand behind these
    for line in text.splitlines():
        if opened := re.search(r'"(\w+\.\w+)"\(.*\(\{$', line):
            around.append(opened[1])
        closed = around.pop() if line.lstrip().startswith("})") and around else ""
        if match := re.search(r"allocation\.offset = (\d+)", line):
            name = re.search(r"\b(tt\.func|tt\.\w+|ttg\.\w+|ttng\.\w+)\b", line)
            where = re.findall(r"loc\((#loc\d*)\)", line)
            start = int(match[1])
            extent = re.search(r"-> !ttg\.memdesc<([\dx]+)x(\w+),", line)
            size = prod(map(int, extent[1].split("x"))) * _BITS[extent[2]] // 8 if extent else 1
            place = places.get(where[-1], ("", 0, 0)) if where else ("", 0, 0)
            yield Piece(closed or (name[1] if name else ""), *place, start, start + size)
