"""Which warp copies which row to which place, from the assembly itself: each box of each row once, where its tile has it."""

import re

import pytest

from mimw.compiler.lowering import asm
from mimw.compiler.lowering.hopper import narrow_rows, row_copies
from tests.words.test_row_copies import moved

from .harness import Case
from .threads import run

START, BARRIER, COLUMN = 1 << 16, 8, 100


@pytest.fixture
def pieces(monkeypatch):
    """The assembly of a compiled kernel, in order."""
    found = []

    def noted(emitter, assembly, *rest):
        found.append(assembly)
        return asm.ptx(emitter, assembly, *rest)

    for module in (row_copies, narrow_rows):
        monkeypatch.setattr(module, "ptx", noted)
    return found


def assembly_of(pieces, rows, width, warps):
    """The gather's and the scatter's pieces of a kernel that moves (rows, width) fp16 elements."""
    signature = {name: f"tensordesc<fp16[1,{width}]>" for name in ("x_desc", "y_desc")} | {
        "from_ptr": "*i32", "to_ptr": "*i32", "column": "i32"}
    Case(moved, signature, {"BX": rows, "BY": width}, {"num_warps": warps}).lowered("sm_90a")     # never out of a cache
    return pieces


def warps_of(warps, rows, *operands):
    """Of each warp the operands of its lanes; a thread's rows are those of a blocked layout of one element a lane."""
    threads = 32 * warps
    for warp in range(warps):
        yield [[thread, *operands, *((register * threads + thread) % rows for register in range(max(1, rows // threads)))]
               for thread in range(32 * warp, 32 * warp + 32)]


@pytest.mark.parametrize("rows, width, warps", [(128, 64, 4), (128, 64, 1), (8, 64, 4), (8, 512, 4), (16, 256, 1), (64, 128, 4),
                                                (256, 64, 2), (32, 2048, 2), (128, 128, 8)])
def test_each_box_of_each_row_once(pieces, rows, width, warps):
    """Box b of row r lies b whole columns of the tile and r lines behind its start, as TMA puts a tile of boxes of 128 bytes."""
    gather, scatter = [piece for piece in assembly_of(pieces, rows, width, warps) if "cp.async.bulk.tensor" in piece]
    expected = sorted((START + box * rows * 128 + row * 128, COLUMN + box * 64, row) for row in range(rows)
                      for box in range(width // 64))
    come, gone = [], []
    for lanes in warps_of(warps, rows, START, COLUMN, BARRIER):
        for copy in run(gather, lanes[0], lanes=lanes):
            come.append(tuple(map(int, re.fullmatch(rf"\[(\d+)\], \[map, {{(\d+), (\d+)}}\], \[{BARRIER}\]", copy).groups())))
    for lanes in warps_of(warps, rows, START, COLUMN):
        for copy in run(scatter, lanes[0], lanes=lanes):
            column, row, place = re.fullmatch(r"\[map, {(\d+), (\d+)}\], \[(\d+)\]", copy).groups()
            gone.append((int(place), int(column), int(row)))
    assert sorted(come) == expected and sorted(gone) == expected


def swizzled(address, width):
    """Where TMA puts the 16 bytes of that address, with a swizzle of `width` bytes (CUDA Driver API, CUtensorMapSwizzle)."""
    return address ^ (address >> 7 & width // 16 - 1) << 4


@pytest.mark.long(but=["128-4-32", "256-2-32", "64-1-32", "8-4-64"], everywhere=True)
@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("rows, warps", [(128, 4), (8, 4), (64, 1), (256, 2)])
def test_narrow_rows_lie_as_in_a_tile(pieces, width, rows, warps):
    """The copies fill a line for each row; the moves take its pieces to where a swizzled tile has them, and back."""
    lines, threads = 1 << 17, 32 * warps
    into, move_in, _, _, move_out, out = assembly_of(pieces, rows, width // 2, warps)
    placed = []
    for lanes in warps_of(warps, rows, lines, COLUMN, BARRIER):
        placed += run(into, lanes[0], lanes=lanes)
    assert sorted(placed) == sorted(f"[{lines + 128 * row}], [map, {{{COLUMN}, {row}}}], [{BARRIER}]" for row in range(rows))
    in_lines = {swizzled(lines + 128 * row + at, width): (row, at) for row in range(rows) for at in range(0, width, 16)}
    in_tile = {swizzled(START + width * row + at, width): (row, at) for row in range(rows) for at in range(0, width, 16)}
    for assembly, source, target, given, wanted in ((move_in, lines, START, in_lines, in_tile),
                                                    (move_out, START, lines, in_tile, in_lines)):
        shared = dict(given)
        for thread in range(threads):
            run(assembly, [thread, source, target], shared)
        assert {address: shared[address] for address in wanted} == wanted
    assert "cp.async.bulk.tensor.2d.global" in out
