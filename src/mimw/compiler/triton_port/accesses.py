"""Layouts in which a finished kernel reads and writes its buffers: the result of Triton's passes for the tiles on either
side.

Input: a module after Triton's passes. Output: by the number of a recorded op, the layouts of tiles:

    buffer_accesses(module)[12]        [BufferAccess(blocked([1, 8], ...), transposed=False, writes=True)], of the array of op 12
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from triton._C.libtriton import ir as mlir

from ...ir.layouts import (
    AmdMfma,
    AmdWmma,
    Blocked,
    Linear,
    LinearShared,
    Mma,
    PaddedShared,
    RegisterLayout,
    SharedLayout,
    Slice,
    SwizzledShared,
)
from .numbers import number_at, number_of
from .operand_layouts import operand_layout
from .text import ModuleText

_VIEWS = ("ttg.memdesc_index", "ttg.memdesc_trans")
_ACCESSES = ("ttg.local_load", "ttg.local_store")
_GLOBAL = {"tt.load": 0, "tt.store": 0, "tt.atomic_rmw": 0, "ttg.async_copy_global_to_local": 0}  # the operand with the pointers
_STORE = re.compile(r"^ *ttg\.local_store .* : (tensor<.*>) -> .* loc\((#loc\d*)\)$", re.MULTILINE)
_OPERAND = re.compile(r"#ttg\.dot_op<\{opIdx = ([01]), parent = #ttg\.amd_")
_TENSOR = re.compile(r"tensor<((?:\d+x)+)[^,]+, (#.*)>$")
_WHOLE = re.compile(r", (\d+(?:x\d+)*)>$")


@dataclass(frozen=True)
class BufferAccess:
    """One read or write of a 2-D tile: its layout (None for a kind not read here), whether the buffer is seen transposed, whether
    it is written; of a tile that a matrix instruction of AMD's takes, as which operand."""

    layout: RegisterLayout | None
    transposed: bool
    writes: bool
    operand: int | None = None


@dataclass
class _Walk:
    """The findings of one walk over a module: values by their identity."""

    allocs: dict[int, int | None] = field(default_factory=dict)
    root: dict[int, int] = field(default_factory=dict)  # view -> what it is a view of
    uses: list[tuple] = field(default_factory=list)  # (op, value) for each use of a memory descriptor
    blocks: dict[int, object] = field(default_factory=dict)  # region -> its block
    partitions: list = field(default_factory=list)

    def visit(self, op) -> None:
        name, block = op.get_name(), op.get_block()
        if block is not None:
            self.blocks.setdefault(block.get_parent().id(), block)
        if name == "ttg.warp_specialize.partitions":
            self.partitions.append(op)
        elif name == "ttg.local_alloc":
            self.allocs[op.get_result(0).id()] = number_of(op.get_result(0))
        elif name in _VIEWS:
            self.root[op.get_result(0).id()] = op.get_operand(0).id()
        if name not in _VIEWS and name != "ttg.local_dealloc" and name != "ttg.warp_specialize.partitions":
            for index in range(op.get_num_operands()):
                value = op.get_operand(index)
                if str(value.get_type()).startswith("!ttg.memdesc"):
                    self.uses.append((op, value))

    def alloc_of(self, value: int) -> int | None:
        while value in self.root:
            value = self.root[value]
        return value if value in self.allocs else None


def buffer_accesses(module) -> dict[int, list[BufferAccess]]:
    """The accesses of the module to the buffer array of each recorded `local_alloc`, by the op's number.

    The result has only arrays that are touched by nothing but reads and writes of whole buffers; it is empty if some access
    cannot be followed to its array.
    """
    walk = _Walk()
    module.walk(walk.visit)
    for op in walk.partitions:
        for number in range(op.get_num_regions()):
            block = walk.blocks[op.get_region(number).id()]
            for index in range(op.get_num_operands()):
                walk.root[block.get_argument(index).id()] = op.get_operand(index).id()
    found: dict[int, list[BufferAccess] | None] = {alloc: [] for alloc in walk.allocs}
    for op, value in walk.uses:
        alloc = walk.alloc_of(value.id())
        if alloc is None:
            return {}
        if op.get_name() not in _ACCESSES:
            found[alloc] = None
        elif found[alloc] is not None:
            writes = op.get_name() != "ttg.local_load"
            tile = op.get_operand(0) if writes else op.get_result(0)
            type_, operand = str(tile.get_type()), _OPERAND.search(str(tile.get_type()))
            found[alloc].append(BufferAccess(_tile(type_), _is_transposed(str(value.get_type())), writes,
                                             int(operand[1]) if operand else None))
    numbers = list(walk.allocs.values())
    return {number: found[alloc] for alloc, number in walk.allocs.items()
            if number is not None and numbers.count(number) == 1 and found[alloc] is not None}


def accessed_layouts(module) -> dict[int, RegisterLayout | None]:
    """The layout of the pointers by which each recorded op accesses global memory, by the op's number (None: a kind that is not
    read here)."""
    found, builder = {}, mlir.builder(module.context)

    def look(op) -> None:
        if op.get_name() in _GLOBAL:
            pointers = str(op.get_operand(_GLOBAL[op.get_name()]).get_type())
            builder.set_insertion_point_after(op)   # the builder takes the op's location, also of one without results
            if pointers.startswith("tensor<"):
                found.setdefault(number_at(builder.get_loc()), _tile(pointers))

    module.walk(look)
    return found


@dataclass(frozen=True)
class Copy:
    """An asynchronous copy of a tile of pointers into a buffer: their layouts (None: a kind that is not read here), the shape, that
    of the whole buffer of which it fills a part, and the bits of an element."""

    number: int
    pointers: RegisterLayout | None
    buffer: SharedLayout | None
    shape: tuple[int, ...]
    allocated: tuple[int, ...]
    bits: int


