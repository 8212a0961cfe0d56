"""Reads the requirements on buffers off a program: from how the rows of its ops want each buffer to lie (`lies`).

Input: a program and the views of its buffers. Output: `Requirement`s in program order. An example:

    tma_load %descriptor (%i, %j) %full %tile        lies="buffer=block": the allocation of %tile lies as the descriptor's block
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...errors import LayoutConflict
from ...ir.core import Op, Program, Value
from ...ir.layouts import NvmmaShared
from ...ir.tensor_memory import holds_scales, is_repeated
from ...ir.types import Buffer
from .defaults import nvmma_shared, plain_shared
from .requirements import AnyNvmma, Atoms, Exactly, Impossible, InOrder, Moved, Outermost, Requirement, StartsAt, WholeTiles
from .views import View, is_retyped

Views = dict[Value, tuple[View, ...]]
_TMA_BOX = 256  # elements along a dimension of one copy, at most: PTX ISA, tensors
_ATOM_ROWS, _ATOM_BYTES = 8, 128    # of the widest swizzle
_TMA_BEGINS = 128  # multiples of bytes of shared memory: PTX ISA, cp.async.bulk.tensor


def find_requirements(program: Program, views: Views) -> list[Requirement]:
    """Every requirement of every op, in program order."""
    found = yielding_to_pins([requirement for op in program.walk() for requirement in _demands(op, views)])
    indexed = {requirement.alloc for requirement in found if isinstance(requirement.layouts, Outermost)}
    return found + [requirement for op in program.walk() for requirement in _whole(op, views, indexed)]


def _demands(op: Op, views: Views) -> Iterator[Requirement]:
    if op.row.view in _BY_VIEW and isinstance(op.result.type, Buffer) and op.result.type.space == "smem":
        yield from _BY_VIEW[op.row.view](op, views)
    for name, kind in op.row.lies.items():
        if kind in _BY_KIND and isinstance(getattr(op, name).type, Buffer) and getattr(op, name).type.space == "smem":
            yield from _BY_KIND[kind](op, getattr(op, name), views)


def _whole(op: Op, views: Views, indexed: set[Value]) -> Iterator[Requirement]:
    """Requirements of ops that take the rest of an allocation as one tile, where an index has removed dimensions of the
    allocation."""
    for name, kind in op.row.lies.items():
        value = getattr(op, name)
        for view in views.get(value, ()) if kind in _WHOLE else ():
            if view.alloc in indexed:
                yield Requirement(view.alloc, WholeTiles(len(view.dims), len(view.alloc.type.shape)), op.site, op.name,
                                  f"it takes a whole tile of {value.type}")


def _index(op: Op, views: Views) -> Iterator[Requirement]:
    source = op.buffer.type
    for view in views.get(op.buffer, ()) if source.count == 0 and len(source.shape) > 1 else ():
        whole = len(view.alloc.type.shape)
        yield Requirement(view.alloc, Outermost(view.dims[0], whole - len(view.dims), whole), op.site, "local_view",
                          f"it indexes the leading dimension of one {source}")


def _reinterpret(op: Op, views: Views) -> Iterator[Requirement]:
    """The layout that the author pinned; and the bytes of a slice in order, which only plain rows have."""
    if op.attrs.get("layout") is not None:
        for view in views[op.result]:
            yield Requirement(view.alloc, Exactly(op.attrs["layout"]), op.site, op.name, "its layout= argument pins it", pins=True)
    for view in views.get(op.buffer, ()):
        if view.slices and is_retyped(op):
            yield Requirement(view.alloc, Exactly(plain_shared(len(view.alloc.type.shape))), op.site, op.name,
                              "it sees the bytes of a slice as another type or shape")


def _allocation(op: Op, views: Views) -> Iterator[Requirement]:
    layout = op.attrs.get("layout")
    if layout is not None:
        yield Requirement(op.result, Exactly(layout), op.site, "local_alloc", "its layout= argument pins it", pins=True)
    place = op.attrs.get("place")
    if place is not None and place.boundary:
        yield Requirement(op.result, StartsAt(place.boundary), op.site, "local_alloc", f"its storage puts it at {place}")


def _block(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    shape, element = op.descriptor.type.shape, op.descriptor.type.element
    for wanted in _as_block(op, buffer, views, shape):
        yield replace(wanted, descriptor=op.descriptor, block=nvmma_shared(shape, element))


def yielding_to_pins(found: list[Requirement]) -> list[Requirement]:
    """The requirements, those of blocks as the author of the buffer has it: with another swizzle than the widest, with none, or
    padded for fp4. TMA can write each of these; what else is pinned stays a disagreement. AMD's data mover knows rows alone: the
    word has warned, and the pin is none."""
    moved = [(one.alloc, one.layouts) for one in found if isinstance(one.layouts, Moved)]
    found = [one for one in found if not (one.pins and isinstance(one.layouts, Exactly) and any(
        alloc is one.alloc and not wanted.accepts(one.layouts.layout) for alloc, wanted in moved))]
    pins = {one.alloc: one.layouts.layout for one in found if one.pins and isinstance(one.layouts.layout, NvmmaShared)}
    return [_yielding(one, pins[one.alloc]) if one.block is not None and one.alloc in pins else one for one in found]


def _yielding(requirement: Requirement, pin: NvmmaShared) -> Requirement:
    wanted = requirement.layouts
    if not isinstance(wanted, Exactly) or replace(wanted.layout, swizzle=pin.swizzle, fp4_padded=pin.fp4_padded) != pin:
        return requirement
    return replace(requirement, layouts=Exactly(pin),
                   block=replace(requirement.block, swizzle=pin.swizzle, fp4_padded=pin.fp4_padded))


def _gathered(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    """Rows that are copied one by one lie as if TMA had copied the whole tile."""
    return _as_block(op, buffer, views, buffer.type.shape)


def _as_block(op: Op, buffer: Value, views: Views, shape: tuple[int, ...]) -> Iterator[Requirement]:
    descriptor = op.descriptor.type
    layout = nvmma_shared(shape, descriptor.element)
    for view in views[buffer]:
        for cut, _ in view.slices:
            _check_whole_atoms(op, cut, layout)
        yield Requirement(view.alloc, _seen_as(layout, view), op.site, op.name, f"its descriptor is {descriptor}")


def _seen_as(layout: NvmmaShared, view: View) -> Exactly | Impossible:
    """The layout of the allocation that makes the view have `layout`."""
    rank, tile = len(view.alloc.type.shape), len(view.dims)
    if view.dims == tuple(range(rank - tile, rank)):
        return Exactly(replace(layout, rank=tile))
    if tile == 2 and view.dims == (rank - 1, rank - 2):
        return Exactly(replace(layout, transposed=not layout.transposed))
    return Impossible(f"{layout} through a view that permutes {rank} dimensions")


def _check_whole_atoms(op: Op, cut: Op, layout: NvmmaShared) -> None:
    """TMA writes whole swizzle atoms, so a slice must begin and end on their borders.

    Offsets known only at run time are the author's word.
    """
    source, offsets, shape = cut.buffer.type, cut.offsets, cut.shape
    element_bytes = source.element.bytes
    if not layout.swizzle and shape[-1] != source.shape[-1]:
        _check_start(op, cut, offsets[-1], shape[-1])
    if len(shape) == 1:
        return
    atom_bytes = max(16, layout.swizzle)
    atom = {len(shape) - 1: max(1, atom_bytes // element_bytes), len(shape) - 2: 8}
    for dim, step in atom.items():
        offset = offsets[dim] if isinstance(offsets[dim], int) else 0
        whole = offset == 0 and shape[dim] == source.shape[dim]
        if not whole and (offset % step or shape[dim] % step):
            raise LayoutConflict(
                f"{op.name} on a slice that cuts swizzle atoms: the {layout.swizzle}-byte swizzle of {op.descriptor.type} "
                f"moves bytes within atoms of 8 rows x {atom_bytes} bytes ({atom_bytes // element_bytes} elements of "
                f"{source.element}); dimension {dim} of the slice is [{offset}, {offset + shape[dim]}) of "
                f"{source.shape[dim]}, no multiple of {step}.", op.site, cut.site,
                hint="slice whole atoms, or give the slice a buffer of its own.")


def _check_start(op: Op, cut: Op, offset: int | Value, extent: int) -> None:
    """Refuse a slice at which TMA cannot begin: in rows without a swizzle it begins at multiples of 128 bytes. An offset
    known only at run time is a multiple of the slice's extent."""
    source = cut.buffer.type
    first, what = (offset, f"offset {offset}") if isinstance(offset, int) else (extent, f"a multiple of {extent}")
    size = first * source.element.bytes
    if size % _TMA_BEGINS:
        raise LayoutConflict(
            f"{op.name} on a slice at {what} of {source}: {first} x {source.element.bytes} bytes = {size} bytes, and TMA begins at "
            f"multiples of {_TMA_BEGINS} bytes of shared memory.", op.site, cut.site,
            hint=f"slice at multiples of {_TMA_BEGINS // source.element.bytes} elements, or give the slice a buffer of its own.")


