"""Places of buffers and scratch in shared memory, as Triton's allocator assigns them.

Input: the final TTGIR of a kernel, as text or as the module itself (which the passes then change), and the chip that it
is for. Output: an `Allocation`, the bytes that a launch takes and the pieces that they are made of, as the passes at the
start of Triton's LLVM stage decide:

    found = allocation(compiled.stage("ttgir"), 90)
    found.total                      36864, as compiled.metadata.shared
    found.pieces[1]                  Piece("ttg.convert_layout", "kernel.py", 9, 9, 32768, 36864)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from triton._C.libtriton import amd, nvidia, passes
from triton._C.libtriton import ir as mlir

from .text import ModuleText, finished_module

_BUFFER = re.compile(r"!ttg\.memdesc<([\dx]+)x(\w+), #ttg\.(?:nvmma_shared|swizzled_shared|shared_linear)<")
_BITS = {"i1": 8, "i8": 8, "f8E5M2": 8, "f8E4M3FN": 8, "f8E5M2FNUZ": 8, "f8E4M3FNUZ": 8, "f16": 16, "bf16": 16, "i16": 16,
         "i32": 32, "f32": 32, "i64": 64, "f64": 64}
# Names of ops without scratch, or how they begin.
_TAKE_NONE = tuple("""arith. math. scf. cf. builtin. ttng. ttg.memdesc_ ttg.local_ ttg.async_ ttg.warp_ tt.func tt.return tt.get_
    tt.make_range tt.splat tt.expand_dims tt.broadcast tt.trans tt.reshape tt.join tt.split tt.addptr tt.load tt.store tt.bitcast
    tt.fp_to_fp tt.int_to_ptr tt.ptr_to_int tt.elementwise_inline_asm tt.call llvm.""".split())
_TAKE_SOME = ("ttng.tensormap_create", )
_STEP, _GAP = 128, 1024     # bytes: what the place of a buffer is a multiple of, and once of more
_OF_TASKS, _OF_CAPTURE = 512, 32        # bytes for the workers of a kernel's tasks, and for each value that they capture
_PTX = 86  # the version of PTX that the pass asks for; nothing here depends on it


@dataclass(frozen=True)
class Piece:
    """Bytes [start, end) for one op, with its source line and column from 1 (line 0: unknown), and the number of the recorded
    op that it comes from (-1: of none)."""

    op: str
    file: str
    line: int
    column: int
    start: int
    end: int
    number: int = -1

    @property
    def is_buffer(self) -> bool:
        return self.op == "ttg.local_alloc"

    def overlaps(self, other: Piece) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Allocation:
    """The shared memory of one CTA: all bytes, and the pieces in program order, read off the allocated module on first use.
    Pieces that are not needed together may overlap."""

    total: int
    module: Any = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(_pieces(ModuleText(self.module)))


def allocation(ttgir, arch: int | str = 90) -> Allocation:
    """The shared memory of a kernel for the chip of that capability or gfx name."""
    module = finished_module(ttgir) if isinstance(ttgir, str) else ttgir
    manager = mlir.pass_manager(module.context)
    if isinstance(arch, int):
        passes.ttgpuir.add_combine_tensor_select_and_if(manager)
        passes.ttgpuir.add_allocate_warp_groups(manager, False)
    else:
        amd.passes.ttgpuir.add_update_async_wait_count(manager, arch)
        amd.passes.ttgpuir.add_warp_pipeline_conversion(manager, arch)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    if isinstance(arch, int):
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, arch, _PTX)
    else:
        passes.convert.add_index_to_llvmir(manager)
        amd.passes.ttgpuir.add_allocate_shared_memory(manager, arch)
    manager.run(module, "allocation")
    return Allocation(module.get_int_attr("ttg.shared"), module)


def surely_fits(module, limit: int) -> bool:
    """True if a look at a TTGIR module shows that it takes at most `limit` bytes: no op in it has scratch, and its buffers
    side by side leave room for what tasks capture. The look takes half a millisecond, the allocator with a copy 30."""
    total, fits = _GAP, True

    def look(op) -> None:
        nonlocal total, fits
        name = op.get_name()
        if not name.startswith(_TAKE_NONE) or name in _TAKE_SOME:
            fits = False
        elif name == "ttg.local_alloc":
            shape = _BUFFER.match(str(op.get_result(0).get_type()))
            if shape is None or shape[2] not in _BITS:
                fits = False        # with padding, for instance
            else:
                total += -(-prod(map(int, shape[1].split("x"))) * _BITS[shape[2]] // 8 // _STEP) * _STEP
        elif name == "ttg.warp_specialize.partitions":
            total += _OF_TASKS + _OF_CAPTURE * op.get_num_operands()

    module.walk(look)
    return fits and total <= limit


def _pieces(text: ModuleText):
    around = []  # ops whose regions are open; their attributes stand behind these
    for line in text.lines:
        if opened := re.search(r'"(\w+\.\w+)"\(.*\(\{$', line):
            around.append(opened[1])
        closed = around.pop() if line.lstrip().startswith("})") and around else ""
        if match := re.search(r"allocation\.offset = (\d+)", line):
            name = re.search(r"\b(tt\.func|tt\.\w+|ttg\.\w+|ttng\.\w+)\b", line)
            where = re.findall(r"loc\((#loc\d*)\)", line)
            start = int(match[1])
            position = text.positions.get(where[-1], ("", 0, 0)) if where else ("", 0, 0)
            yield Piece(closed or (name[1] if name else ""), *position, start, start + _size(line),
                        text.number(where[-1]) if where else -1)


def _size(line: str) -> int:
    """The bytes of an op, from its line: its scratch size, the size of its buffer type, or one word that a function keeps for
    its workers."""
    if size := re.search(r"allocation\.size = (\d+)", line):
        return int(size[1])
    extent = re.search(r"-> !ttg\.memdesc<([\dx]+)x(\w+),", line)
    return prod(map(int, extent[1].split("x"))) * _BITS[extent[2]] // 8 if extent else 4
