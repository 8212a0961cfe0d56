"""Descriptors of one to five dimensions, whose boxes lie outside of the tensor, on every side.

What a load finds outside is zero, or NaN where the descriptor pads so; what a store or a reduction has outside is dropped.
Loads may begin before the tensor; stores may not (CUDA's guide: a write's corner is no negative number), and innermost
coordinates are multiples of 16 bytes:

    desc.load([-3, 9, -16])         desc.store([0, 9, 16], tile)
"""

from __future__ import annotations

from math import prod

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

TYPES = ("f32", "f16", "bf16", "i32", "i8", "u8", "i16")
MOST = 1024  # elements of a box

BOX = '''
def box(array, corner, block, outside=0):
    """A copy of a box of an array, `outside` where there is none."""
    out = np.full(block, outside, array.dtype)
    for place in np.ndindex(*block[:-1]):
        at = tuple(c + p for c, p in zip(corner, place))
        if all(0 <= a < e for a, e in zip(at, array.shape)):
            first, last = max(corner[-1], 0), min(corner[-1] + block[-1], array.shape[-1])
            if first < last:
                out[(*place, slice(first - corner[-1], last - corner[-1]))] = array[(*at, slice(first, last))]
    return out


def into(array, corner, value, how):
    """Change the part of an array that a box covers: by "store", "add", "max", "min", "and", "or", "xor"."""
    fold = {"store": lambda old, new: new, "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor}[how]
    for place in np.ndindex(*value.shape):
        at = tuple(c + p for c, p in zip(corner, place))
        if all(0 <= a < e for a, e in zip(at, array.shape)):
            array[at] = fold(array[at], value[place])
'''


