"""Readers of memory on chip: allocations, views, accesses by threads; shared memory, and the tensor memory of Blackwell.

Input: ops of `ttg` and `ttng` on `!ttg.memdesc`. Output: ours on buffers. For example:

    %2 = ttg.memdesc_index %1[%i] : ..                       buffer_index %1 %i
    %4 = ttg.local_alloc %3 : (tensor<..>) -> ..             local_alloc, then local_store of %3

Memory is that of the op: an allocation in a loop is the same memory in every trip. Tensor memory is there from the start, also for
a product or a copy of the other CTA of a pair, which may be a trip ahead: what is done to it the queue of that orders.
"""

from __future__ import annotations

from math import prod

from ...ir import Barrier, Buffer, Op, Tensor, Value
from .along_axis import in_a_row, numbered
from .cta_accesses import places
from .cta_ops import by_first, check_same, split_of
from .memory import KINDS
from .reading import Here, reads
from .reshaped import is_turned, side_by_side
from .same_bytes import Seen, seen


@reads("ttg.local_alloc", "ttng.tmem_alloc")
def allocated(here: Here):
    (buffer, *_) = here.results
    if isinstance(buffer.type, Barrier):
        return here.op("barrier_memory", buffer.type.count or 1)
    alloc = here.op("local_alloc", buffer.type, again=True, results=(buffer, ))
    ops = _ahead(here, alloc) if buffer.type.space == "tmem" else [alloc]
    if here.operands:
        texts = here.operand_texts[0], here.node.results[0][1]
        here.accesses(*texts)
        if buffer.type.space == "smem":
            return [*ops, *_stored(here, buffer, here.operands[0], texts)]
        check_same(here, *texts)
        ops.append(here.op("tmem_store", buffer, here.operands[0], results=()))
    return ops


def _ahead(here: Here, op: Op) -> list[Op]:
    """Place the op in front of all others; nothing stands here."""
    here.reader.ahead.append(op)
    return []


@reads("ttg.local_dealloc")
def freed(here: Here):
    buffer = here.operands[0]
    return None if isinstance(buffer.type, Barrier) else here.op("local_free", buffer)


@reads("ttg.memdesc_index")
def indexed(here: Here):
    source, index = here.operands
    return here.op("barrier_index" if isinstance(source.type, Barrier) else "buffer_index", source, index, lazy=True)


@reads("ttg.memdesc_subslice")
def sliced(here: Here):
    (source, ), (type_, ) = here.operands, here.types
    if isinstance(source.type, Barrier):
        return here.op("barrier_slice", source, here.listed()[0], type_.count)
    _check_cut(here)
    return here.op("buffer_slice", source, here.listed(), type_.shape)


@reads("ttng.tmem_subslice")
def columns(here: Here):
    (source, ), (type_, ) = here.operands, here.types
    _check_cut(here)
    start = here.integer("offset", -1) if here.has("offset = ") else here.integer("N")
    return here.op("buffer_slice", source, (*(0, ) * (len(type_.shape) - 1), start), type_.shape)


def _check_cut(here: Here) -> None:
    """Refuse a part of a buffer along a dimension that lies in several CTAs."""
    if here.reader.rank_bits:
        before, after = (split_of(here, text) for text in (here.operand_texts[0], here.result_texts[0]))
        if any(one != other and (before.along(axis) or after.along(axis))
               for axis, (one, other) in enumerate(zip(before.shape, after.shape))) or before.same != after.same:
            raise here.unreadable("a part of a buffer along a dimension that lies in several CTAs is not read")


@reads("ttg.memdesc_trans")
def transposed(here: Here):
    return here.op("buffer_trans", here.operands[0], here.integers("order"))


