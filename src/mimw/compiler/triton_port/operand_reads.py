"""Tiles from shared memory that become operands of a product on the way: read as the product wants them, not element by element.

Input: a module after Triton's accelerate_matmul. Output: the same module, changed in place; each read stands where it stood, and
gives its tile in another layout. For `tl.dot(q, local_load(k).to(bf16))`, with 8-bit elements of `k` that lie together along K:

    before    %k: #blocked  ->  tt.fp_to_fp  ->  convert_layout  ->  dot_op<#mma, kWidth = 2>      bytes, and a trip through scratch
    after     %k: dot_op<#mma, kWidth = 4>   ->  tt.fp_to_fp                                       `ldmatrix`, nothing else

Triton carries an operand's layout through casts and transposes up to a `tt.load` (remove_layout_conversions), and takes the width
of its elements from there (accelerate_matmul); for a `ttg.local_load` it does neither. So the author's read keeps the default
layout, one element a thread, and what was made of the tile goes through shared memory once more. Here

* what the tensor core takes from registers, and lies together along K, is read as an operand; elements of 16 bits `ldmatrix` turns;
* anything else is read 16 bytes at a time, and so written in wide pieces where it goes through shared memory: what wgmma and
  tcgen05 read there, and bytes that are turned;
* mma.sync may count K by twos or by fours, both operands alike (`_Reads._mma_sync`).

What is left: operands of 8 bits that the tensor core takes as they are, and that do not lie along K, are read byte by byte.

No other task sees a difference: a read stays one op in its place among the effects, of the same bytes; no fence, wait or arrival
moves. Only tiles of which every use is on the way to one product are touched. A layout that the author pinned, to elements of 16
bits or more, stands behind assembly (`lowering.anchor`), and what lies behind assembly is not looked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from .differences import GluonOpBuilder
from .tile_types import Tile, contiguous, lying_along, number, numbers, types

_WIDEST = 128  # bits: PTX ISA, ld.shared.v4.b32; AMD, ds_read_b128
_PRODUCTS = ("ttng.warp_group_dot", "ttng.tc_gen5_mma")
_READ, _CONVERSION, _TURN = "ttg.local_load", "ttg.convert_layout", "tt.trans"
_CASTS = {
    "tt.fp_to_fp": lambda builder, value, type_: builder.create_fp_to_fp(value, type_, None),
    "arith.extf": lambda builder, value, type_: builder.create_fp_ext(value, type_),
    "arith.truncf": lambda builder, value, type_: builder.create_fp_trunc(value, type_),
    "arith.sitofp": lambda builder, value, type_: builder.create_si_to_fp(value, type_),
    "arith.uitofp": lambda builder, value, type_: builder.create_ui_to_fp(value, type_),
}


def read_operands(module) -> None:
    """Change the layouts of such reads, in place."""
    _Reads(module).change()


@dataclass(frozen=True)
class _Way:
    """The origin of an operand: read from a buffer, or else converted, then cast; `turned` if the tile that was read is
    transposed.

    `tile` is the type in which it begins. Every value on the way has one user.
    """

    begin: object
    tile: Tile
    casts: tuple
    turned: bool

    @property
    def is_read(self) -> bool:
        return self.begin.get_name() == _READ

    @property
    def may_change(self) -> bool:
        """True for a read that something is made of, in a layout of the kind that the solver gives to reads."""
        return self.is_read and bool(self.casts or self.turned) and self.tile.layout.startswith("#ttg.blocked")

    @property
    def along(self) -> int | None:
        """The operand's dimension along which its elements lie together in shared memory, if that is known."""
        along = contiguous(self.begin.get_operand(0).get_type())
        return 1 - along if self.turned and along is not None else along