def drawn_block(draws: Draws, rank: int, size: int) -> tuple[int, ...]:
    """Extents of a box: powers of two, the last of 16 bytes at least."""
    least = max(1, 16 // size)
    last = least * draws.pick([1, 2, 4, 8])
    block = [last]
    for _ in range(rank - 1):
        block.insert(0, draws.pick([one for one in (1, 2, 4, 8, 16) if one * prod(block) <= MOST]))
    return tuple(block)


@family(3)
def boxes(draws: Draws):
    """One to three accesses by descriptors of the host or the kernel, at places that are constants or come at run time."""
    s, rank, element = Sketch(draws), draws.integer(1, 5), draws.pick(TYPES)
    s.helper(BOX)
    s.kernel("ready = tlx.alloc_barriers(4)")
    for number in range(draws.integer(1, 3)):
        size = ELEMENTS[element].bytes
        block = drawn_block(draws, rank, size)
        row = 16 // size
        extents = [draws.integer(1, 2 * one + 3) for one in block[:-1]] + [
            row * draws.integer(1, 2 * block[-1] // row + 2)
        ]
        draws.pick([load, load, store, walk])(s, draws, number, element, block, extents, row)
    return s


def corner_of(s: Sketch, draws: Draws, block, extents, row: int, low: bool) -> tuple[str, tuple[int, ...]]:
    """(the coordinates in the kernel, as numbers): anywhere around the tensor, from before it only if `low`."""
    corner = []
    for dim, (box, extent) in enumerate(zip(block, extents)):
        step = row if dim == len(block) - 1 else 1
        first = -(box // step + 1) if low else 0
        corner.append(step * draws.pick([0, draws.integer(first, extent // step + 1), extent // step, first]))
    texts = [s.number(one) if draws.chance(50) else str(one) for one in corner]
    return f"[{', '.join(texts)}]", tuple(corner)


def tensor_of(
    s: Sketch, draws: Draws, number: int, name: str, block, extents, padding: str = ""
) -> tuple[str, list[int], str]:
    """(a descriptor's name, its extents, the array as numpy sees it). One that the kernel makes may end anywhere in a row."""
    if not padding and draws.chance(60):
        return s.descriptor(name, block), extents, name
    cut = [max(1, one - draws.integer(0, 3)) for one in extents]
    strides = [prod(extents[dim + 1 :]) for dim in range(len(extents))]
    more = f", padding_option={padding!r}" if padding else ""
    s.kernel(f"t{number} = tl.make_tensor_descriptor({name}, {cut}, {strides}, {list(block)}{more})")
    return f"t{number}", cut, f"{name}[{', '.join(f':{one}' for one in cut)}]"


def load(s: Sketch, draws: Draws, number: int, element: str, block, extents, row: int) -> None:
    x = s.array(element, extents, ("ints", 1, 9, s.seed()))
    padding = draws.pick(["", "", "zero", "nan"]) if element in ("f32", "f16", "bf16") else ""
    descriptor, extents, array = tensor_of(s, draws, number, x, block, extents, padding)
    at, corner = corner_of(s, draws, block, extents, row, low=True)
    y, way = s.output(element, block), draws.pick(["own", "tlx", "tle"])
    if way == "own":
        s.kernel(f"v{number} = {descriptor}.load({at})")
    elif way == "tle":
        s.kernel(
            f"b{number} = tle.gpu.alloc({list(block)}, {ELEMENTS[element].tl})",
            f"tle.gpu.copy({descriptor}, b{number}, {list(block)}, {at})",
            f"v{number} = tl.load(tle.gpu.local_ptr(b{number}))",
        )
    else:
        bytes_ = prod(block) * ELEMENTS[element].bytes
        s.kernel(
            f"b{number} = tlx.local_alloc({block}, {ELEMENTS[element].tl}, 1)",
            s.dropped(f"tlx.barrier_expect_bytes(ready[{number}], {bytes_})", "bytes come that nobody expects"),
            f"tlx.async_descriptor_load({descriptor}, b{number}[0], {at}, ready[{number}])",
            s.dropped(f"tlx.barrier_wait(ready[{number}], 0)", "the box is read before it is there"),
            f"v{number} = tlx.local_load(b{number}[0])",
        )
    s.kernel(f"tl.store({y} + {places(block)}, v{number})")
    s.reads(f"{y}[...] = box({array}, {corner}, {block}, {'np.nan' if padding == 'nan' else 0})")


def store(s: Sketch, draws: Draws, number: int, element: str, block, extents, row: int) -> None:
    x, y = s.array(element, block), s.output(element, extents, ("ints", 0, 5, s.seed()))
    s.kernel(f"v{number} = tl.load({x} + {places(block)})")
    descriptor, extents, array = tensor_of(s, draws, number, y, block, extents)
    at, corner = corner_of(s, draws, block, extents, row, low=False)
    folds = {"i32": ["add", "max", "min", "and", "or", "xor"], "f32": ["add"], "f16": ["add"]}.get(element, [])
    how = draws.pick(["store", *folds]) if folds and draws.chance(50) else "store"
    if draws.chance(40):
        word = "store" if how == "store" else f"atomic_{how}"
        s.kernel(f"{descriptor}.{word}({at}, v{number})")
    else:
        more = "" if how == "store" else f", store_reduce={how!r}"
        s.kernel(
            f"b{number} = tlx.local_alloc({block}, {ELEMENTS[element].tl}, 1)",
            f"tlx.local_store(b{number}[0], v{number})",
            "tlx.fence('async_shared')",  # without it the compiler puts one in, so that is no mistake
            f"tlx.async_descriptor_store({descriptor}, b{number}[0], {at}{more})",
            "tlx.async_descriptor_store_wait(0)",
        )
    if descriptor[0] == "t":  # TMA writes whole 16 bytes, also over the end of a row
        reached = [*extents[:-1], -(-extents[-1] // row) * row]
        if reached != [*extents]:
            s.skips["gfx"] = "there a store ends with its row"
        array = f"{y}[{', '.join(f':{one}' for one in reached)}]"
    s.reads(f"into({array}, {corner}, {x}, {how!r})")


def walk(s: Sketch, draws: Draws, number: int, element: str, block, extents, row: int) -> None:
    """A task sends boxes along one dimension, from before the tensor to behind it, through a ring; another one stores them."""
    dim, slots = draws.integer(0, len(block) - 1), draws.integer(1, 2)
    step = max(row if dim == len(block) - 1 else 1, block[dim] // draws.pick([1, 2]))
    count = min(5, (extents[dim] + 2 * block[dim]) // step + 1)
    x = s.array(element, extents, ("ints", 1, 9, s.seed()))
    y, n, d = s.output(element, (count, *block)), s.number(count), s.descriptor(x, block)
    size, bar = prod(block), f"walk{number}"
    at = [f"t * {step} - {block[dim]}" if one == dim else "0" for one in range(len(block))]
    s.kernel(
        f"{bar} = tlx.local_alloc({block}, {ELEMENTS[element].tl}, {slots})",
        f"{bar}_full, {bar}_free = tlx.alloc_barriers({slots}), tlx.alloc_barriers({slots})",
    )
    lines = {
        "free": f"tlx.barrier_wait({bar}_free[t % {slots}], ((t // {slots}) & 1) ^ 1)",
        "expect": f"tlx.barrier_expect_bytes({bar}_full[t % {slots}], {size * ELEMENTS[element].bytes})",
        "full": f"tlx.barrier_wait({bar}_full[t % {slots}], (t // {slots}) & 1)",
        "arrive": f"tlx.barrier_arrive({bar}_free[t % {slots}])",
    }
    lines = {name: line + s.mark() for name, line in lines.items()}
    s.mistake(lines["expect"], "pass", "bytes come that nobody expects")
    s.mistake(lines["full"], "pass", "the box is read before it is there")
    if count > slots:
        s.mistake(lines["free"], "pass", "a slot is filled again before it was read")
        s.mistake(lines["arrive"], "pass", "a slot is never given back")
    sender = (
        f"for t in range({n}):\n    {lines['free']}\n    {lines['expect']}\n"
        f"    tlx.async_descriptor_load({d}, {bar}[t % {slots}], [{', '.join(at)}], {bar}_full[t % {slots}])"
    )
    receiver = (
        f"for t in range({n}):\n    {lines['full']}\n    v = tlx.local_load({bar}[t % {slots}])\n    {lines['arrive']}\n"
        f"    tl.store({y} + t * {size} + {places(block)}, v)"
    )
    s.tasks(receiver, sender)
    s.reads(f"for t in range({n}):\n    {y}[t] = box({x}, ({', '.join(at)},), {block})")
