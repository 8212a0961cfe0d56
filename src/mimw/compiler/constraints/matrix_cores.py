"""The layouts of AMD's matrix cores: which the chip has, and what a product in one of them asks of its operands.

Input: the layout that an author gave an accumulator or an operand, the operand's element. Output: nothing, or a refusal with the
mend; the layouts of the operands. For fp16 on gfx950 and an accumulator mfma(16x16x32, ..):

    operand_of(0, accumulator, FP16)        dot operand A of mfma(16x16x32, ..), 8 neighbours along K

Which instructions there are: AMD Instinct MI300 and MI350 ISA, "Matrix Arithmetic Instructions"; each was compiled by Triton 3.9.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...errors import LayoutConflict, TargetError
from ...ir.core import Op, Value
from ...ir.layouts import AmdMfma, AmdWmma, DotOperand, RegisterLayout
from ...ir.types import Scalar
from ...target import TARGETS
from .explain import at
from .tiles import Tiles

# K of the instructions by the bits of an operand's element, then by the smaller extent of M x N; what gfx950 adds stands behind.
_GFX942 = {64: {16: (4, )}, 32: {32: (2, ), 16: (4, ), 4: (16, )}, 16: {32: (8, ), 16: (16, ), 4: (64, )},
           8: {32: (16, ), 16: (32, ), 4: (64, )}}
_GFX950 = _GFX942 | {16: {32: (8, 16), 16: (16, 32), 4: (64, )}}
_GFX950_INT8 = {32: (16, 32), 16: (32, 64), 4: (64, )}
_FP8 = {3: ("fp8e4b8", "fp8e5b16"), 4: ("fp8e4nv", "fp8e5")}
_WMMA = {"fp16": (32, ), "bf16": (32, ), "fp32": (4, ), "i8": (64, ), "fp8e4nv": (64, 128), "fp8e5": (64, 128)}
_TF32 = {32: (4, ), 16: (8, )}
SCALED_WIDTH = 16           # bytes along K of an operand of a scaled product that a lane holds together
_SCALED = ((32, 32, 64), (16, 16, 128))         # v_mfma_scale_f32_*_f8f6f4: MI350 ISA
_SCALED_FORMATS = {"E2M1", "E4M3", "E5M2"}
_SCALED_BLOCK = 32          # elements of a scale
_NEIGHBOURS_BYTES = 16      # of a lane of an operand of WMMA: one ds_load_b128


def check_matrix_layout(layout: RegisterLayout, op: Op, shape: tuple[int, ...], tiles: Tiles) -> None:
    """Refuse a layout of matrix cores that the chip does not have, or that is for other warps or another rank."""
    matrix = layout.parent if isinstance(layout, DotOperand) else layout
    if not isinstance(matrix, (AmdMfma, AmdWmma)):
        return
    family = "mfma" if isinstance(matrix, AmdMfma) else "wmma"
    if (tiles.target.mma, tiles.target.mma_version) != (family, matrix.version):
        have = [name for name, chip in TARGETS.items() if (chip.mma, chip.mma_version) == (family, matrix.version)]
        own = f"; that of {tiles.target} is {tiles.target.mma_version}" if tiles.target.mma == family else ""
        raise TargetError(f"TargetError at {op.site}: {tiles.target} cannot hold a tile in {matrix}: version {matrix.version} of "
                          f"{family.upper()} is of {', '.join(have) or 'no chip here'}{own}.\nMend: compile for a chip that has "
                          "it, or leave the layout out.")
    if isinstance(matrix, AmdMfma):
        rank, warps = len(matrix.warps), prod(matrix.warps)
    else:
        rank, warps = len(shape) if not matrix.warps else len(matrix.warps[0]), 1 << len(matrix.warps)
    if rank != len(shape):
        raise LayoutConflict(f"{layout} is for tiles of rank {rank}; this one is {list(shape)}.", op.site,
                             hint="give the layout a number of warps for each dimension of the tile.")
    if warps != tiles.num_warps:
        raise LayoutConflict(f"{layout} is for {warps} warps; this task has {tiles.num_warps}.", op.site,
                             hint="make the product of the layout's warps the number of warps of the task.")


def accumulator_of_author(op: Op, tiles: Tiles) -> AmdMfma | AmdWmma | None:
    """The accumulator layout that the operands of a product lie in, as its author has it; None if nobody has said.

    Raises `LayoutConflict` where two of them say different things, or the instruction does not multiply such elements.
    """
    said = [(value, found) for value in (op.acc, op.a, op.b) if (found := _said(value, tiles, value is op.acc)) is not None]
    if not said:
        return None
    first, layout = said[0]
    for value, other in said[1:]:
        if _placement(other) != _placement(layout):
            raise LayoutConflict("the operands of a product lie in layouts of different accumulators:\n"
                                 f"  {_because(first, tiles)}: {layout}\n  {_because(value, tiles)}: {other}", op.site,
                                 hint="make both from one accumulator layout, or release one of them.")
    for index, (value, name) in enumerate(((op.a, "a"), (op.b, "b"))):
        have = tiles[value].layout
        if isinstance(have, DotOperand) and isinstance(have.parent, (AmdMfma, AmdWmma)) and have.index != index:
            raise LayoutConflict(f"operand {'AB'[index]} of a product lies as operand {'AB'[have.index]}: {have}.", op.site,
                                 hint=f"make its layout dot_operand_layout({index}, ...).")
    layout = _with_depth(layout, op)
    _check_extents(layout, op)
    return layout


def accumulator_for(op: Op, tiles: Tiles) -> AmdMfma | None:
    """An MFMA accumulator for a product whose author names no layout; None if the chip, the elements or the extents have none.

    The largest square instruction that fits, with the longest K; warps where most instructions are left.
    """
    (rows, columns), version = op.result.type.shape[-2:], tiles.target.mma_version
    if tiles.target.mma != "mfma" or len(op.result.type.shape) != 2 or op.result.type.element.name not in ("fp32", "i32"):
        return None
    for size in (32, 16):
        fitting = [depth for depth in depths(version, (size, size), op.a.type.element) if depth <= op.a.type.shape[-1]]
        if fitting and min(rows, columns) >= size:
            return AmdMfma(version, (size, size, fitting[-1]), True, _warps_over(rows, columns, tiles.num_warps))
    return None


def scaled_accumulator(op: Op, tiles: Tiles) -> AmdMfma | None:
    """The accumulator layout of a product with block scales, as its author has it or as `tiles` of it says; None if it is Triton's
    affair: without either, and where `tiles`, a hint, cannot be followed.

    Raises `LayoutConflict` where the instruction does not multiply such operands.
    """
    said = [found for value in (op.acc, op.a, op.b) if (found := _said(value, tiles, value is op.acc)) is not None]
    fits = (tiles.target.mma_version == 4 and tiles.target.mma == "mfma" and (op.a_scale is None) == (op.b_scale is None)
            and op.a_k_pack and op.b_k_pack and {op.a_format.name, op.b_format.name} <= _SCALED_FORMATS
            and len(op.result.type.shape) == 2)
    depth = op.a.type.shape[-1] * (2 if op.a_format.name == "E2M1" else 1) if fits else 0
    if not said:
        return _by_tiles(op, depth, tiles) if op.attrs.get("tiles") else None
    layout = said[0]
    known = isinstance(layout, AmdMfma) and layout.instruction in _SCALED
    if not fits or not known or set(map(_placement, said)) != {layout} or depth < layout.instruction[2]:
        raise LayoutConflict(f"no matrix core instruction multiplies these blocks with scales in {layout}: gfx950 multiplies e2m1, "
                             f"e4m3 and e5m2, packed along K, by 16x16x128 and 32x32x64, with a scale for {_SCALED_BLOCK} elements "
                             "of each operand or none, all of one product in one layout.", op.site,
                             hint="write such an instr_shape, give both scales (127 is 1) or none, or release the tile before the "
                                  "product.")
    return layout


def _by_tiles(op: Op, depth: int, tiles: Tiles) -> AmdMfma | None:
    """The largest instruction of which as many as `tiles` says fit beside each other in every warp, or at least in one."""
    (rows, columns), (down, across) = op.result.type.shape[-2:], op.attrs["tiles"][-2:]
    warps = _warps_over(rows, columns, tiles.num_warps)
    if down & (down - 1) or across & (across - 1):
        return None
    for below, beside in (warps, (1, 1)):
        for instruction in _SCALED:
            size = instruction[0]
            if rows >= size * down * below and columns >= size * across * beside and depth >= instruction[2]:
                return AmdMfma(4, instruction, True, warps, 32, (down, across))
    return None


def _warps_over(rows: int, columns: int, count: int) -> tuple[int, int]:
    """Warps along both dimensions, so that the tiles of a warp are nearly square."""
    warps = [1, 1]
    while prod(warps) < count:
        warps[0 if rows // warps[0] >= columns // warps[1] else 1] *= 2
    return tuple(warps)


def operand_layouts(op: Op, layout: AmdMfma | AmdWmma, tiles: Tiles) -> tuple[DotOperand, DotOperand]:
    """The layouts in which a product takes its operands: neighbours along K as the author has them, else as the instruction."""
    widths = {value: have.k_width for value in (op.a, op.b)
              if isinstance(have := tiles[value].layout, DotOperand) and isinstance(have.parent, (AmdMfma, AmdWmma))}
    if len(set(widths.values())) > 1:
        raise LayoutConflict(f"operand A of a product has {widths[op.a]} neighbours along K in a lane, operand B {widths[op.b]}.",
                             op.site, hint="give both operands one k_width.")
    width = next(iter(widths.values()), None) or natural_width(layout, op.a.type.element)
    if isinstance(layout, AmdMfma) and min(layout.instruction[:2]) == 4 and width != layout.instruction[2] // 16:
        raise LayoutConflict(f"operands of {layout} have {layout.instruction[2] // 16} neighbours along K in a lane, not {width}.",
                             op.site, hint=f"make k_width {layout.instruction[2] // 16}.")
    return DotOperand(0, layout, width), DotOperand(1, layout, width)


def natural_width(layout: AmdMfma | AmdWmma, element: Scalar) -> int:
    """The neighbours along K of an operand that one lane hands to one instruction."""
    if isinstance(layout, AmdWmma):
        return max(1, min(_NEIGHBOURS_BYTES // element.bytes, layout.instruction[2] // 2))
    rows, columns, depth = layout.instruction
    if layout.instruction in _SCALED:
        return SCALED_WIDTH
    return depth // 16 if rows != columns else max(1, depth * rows // 64)


def depths(version: int, tile: tuple[int, int], element: Scalar, tf32: bool = False) -> tuple[int, ...]:
    """K of each MFMA instruction of M x N = `tile` for operands of that element; empty if there is none."""
    size = min(tile)
    if element.name.startswith("fp8"):
        whole = tuple(depth for rows, _, depth in _SCALED if rows == size and version == 4)
        return _GFX942[8].get(size, ()) + whole if element.name in _FP8[version] and size > 4 else ()
    if element.name == "i8":
        return (_GFX942[8] if version == 3 else _GFX950_INT8).get(size, ())
    if element.name == "fp32" and tf32 and version == 3:
        return _TF32.get(size, ())
    table = _GFX942 if version == 3 else _GFX950
    return table[element.bits].get(size, ()) if element.name in ("fp16", "bf16", "fp32", "fp64") else ()


def _said(value: Value, tiles: Tiles, is_sum: bool) -> AmdMfma | AmdWmma | None:
    """The accumulator of which a sum, or an operand, has the layout. One that lies as an accumulator is another product's."""
    layout = tiles[value].layout
    if not is_sum:
        layout = layout.parent if isinstance(layout, DotOperand) else None
    return layout if isinstance(layout, (AmdMfma, AmdWmma)) else None