class _Reads:
    """The ops of a module by the values that they make, and by those that they take."""

    def __init__(self, module):
        self.context = module.context
        self.builder = GluonOpBuilder(module.context)
        self.makes, self.takes = {}, {}
        module.walk(self._look)

    def _look(self, op) -> None:
        for index in range(op.get_num_results()):
            self.makes[op.get_result(index).id()] = op
        for index in range(op.get_num_operands()):
            self.takes.setdefault(op.get_operand(index).id(), []).append(op)

    def change(self) -> None:
        for op in {op.get_result(0).id(): op for op in self.makes.values()}.values():
            if op.get_name() in ("tt.dot", "ttng.warp_group_dot"):
                self._product(op)
            elif op.get_name() == "ttg.local_alloc" and op.get_num_operands() == 1:
                self._buffer(op)

    def _way(self, value) -> _Way | None:
        """The way of a tile of two dimensions, up to its read or else to the first conversion; None if there is neither."""
        begin, casts, turned = None, [], False
        while (op := self._maker(value)) is not None:
            name = op.get_name()
            if name == _READ or name == _CONVERSION:
                begin = (op, len(casts), turned)
            elif name == _TURN:
                turned = not turned
            elif _is_cast(op):
                casts.append(op)
            if name == _READ or name not in (_CONVERSION, _TURN) and not _is_cast(op):
                break
            value = op.get_operand(0)
        if begin is None:
            return None
        op, count, turned = begin
        tile = Tile.of(op.get_result(0).get_type())
        if tile is None or len(tile.shape) != 2 or turned and op.get_name() != _READ:
            return None
        return _Way(op, tile, tuple(reversed(casts[:count])), turned)

    def _maker(self, value):
        """The op that makes `value`, if one op takes the value, once."""
        return self.makes.get(value.id()) if len(self.takes.get(value.id(), ())) == 1 else None

    # ---- products ---------------------------------------------------------------------------------------------------

    def _product(self, dot) -> None:
        operands = [dot.get_operand(index) for index in (0, 1)]
        tiles = [Tile.of(value.get_type()) for value in operands]
        if all(tile is not None and "#ttg.nvidia_mma<{versionMajor = 2" in tile.layout for tile in tiles):
            self._mma_sync(operands, tiles)
            return
        for index, (value, tile) in enumerate(zip(operands, tiles)):
            if tile is None or not tile.layout.startswith("#ttg.dot_op<") or not number("kWidth", tile.layout):
                continue
            if (way := self._way(value)) is not None and way.may_change:
                self._read_by(value, way, tile, index)

    def _mma_sync(self, operands, tiles) -> None:
        """A product of mma.sync of 16-bit operands.

        By fours a thread takes four elements that lie together, which is what `ldmatrix` brings of 8-bit elements: so K is counted
        that way if the other operand can be had in it, too. By twos `ldmatrix` turns 16-bit elements, and what another product gave
        already lies in registers. Triton counts by fours where it widens fp8 operands by itself, also those that are turned.
        """
        width = number("kWidth", tiles[0].layout)
        if any(tile.bits != 16 or len(tile.shape) != 2 for tile in tiles) or width not in (2, 4):
            return
        ways = [self._way(value) for value in operands]
        if any(way is not None and way.is_read and way.tile.bits == 8 and way.casts for way in ways):
            fitting = [count for count in (4, 2) if all(_can_count(way, count, width, index) for index, way in enumerate(ways))]
            wanted = fitting[0] if fitting else width
        else:
            wanted = width
        for index, (value, tile, way) in enumerate(zip(operands, tiles, ways)):
            if way is None or wanted == width and not way.may_change:
                continue
            counted = _counted(tile, wanted)
            if way.is_read:
                self._read_by(value, way, counted, index)
            else:
                self._put(value, self._rebuilt(way, counted.layout), counted)

    def _buffer(self, alloc) -> None:
        """A buffer that Triton has made for an operand. One of 16 bits lies like its source: the tensor core takes both ways."""
        value, buffer = alloc.get_operand(0), alloc.get_result(0)
        if (way := self._way(value)) is None or not way.may_change or not way.casts:
            return
        type_ = buffer.get_type()
        products = all(op.get_name() in _PRODUCTS for op in self.takes.get(buffer.id(), ()))
        turned = way.along is not None and contiguous(type_) not in (None, way.along)
        text = lying_along(type_, way.along) if turned and products and Tile.of(value.get_type()).bits == 16 else None
        self._read_wide(value, way)
        if text is not None:
            self._stand_behind(alloc)
            buffer.replace_all_uses_with(self.builder.create_local_alloc(types([text], self.context)[0], alloc.get_operand(0)))

    def _read_by(self, value, way: _Way, tile: Tile, index: int) -> None:
        """Operand `index` of a product, read as the product wants it, as `tile`, or in wide pieces where that is better."""
        width, bits = number("kWidth", tile.layout), way.tile.bits
        together = way.along == 1 - index and width > 1
        by_matrices = bits == 16 and width == 2 and "#ttg.nvidia_mma" in tile.layout
        bytes_of_mma_sync = bits == 8 and width == 2 and "versionMajor = 2" in tile.layout
        if together and not bytes_of_mma_sync or by_matrices and way.along is not None:
            self._put(value, self._rebuilt(way, tile.layout), tile)
        elif way.casts:
            self._read_wide(value, way, tile)

    def _read_wide(self, value, way: _Way, tile: Tile | None = None) -> None:
        """The tile in a layout in which each thread reads as many bytes at a time as it can, and then as `tile`."""
        if (wide := _wide(way)) is not None:
            self._put(value, self._rebuilt(way, wide), tile)

    def _put(self, value, new, tile: Tile | None) -> None:
        """`new` in the place of `value`, as `tile`. Two layouts of one text need not be the same to MLIR, since not all parts of
        MFMA's are printed: so a type that stays is the old one."""
        if tile is not None:
            type_ = value.get_type() if str(tile) == str(value.get_type()) else types([tile], self.context)[0]
            if new.get_type() != type_:
                new = self.builder.create_convert_layout(type_, new)
        value.replace_all_uses_with(new)

    # ---- ops --------------------------------------------------------------------------------------------------------

    def _rebuilt(self, way: _Way, layout: str):
        """The operand built anew, with all tiles on its way in this layout."""
        tiles = [Tile.of(op.get_result(0).get_type()) for op in (way.begin, *way.casts)]
        shape = tiles[0].shape[::-1] if way.turned else tiles[0].shape
        first, *others = types([Tile(shape, tile.element, layout) for tile in tiles], self.context)
        self._stand_behind(way.begin)
        source = way.begin.get_operand(0)
        if way.turned:
            source = self.builder.create_memdesc_trans(source, [1, 0])
        create = self.builder.create_local_load if way.is_read else self.builder.create_convert_layout
        value = create(first, source)
        for op, type_ in zip(way.casts, others):
            self._stand_behind(op)
            value = _CASTS[op.get_name()](self.builder, value, type_)
        return value

    def _stand_behind(self, op) -> None:
        """Insert the next ops behind `op`, with the location of `op`."""
        self.builder.set_insertion_point_after(op)
        self.builder.set_loc(self.builder.get_loc())