@reads("ttg.memdesc_reinterpret")
def seen_as(here: Here):
    """The same bytes, of each CTA its own. In tensor memory the buffers of an array lie side by side; in shared memory a tile that
    is wider than its swizzle lies stripe by stripe."""
    (source, ), (type_, ) = here.operands, here.types
    if source.type.space == "tmem":
        if not source.type.count and not type_.count and type_.shape[0] > source.type.shape[0]:
            return side_by_side(here, source, type_)
        if source.type.count == type_.count or not source.type.count and source.type.shape[0] == type_.shape[0]:
            return here.op("buffer_reinterpret", source, type_)
        (number, ) = here.node.operands
        made = here.reader.made_by.get(number)
        if made is not None and made.name == "ttng.tmem_alloc" and not made.operands and here.reader.notes["uses"][number] == 1:
            return _ahead(here, here.op("local_alloc", type_, again=True))    # nobody else sees it: it is what it is seen as
        raise here.unreadable("tensor memory that is seen as another number of buffers has no meaning in the simulator")
    if not isinstance(source.type, Buffer) or not isinstance(type_, Buffer):
        return here.op("buffer_reinterpret", source, type_)
    how = seen(here.operand_texts[0], here.node.results[0][1])
    if how is Seen.BY_ROWS:
        return here.op("buffer_reinterpret", source, type_)
    if how is Seen.BY_STRIPES:
        stripes, rows, width = type_.shape
        apart = here.value(Buffer(type_.element, (rows, stripes, width)))
        return [here.op("buffer_reinterpret", source, apart.type, results=(apart, )), here.op("buffer_trans", apart, (1, 0, 2))]
    raise here.unreadable("where the elements of this view lie among those of its buffer is not known")


@reads("ttg.local_load", any_order=True)
def loaded(here: Here):
    here.accesses(here.node.results[0][1], here.operand_texts[0])
    (buffer, ), (type_, ) = here.operands, here.types
    if is_turned(here, 0):
        check_same(here, here.operand_texts[0], here.result_texts[0])
        tile = here.value(Tensor(type_.element, buffer.type.shape))
        return [here.op("local_load", buffer, results=(tile, )), here.op("reshape", tile, type_.shape, False)]
    if not _is_elsewhere(here, here.result_texts[0], here.operand_texts[0]):
        return here.op("local_load", buffer)
    ops, position, rank = places(here, *(split_of(here, text) for text in (here.result_texts[0], here.operand_texts[0])))
    flat = here.value(Tensor(type_.element, position.type.shape))
    return [*ops, here.op("remote_load", buffer, position, rank, None, None, run=1, results=(flat, )),
            here.op("reshape", flat, type_.shape, False)]


def _is_elsewhere(here: Here, tile: str, buffer: str) -> bool:
    """True if a CTA's part of a tile lies in the shared memory of other CTAs."""
    return bool(here.reader.rank_bits) and split_of(here, tile).bits != split_of(here, buffer).bits


def _stored(here: Here, buffer: Value, value: Value, texts: tuple[str, str]):
    """Ops that store a tile, in other CTAs too: those that have the same part of it store the same. Into a buffer that several CTAs
    have each stores its part in its own, as Triton's lowering does: what is another one's part stays as it was there."""
    if not _is_elsewhere(here, *texts):
        return [here.op("local_store", buffer, value, results=())]
    tile, memory = (split_of(here, text) for text in texts)
    ops, position, rank = places(here, tile, memory)
    flat = here.value(Tensor(value.type.element, position.type.shape))
    return [*ops, here.op("reshape", value, flat.type.shape, False, results=(flat, )),
            here.op("remote_scatter", buffer, position, rank, flat, None, run=1, results=())]


@reads("ttg.local_store")
def stored(here: Here):
    value, buffer = here.operands
    here.accesses(*here.operand_texts)
    return _stored(here, buffer, value, tuple(here.operand_texts))


@reads("ttg.local_gather")
def gathered(here: Here):
    """Operands: the buffer, the numbers along an axis."""
    (buffer, indices), (type_, ), axis = here.operands, here.types, here.integer("axis")
    if _picks_here(here, here.result_texts[0], axis):
        return here.op("local_gather", buffer, indices, axis)
    ops, position, rank = _places(here, here.result_texts[0], axis, indices)
    flat = here.value(Tensor(type_.element, position.type.shape))
    return [*ops, here.op("remote_load", buffer, position, rank, None, None, run=1, results=(flat, )),
            here.op("reshape", flat, type_.shape, False)]