def _placement(layout: AmdMfma | AmdWmma) -> AmdMfma | AmdWmma:
    """The layout without what leaves every element of an accumulator where it is: K of WMMA, whose author need not know it."""
    return replace(layout, instruction=layout.instruction[:2]) if isinstance(layout, AmdWmma) else layout


def _because(value: Value, tiles: Tiles) -> str:
    choice = tiles[value]
    return choice.reason or (f"{at(choice.origin.site)} {choice.origin.name}" if choice.origin else "a tile")


def _with_depth(layout: AmdMfma | AmdWmma, op: Op) -> AmdMfma | AmdWmma:
    """The layout with K of an instruction for the product's elements; refused where there is none of that K."""
    element, other = op.a.type.element, op.b.type.element
    if isinstance(layout, AmdWmma):
        found = _WMMA.get(element.name, ())
        if not found:
            raise LayoutConflict(f"no WMMA instruction multiplies {element}.", op.site,
                                 hint=f"convert to one of {', '.join(_WMMA)}.")
        return layout if layout.instruction[2] in found else replace(layout, instruction=(*layout.instruction[:2], found[0]))
    if op.result.type.element.name not in ("fp32", "fp64", "i32") or (
            (op.result.type.element.bits == 64) != (layout.element_bits == 64)):
        raise LayoutConflict(f"{layout} is for sums of {layout.element_bits} bits; this product gives {op.result.type.element}.",
                             op.site, hint="matrix cores sum in fp32, int8 in i32 and fp64 in fp64 (element_bitwidth=64); convert "
                             "the sum afterwards.")
    found = depths(layout.version, layout.instruction[:2], element, getattr(op.precision, "name", "") == "TF32")
    if element.bits != other.bits or layout.instruction[2] not in found:
        tile, depth = "x".join(map(str, layout.instruction[:2])), layout.instruction[2]
        there = f"those of {tile} have K = {' or '.join(map(str, found))}" if found else f"no instruction has {tile} for {element}"
        mend = f"write K = {found[-1]} into instr_shape." if found else "convert the operands, or take another tile."
        raise LayoutConflict(f"no matrix core instruction {tile}x{depth} multiplies {element} by {other}: {there}.", op.site,
                             hint=mend)
    return layout


def _check_extents(layout: AmdMfma | AmdWmma, op: Op) -> None:
    """Refuse tiles that are smaller than the instruction."""
    have = (*op.result.type.shape[-2:], op.a.type.shape[-1])
    for name, extent, least in zip("MNK", have, layout.instruction, strict=True):
        if extent < least:
            raise LayoutConflict(f"{layout} multiplies {least} along {name} at a time; this product has {extent}.", op.site,
                                 hint="take a smaller instruction, or larger tiles.")