def _is_cast(op) -> bool:
    """True for an op that makes elements of another type; `tt.fp_to_fp` to fewer bits says how it rounds, which is not kept."""
    name = op.get_name()
    if name != "tt.fp_to_fp":
        return name in _CASTS
    given, made = Tile.of(op.get_operand(0).get_type()), Tile.of(op.get_result(0).get_type())
    return given is not None and given.bits <= made.bits


def _counted(tile: Tile, width: int) -> Tile:
    """The operand with its K counted by `width` elements."""
    return tile.in_layout(re.sub(r"kWidth = \d+", f"kWidth = {width}", tile.layout))


def _can_count(way: _Way | None, width: int, now: int, index: int) -> bool:
    """True if operand `index` of a product of mma.sync can be had in this count of K, without bytes that are read one by one
    and without a shuffle of another product's result."""
    if way is None:
        return width == now
    if not way.is_read:
        given = Tile.of(way.begin.get_operand(0).get_type())
        return width in (2, now) or given is not None and given.layout.startswith("#ttg.blocked")
    if width == 4:
        return way.along == 1 - index
    return way.along is not None and (way.tile.bits == 16 or bool(way.casts) and _wide(way) is not None)


def _wide(way: _Way) -> str | None:
    """A blocked layout of the buffer's tile, as the operand sees it: threads lie along rows of shared memory, each with 16
    bytes. None where the rows are not known, and in programs of several CTAs."""
    along, layout = way.along, way.tile.layout
    if along is None or "CGALayout" in layout:
        return None
    blocked = layout.startswith("#ttg.blocked")
    warps, lanes = prod(numbers("warpsPerCTA", layout)), prod(numbers("threadsPerWarp", layout)) if blocked else 32
    shape = way.tile.shape[::-1] if way.turned else way.tile.shape
    each = min(_WIDEST // way.tile.bits, shape[along], max(1, prod(shape) // (lanes * warps)))
    across = min(lanes, shape[along] // each)
    down = min(warps, max(1, shape[1 - along] // (lanes // across)))
    sizes, threads, groups = ([pair[along], pair[1 - along]]
                              for pair in ((each, 1), (across, lanes // across), (warps // down, down)))
    return (f"#ttg.blocked<{{sizePerThread = {sizes}, threadsPerWarp = {threads}, warpsPerCTA = {groups}, "
            f"order = {[along, 1 - along]}}}>")