@reads("ttg.local_scatter")
def scattered(here: Here):
    """Operands: the buffer, the values, the numbers along an axis."""
    (buffer, value, indices), axis = here.operands, here.integer("axis")
    if _picks_here(here, here.operand_texts[1], axis):
        return here.op("local_scatter", buffer, value, indices, axis)
    ops, position, rank = _places(here, here.operand_texts[1], axis, indices)
    flat = here.value(Tensor(value.type.element, position.type.shape))
    return [*ops, here.op("reshape", value, flat.type.shape, False, results=(flat, )),
            here.op("remote_scatter", buffer, position, rank, flat, None, run=1)]


def _picks_here(here: Here, tile: str, axis: int) -> bool:
    """True if all elements of the buffer that an element of the tile may be along an axis lie where they do in a single CTA."""
    if not here.reader.rank_bits:
        return True
    return all(bit == own and bit[0] != axis if bit else own is None or own[0] == axis
               for own, bit in zip(split_of(here, tile).bits, split_of(here, here.operand_texts[0]).bits))


def _places(here: Here, tile: str, axis: int, indices: Value):
    return places(here, split_of(here, tile), split_of(here, here.operand_texts[0]), (axis, indices))


@reads("ttg.local_atomic_scatter_rmw")
def changed(here: Here):
    """Operands: the buffer, the values, the numbers of the elements, the mask. Of CTAs with the same numbers the first changes the
    elements; of a buffer that several have, its own."""
    buffer, value, indices, *masked = here.operands
    kind = here.text.partition("ttg.local_atomic_scatter_rmw ")[2].partition(",")[0].upper()
    kind, mask = KINDS.get(kind, kind), masked[0] if masked else None
    if len(buffer.type.shape) > 1:
        return _changed_along_an_axis(here, kind, mask)
    if _picks_here(here, tile := here.operand_texts[1], 0):
        ops, args, how = [], (buffer, value, indices, mask), {}
    else:
        ops, position, rank = _places(here, tile, 0, indices)
        args, how = (buffer, position, rank, value, mask, "RELAXED", "GPU"), {"run": 1, "used": True}
    name, same = "remote_rmw" if how else "local_atomic_rmw", split_of(here, tile).same
    return [*ops, *by_first(here, lambda results: here.op(name, kind, *args, results=results, **how), same)[0]]


def _changed_along_an_axis(here: Here, kind: str, mask: Value | None):
    """Of a buffer of several dimensions, whose elements are numbered one behind the other."""
    if here.reader.rank_bits:
        raise here.unreadable("atomics along one dimension of several are not read over several CTAs")
    buffer, value, indices = here.operands[:3]
    ops, numbers = numbered(here, indices, buffer.type.shape, here.integer("axis"))
    more, (value, mask) = in_a_row(here, value, mask)
    flat, old = here.value(Buffer(buffer.type.element, (prod(buffer.type.shape), ))), here.value(value.type)
    return [*ops, *more, here.op("buffer_flat", buffer, results=(flat, )),
            here.op("local_atomic_rmw", kind, flat, value, numbers, mask, results=(old, )),
            here.op("reshape", old, here.types[0].shape, False)]


@reads("ttng.tmem_load")
def from_tensor_memory(here: Here):
    check_same(here, here.operand_texts[0], here.result_texts[0])
    return here.op("tmem_load", here.operands[0])


@reads("ttng.tmem_store")
def to_tensor_memory(here: Here):
    """Operands: the buffer, the value, and a predicate."""
    buffer, value, *predicate = here.operands
    check_same(here, *here.operand_texts[:2])
    if not predicate:
        return here.op("tmem_store", buffer, value)
    return here.only_if(predicate[0], here.op("tmem_store", buffer, value, results=()))