def _dot_operand(letter: str, k_dim: int, either: tuple[int, ...]) -> Callable[[Op, Value, Views], Iterator[Requirement]]:
    """Elements of as many bits as in `either` in either order, others with K contiguous (PTX ISA, wgmma.mma_async: tnspA, tnspB;
    tcgen05 instruction descriptor: Transpose A, Transpose B)."""

    def demand(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
        element = buffer.type.element
        for view in views[buffer]:
            if element.bits in either:
                wanted, why = AnyNvmma(rank=len(view.dims)), f"operand {letter} is read from shared memory"
            else:
                dropped = len(view.alloc.type.shape) - len(view.dims)
                wanted = AnyNvmma(view.dims[k_dim] - dropped, len(view.dims))
                why = f"operand {letter} has {element.bits}-bit elements, which are read along K"
            yield Requirement(view.alloc, wanted, op.site, op.name, why)

    return demand


def _rows(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    return _plain_rows(op, buffer, views, "stores to another CTA compute addresses from plain rows")


def _elements(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    return _plain_rows(op, buffer, views, "accesses to another CTA compute addresses from plain rows")


def _alike(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    """Buffers of one shape and dtype get one layout (`buffers.py`) and are copied whole; of parts of them whole swizzle atoms are
    copied. Others lie in plain rows."""
    both = [getattr(op, name) for name, kind in op.row.lies.items() if kind == "alike"]
    if not same_tiles(*both, views):
        yield from _plain_rows(op, buffer, views, "its bytes are copied as they lie")
    elif any(view.slices for value in both for view in views[value]):
        narrow = any(cut.shape[1] != cut.buffer.type.shape[1] for value in both for view in views[value] for cut, _ in view.slices)
        for view in views[buffer]:
            yield Requirement(view.alloc, Atoms(narrow), op.site, op.name, "a part of it is copied as it lies")


def same_tiles(first: Value, second: Value, views: Views) -> bool:
    """True if both values are tiles of equal shape and dtype, whole or whole swizzle atoms of bigger ones, so that one layout for
    both makes their bytes equal."""
    seen = [view for value in (first, second) for view in views[value]]
    if first.type != second.type or len({view.dims for view in seen}) != 1:
        return False
    return all(_is_whole_atoms(cut) and view.dims == dims_of_tile(view) for view in seen for cut, _ in view.slices)


def dims_of_tile(view: View) -> tuple[int, ...]:
    """The last dimensions of the allocation, in order."""
    rank = len(view.alloc.type.shape)
    return tuple(range(rank - len(view.dims), rank))


def _is_whole_atoms(cut: Op) -> bool:
    """True for rows by eights, and columns by 128 bytes, of two dimensions: no swizzle moves a byte across such borders. An offset
    known only at run time is a multiple of the slice's extent."""
    if len(cut.shape) != 2:
        return False
    source, steps = cut.buffer.type, (_ATOM_ROWS, max(1, _ATOM_BYTES // cut.buffer.type.element.bytes))
    return all(extent == whole and offset in (0, None) or extent % step == 0 and (offset or 0) % step == 0
               for extent, whole, step, offset in zip(cut.shape, source.shape, steps, (
                   one if isinstance(one, int) else None for one in cut.offsets)))


def _plain_rows(op: Op, value: Value, views: Views, why: str) -> Iterator[Requirement]:
    for view in views[value]:
        rank = len(view.alloc.type.shape)
        if view.dims != tuple(range(rank - len(view.dims), rank)) or not all(_consecutive(cut) for cut, _ in view.slices):
            raise LayoutConflict(f"{op.name} needs a buffer whose elements lie one after the other, and this is a view of "
                                 f"{view.alloc.name or 'a buffer'} that is transposed or cut along another dimension than the "
                                 "first.", op.site, hint="give it a buffer of its own, or slice whole rows.")
        yield Requirement(view.alloc, Exactly(plain_shared(rank)), op.site, op.name, why)


def _consecutive(cut: Op) -> bool:
    """True if the slice is one stretch of its source's rows."""
    shape, source = cut.shape, cut.buffer.type.shape
    first = next((dim for dim, extent in enumerate(shape) if extent > 1), len(shape))
    return tuple(shape[first + 1:]) == tuple(source[first + 1:])


def _bytes(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    why = ("an answer is consecutive bytes" if "response" in op.row.places else
           "native code takes it row after row; tle.gpu.copy by pointers brings it so, tle.raw.call spills a tile so"
           if "declared" in op.row.traits else "a bulk copy moves consecutive bytes")
    for rows in _plain_rows(op, buffer, views, why):
        yield replace(rows, layouts=InOrder())  # what TMA makes of one dimension will do, too


def _moved(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    """A tile, or whole rows of one: the engine writes a block without a gap but for the padding."""
    for rows in _plain_rows(op, buffer, views, "the data mover copies a block row by row"):
        yield replace(rows, layouts=Moved(buffer.type.element.bits, buffer.type.shape, op.row.copy == "out"))


def _packed(op: Op, buffer: Value, views: Views) -> Iterator[Requirement]:
    """Requirements of tcgen05.cp: packed scales follow each other, and TMA brings their blocks without a swizzle; tiles have
    K contiguous, as operands lie."""
    tile = "buffer" in op.row.places and not holds_scales(op.buffer.type) and not is_repeated(
        op.source.type.shape, *op.buffer.type.shape)
    rank, shape = len(buffer.type.shape), buffer.type.shape
    stripes = rank == 2 and shape[0] > 1 and shape[1] > _TMA_BOX
    scales = Exactly(plain_shared(rank) if stripes else NvmmaShared(0, 8, rank))
    for view in views[buffer]:
        dropped = len(view.alloc.type.shape) - rank
        if tile:
            yield Requirement(view.alloc, AnyNvmma(view.dims[1] - dropped, rank), op.site, op.name, "a tile is read along its rows")
            continue
        whole = view.dims == tuple(range(dropped, dropped + rank)) and not dropped
        yield Requirement(view.alloc, scales if whole else Impossible("packed scales that are turned"), op.site, op.name,
                          "packed scales are read as they follow each other", pins=True)


# What an op demands for how its row says that an operand lies; the other ways to lie suit any layout.
_BY_KIND = {"block": _block, "gathered": _gathered, "lhs": _dot_operand("A", 1, (16, )), "rhs": _dot_operand("B", 0, (16, )),
            "left": _dot_operand("A", 1, (8, 16)), "right": _dot_operand("B", 0, (8, 16)), "rows": _rows, "elements": _elements,
            "alike": _alike, "bytes": _bytes, "packed": _packed, "moved": _moved}
# What allocations and two kinds of views demand by what their authors said of the result.
_BY_VIEW = {"placed": _allocation, "slot": _index, "retyped": _reinterpret}
# The ways to lie of a buffer that an op takes as one whole tile.
_WHOLE = frozenset(("free", "tile", "block", "gathered", "lhs", "rhs", "left", "right", "rows", "alike", "bytes", "packed",
                    "moved"))