def copies(module) -> list[Copy]:
    """The copies that recorded ops have become."""
    found = []

    def look(op) -> None:
        if op.get_name() == "ttg.async_copy_global_to_local" and (number := number_of(op.get_result(0))) is not None:
            pointers, buffer = str(op.get_operand(0).get_type()), str(op.get_operand(1).get_type())
            shape = tuple(int(extent) for extent in _TENSOR.match(pointers)[1].split("x") if extent)
            bits = int(re.search(r"!tt\.ptr<[a-z]+(\d+)", pointers)[1])
            allocated = _allocated(buffer, shape)
            found.append(Copy(number, _tile(pointers), _shared(buffer, allocated), shape, allocated, bits))

    module.walk(look)
    return found


def stored_layouts(module) -> dict[int, RegisterLayout | None]:
    """The layout of the tile that each recorded op stores whole, by the op's number (None: a kind that is not read here).

    Read from the module's text: an op without results has its place nowhere else.
    """
    text, found = ModuleText(module), {}
    for type_, where in _STORE.findall(text.text):
        found.setdefault(text.number(where), tile_layouts(text, type_)[0])
    return found


def tile_layouts(text: ModuleText, types: str) -> list[RegisterLayout | None]:
    """The layouts of the tiles in `types`, a list as it stands in a module's text, which has the long names of its layouts."""
    names = text.layouts
    spelled = re.sub(r"#\w+\b(?!\.)", lambda name: names.get(name[0], name[0]), types)
    return [_tile(tensor) for tensor in re.findall(r"tensor<[^#]*#(?:[^<>]|<[^<>]*(?:<[^<>]*>[^<>]*)*>)*>", spelled)]


def _is_transposed(buffer: str) -> bool:
    order = re.search(r"order = \[(\d+)", buffer)
    return order[1] == "0" if order else "transposed = true" in buffer


def _tile(type_: str) -> RegisterLayout | None:
    extents, encoding = _TENSOR.match(type_).groups()
    return _layout(encoding, tuple(int(extent) for extent in extents.split("x") if extent))


def _layout(text: str, shape: tuple[int, ...]) -> RegisterLayout | None:
    if text.startswith("#ttg.blocked"):
        return Blocked(*(tuple(_numbers(name, text)) for name in ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")))
    if text.startswith("#ttg.linear"):
        return Linear(*(tuple(map(tuple, _numbers(name, text))) for name in ("register", "lane", "warp")), shape)
    if found := re.match(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>$", text):
        axis = int(found[1])
        parent = _layout(found[2], (*shape[:axis], 1, *shape[axis:]))
        return None if parent is None else Slice(axis, parent)
    if text.startswith("#ttg.nvidia_mma") and "versionMajor = 3" in text:
        return Mma(tuple(_numbers("warpsPerCTA", text)), tuple(_numbers("instrShape", text)))
    if text.startswith("#ttg.amd_"):
        return _sum_of_amd(text)
    return operand_layout(text, shape)


def _sum_of_amd(text: str) -> AmdMfma | AmdWmma:
    """The layout of what AMD's matrix cores add up in. Tiles of a warp, wide elements and registers are there if not as usual."""
    version, shape = int(re.search(r"version = (\d+)", text)[1]), tuple(_numbers("instrShape", text))
    turned = re.search(r"isTransposed? = true", text) is not None
    if text.startswith("#ttg.amd_wmma"):
        warps, registers = (tuple(map(tuple, _numbers(name, text))) if f"{name} = [" in text else ()
                            for name in ("warp", "register"))
        return AmdWmma(version, turned, warps, registers, shape)
    warps, bits = tuple(_numbers("warpsPerCTA", text)), re.search(r"elementBitWidth = (\d+)", text)
    tiles = tuple(_numbers("tilesPerWarp", text)) if "tilesPerWarp" in text else (1, ) * len(warps)
    return AmdMfma(version, shape, turned, warps, int(bits[1]) if bits else 32, tiles)


def _allocated(buffer: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of the whole buffer that a view of that type is of; they stand last in it, unless they are the view's own."""
    whole = _WHOLE.search(buffer)
    return tuple(map(int, whole[1].split("x")))[-len(shape):] if whole else shape


def _shared(text: str, shape: tuple[int, ...]) -> SharedLayout | None:
    """The layout of a buffer of that type."""
    if "#ttg.swizzled_shared<" in text:
        return SwizzledShared(*(int(re.search(rf"{name} = (\d+)", text)[1]) for name in ("vec", "perPhase", "maxPhase")),
                              tuple(_numbers("order", text)))
    if found := re.search(r"#ttg\.padded_shared<\[(.*?)\] ", text):
        pairs = tuple((int(interval), int(padding)) for interval, padding in re.findall(r"(\d+):\+(\d+)", found[1]))
        return PaddedShared(pairs, _offsets(text, shape), shape)
    return LinearShared(_offsets(text, shape)) if "#ttg.shared_linear<" in text else None


def _offsets(text: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The coordinate that each bit of an offset stands for; MLIR prints an order where they go through the dimensions."""
    if "offset = [" in text:
        return tuple(map(tuple, _numbers("offset", text)))
    return tuple(tuple(1 << bit if at == axis else 0 for at in range(len(shape)))
                 for axis in _numbers("order", text) for bit in range(shape[axis].bit_length() - 1))


def _numbers(name: str, text: str) -> list:
    return json.loads(re.search(name + r" = (\[[\d, \[\]]*\])", text)[1])
