"""Words that move elements: transposes, reshapes, joins, gathers, sorts, tiles of tiles."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from . import word
from .tiles import cast, derived, finish, kind


def moved(make: Maker, one, kernel: str, reading: str, shape) -> None:
    finish(make, derived((one,), kernel, reading, one.element, shape, one.bound, whole=True))


@word("shapes", 2)
def transposes(make: Maker):
    one = make.operand(rank=2)
    kernel = make.draws.pick(["tl.trans({})", "{}.T", "tl.permute({}, 1, 0)", "tl.trans({}, 1, 0)"])
    moved(make, one, kernel.format(one.kernel), f"({one.reading}).T", one.shape[::-1])


@word("shapes", 1.5)
def flips(make: Maker):
    one = make.operand()
    axis = make.draws.integer(0, len(one.shape) - 1)
    moved(make, one, f"tl.flip({one.kernel}, {axis})", f"np.flip({one.reading}, {axis})", one.shape)


@word("shapes", 2)
def reshapes(make: Maker):
    """Flat, folded, through three dimensions."""
    one = make.operand()
    if len(one.shape) == 1:
        low = min(make.draws.pick([2, 4, 8]), one.shape[0])
        shape = (low, one.shape[0] // low)
        kernel = f"tl.reshape({one.kernel}, {shape})"
    elif make.draws.chance(50):
        shape = (one.size,)
        kernel = make.draws.pick(
            [f"tl.ravel({one.kernel})", f"tl.view({one.kernel}, [{one.size}])", f"{one.kernel}.reshape({one.size})"]
        )
    else:
        rows, columns = one.shape
        kernel = f"{one.kernel}.reshape(2, {rows // 2}, {columns}).permute(1, 0, 2).reshape({rows}, {columns})"
        return moved(
            make,
            one,
            kernel,
            f"({one.reading}).reshape(2, {rows // 2}, {columns}).transpose(1, 0, 2).reshape({rows}, {columns})",
            one.shape,
        )
    moved(make, one, kernel, f"({one.reading}).reshape({shape})", shape)


@word("shapes", 1.5)
def joins(make: Maker):
    """join and split, interleave, cat."""
    one = make.operand(rank=1)
    other = make.operand(one.element, one.shape)
    count, bound = one.shape[0], max(one.bound, other.bound)
    how = make.draws.pick(["split", "interleave", "cat", "join"])
    if how == "split":
        a, b = make.name("h"), make.name("h")
        keep = make.draws.pick([0, 1])
        pair_ = f"tl.split(tl.join({one.kernel}, {other.kernel}))"
        value = derived(
            (one, other), (a, b)[keep], (one, other)[keep].reading, one.element, one.shape, bound, whole=True
        )
        make.let(value, before=[f"{a}, {b} = {pair_}"])
    elif how == "interleave":
        finish(
            make,
            derived(
                (one, other),
                f"tl.interleave({one.kernel}, {other.kernel})",
                f"np.stack([{one.reading}, {other.reading}], -1).reshape({2 * count})",
                one.element,
                (2 * count,),
                bound,
                whole=True,
            ),
        )
    elif how == "cat":
        finish(
            make,
            derived(
                (one, other),
                f"tl.cat({one.kernel}, {other.kernel}, can_reorder=True)",
                f"np.concatenate([{one.reading}, {other.reading}])",
                one.element,
                (2 * count,),
                bound,
                whole=True,
            ),
        )
    else:
        finish(
            make,
            derived(
                (one, other),
                f"tl.join({one.kernel}, {other.kernel})",
                f"np.stack([{one.reading}, {other.reading}], -1)",
                one.element,
                (count, 2),
                bound,
                whole=True,
            ),
        )


@word("shapes", 1.5)
def spreads(make: Maker):
    """A line or a column spread over a tile."""
    one = make.operand(rank=1)
    count, more = one.shape[0], make.draws.pick([2, 8, 16])
    if count * more > 4096:
        return False
    if make.draws.chance(50):
        kernel = make.draws.pick(
            [
                f"tl.broadcast_to({one.kernel}[:, None], [{count}, {more}])",
                f"tl.broadcast_to(tl.expand_dims({one.kernel}, 1), [{count}, {more}])",
            ]
        )
        moved(make, one, kernel, f"np.broadcast_to(({one.reading})[:, None], ({count}, {more})).copy()", (count, more))
    else:
        moved(
            make,
            one,
            f"tl.broadcast_to({one.kernel}[None, :], [{more}, {count}])",
            f"np.broadcast_to(({one.reading})[None, :], ({more}, {count})).copy()",
            (more, count),
        )


@word("shapes", 1.5)
def gathers(make: Maker):
    """tl.gather along an axis."""
    one = make.operand()
    if ELEMENTS[one.element].bytes == 8:
        return False
    axis = make.draws.integer(0, len(one.shape) - 1)
    extent = one.shape[axis]
    index = cast(make.operand("i32", one.shape), "i32")
    finish(
        make,
        derived(
            (one, index),
            f"tl.gather({one.kernel}, {index.kernel} & {extent - 1}, {axis})",
            f"np.take_along_axis({one.reading}, wide({index.reading}) & {extent - 1}, {axis})",
            one.element,
            one.shape,
            one.bound,
            whole=True,
        ),
    )


@word("shapes", 1)
def sorts(make: Maker):
    one = make.operand(rank=make.draws.pick([1, 2]))
    if kind(one.element) == "uint":
        return False
    if one.shape[-1] > 128 or one.size > 1024:
        return False
    if make.draws.chance(30) and one.shape[-1] >= 8:
        moved(
            make,
            one,
            f"tl.topk({one.kernel}, 4).to({ELEMENTS[one.element].tl})",  # a maximum: Triton widens narrow numbers
            f"np.sort({one.reading}, -1)[..., ::-1][..., :4]",
            (*one.shape[:-1], 4),
        )
    elif make.draws.chance(50):
        moved(make, one, f"tl.sort({one.kernel}, descending=True)", f"np.sort({one.reading}, -1)[..., ::-1]", one.shape)
    else:
        moved(make, one, f"tl.sort({one.kernel})", f"np.sort({one.reading}, -1)", one.shape)


@word("tle_tiles", 2)
def tiles_of_tiles(make: Maker):
    """tle.extract_tile and tle.insert_tile, with numbers and with scalars of the launch."""
    one = make.operand()
    grid = tuple(make.draws.pick([1, 2, 4]) if extent >= 16 else 1 for extent in one.shape)
    tile = tuple(extent // parts for extent, parts in zip(one.shape, grid))
    count = grid[0] * (grid[1] if len(grid) == 2 else 1)
    which = make.draws.pick([str(make.draws.integer(0, count - 1)), f"(pid + flag) % {count}"])
    box = box_of(grid, tile, which)
    if make.draws.chance(50):
        name = make.draws.pick(["tle.extract_tile({0}, {1}, {2})", "{0}.extract_tile({1}, {2})"])
        moved(make, one, name.format(one.kernel, which, list(tile)), f"({one.reading})[{box}]", tile)
    else:
        part = make.operand(one.element, tile)
        finish(
            make,
            derived(
                (one, part),
                f"tle.insert_tile({one.kernel}, {part.kernel}, {which})",
                f"replaced({one.reading}, np.s_[{box}], {part.reading})",
                one.element,
                one.shape,
                max(one.bound, part.bound),
                whole=True,
            ),
        )


def box_of(grid, tile, which: str) -> str:
    """The slices, in numpy, of tile number `which` of a grid of tiles."""
    if len(grid) == 1:
        return f"({which}) * {tile[0]}:({which}) * {tile[0]} + {tile[0]}"
    row, column = f"(({which}) // {grid[1]} * {tile[0]})", f"(({which}) % {grid[1]} * {tile[1]})"
    return f"{row}:{row} + {tile[0]}, {column}:{column} + {tile[1]}"
