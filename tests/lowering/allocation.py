"""Where Triton's allocator puts buffers and conversion scratch in shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from triton._C.libtriton import ir as mlir
from triton._C.libtriton import nvidia, passes

_BITS = {"i1": 8, "i8": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "i16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}


@dataclass(frozen=True)
class Piece:
    """Bytes [start, end) for one op; `line` is the kernel's source line."""

    op: str
    line: int
    start: int
    end: int

    def overlaps(self, other: Piece) -> bool:
        return self.start < other.end and other.start < self.end


def allocation(ttgir: str, tmp_path) -> list[Piece]:
    """The pieces of shared memory of a kernel whose final TTGIR this is, for sm_90a. Scratch has its start alone as extent."""
    path = tmp_path / "kernel.ttgir"
    path.write_text(ttgir)
    context = mlir.context()
    mlir.load_dialects(context)
    nvidia.load_dialects(context)
    module = mlir.parse_mlir_module(str(path), context)
    module.context = context
    manager = mlir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager, False)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, 90, 86)
    manager.run(module, "allocation")
    return list(_pieces(str(module)))


def _pieces(text: str):
    places = dict(re.findall(r'(#loc\d+) = loc\(".*":(\d+):\d+\)', text))
    for line in text.splitlines():
        if match := re.search(r"allocation\.offset = (\d+)", line):
            name = re.search(r"\b(tt\.func|tt\.\w+|ttg\.\w+|ttng\.\w+)\b", line)
            where = re.findall(r"loc\((#loc\d+)\)", line)
            start = int(match[1])
            extent = re.search(r"-> !ttg\.memdesc<([\dx]+)x(\w+),", line)
            size = prod(map(int, extent[1].split("x"))) * _BITS[extent[2]] // 8 if extent else 1
            yield Piece(name[1] if name else "", int(places.get(where[-1], 0)) if where else 0, start, start + size)
