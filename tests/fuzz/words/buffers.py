"""AMD's words that take a base and 32-bit offsets: loads, stores, atomics, and copies into shared memory past the registers.

Offsets lie in rows one after the other, in rows with a gap between, in pieces that a list picks, or at places of any order; from
the array's start, or from a base that has been moved on.

    v0 = tlx.buffer_load(x0, at, mask=at < 40, other=3, contiguity=1)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .tiles import SMALL, cast, kind, numbers, offsets, within

LOADED = ("f32", "f16", "i32", "bf16", "i8", "i16", "u8", "i64")
COPIED = ("f32", "f16", "i32", "bf16", "i8")
ADDED = ("i32", "f32", "i64", "f16", "bf16")
LOAD_CACHES, STORE_CACHES = ("''", "'.ca'", "'.cg'", "'.cs'", "'.cv'"), ("''", "'.wb'", "'.cg'", "'.cs'", "'.wt'")


@dataclass(frozen=True)
class Place:
    """Where the elements of a tile lie: the base and the offsets in a kernel, the same element numbers in numpy, lines that stand
    before, and how many neighbours follow each other at least."""

    base: str
    offsets: str
    numbers: str
    before: tuple[str, ...] = ()
    run: int = 1


def placed(make: Maker, element: str, shape: tuple[int, ...], ways=("rows", "gap", "pieces", "any")) -> tuple[str, Place]:
    """(an input with a tile for each time that this place is reached, where the tile of this time lies in it)."""
    draws, size, index = make.draws, prod(shape), make.instance()
    ways = [one for one in ways if one != "gap" or len(shape) == 2]
    way = draws.pick(ways, [4, 3, 2, 1][: len(ways)])
    low = 0 if kind(element) == "uint" else -SMALL
    width = shape[-1] + (draws.pick([1, 3, 8, 16]) if way == "gap" else 0)
    each = size // shape[-1] * width
    array = make.array(element, (make.instances() * each,), ("ints", low, SMALL))
    at, number = offsets(shape), numbers(shape)
    before, run = (), 1
    if way == "gap":
        stride = make.number(width, "s") if draws.chance(60) else width
        at, number = spread_rows(shape, stride)
    elif way in ("pieces", "any"):
        run = draws.pick([2, 4, 8, 16]) if way == "pieces" else 1
        run = min(run, shape[-1])
        listed = _list(make, size // run)
        name = make.name("q")
        before = (f"{name} = tl.load({listed} + {at} // {run}) * {run} + {at} % {run}", )
        at, number = name, f"({listed}[{number} // {run}] * {run} + {number} % {run})"
        run = draws.pick([run, 1, max(1, run // 2)])
    if draws.chance(40):
        base = f"({array} + {index} * {each})"
    else:
        base, at = array, f"({index} * {each} + {at})"
    return array, Place(base, _typed(make, at), f"{index} * {each} + {number}", before, run)


def spread_rows(shape: tuple[int, ...], stride) -> tuple[str, str]:
    """Element numbers of a tile whose rows are so far apart, in both languages."""
    columns = f"arange(0, {shape[1]})[None, :]"
    return (f"(tl.arange(0, {shape[0]})[:, None] * {stride} + tl.{columns})",
            f"(np.arange(0, {shape[0]})[:, None] * {stride} + np.{columns})")


def _list(make: Maker, count: int) -> str:
    """An array with the numbers below `count`, turned round by some places."""
    turn = make.draws.integer(0, count - 1)
    return make.array("i32", (count,), ("listed", tuple((number * 5 + turn) % count for number in range(count))))


def _typed(make: Maker, text: str) -> str:
    return f"{text}.to(tl.uint32)" if make.draws.chance(20) else text


def masked(make: Maker, shape: tuple[int, ...], pairs: bool = False) -> tuple[str, str] | None:
    """A mask in both languages, or None: elements below a number, whole rows, or columns; the number may be known, and may lie in a
    piece that one thread would take."""
    draws = make.draws
    if not draws.chance(50):
        return None
    way = draws.pick(["all", "rows", "columns"] if len(shape) == 2 else ["all"])
    extent = {"all": prod(shape), "rows": shape[0], "columns": shape[-1]}[way]
    limit = draws.integer(0, extent // 2) * 2 if pairs and way != "rows" else draws.integer(0, extent)
    limit = limit // 16 * 16 if draws.chance(40) else limit
    name = make.number(limit, "m") if draws.chance(50) else str(limit)
    if way == "all":
        return f"{offsets(shape)} < {name}", f"{numbers(shape)} < {name}"
    spread, extent = ("[:, None]", shape[0]) if way == "rows" else ("[None, :]", shape[1])
    return f"tl.arange(0, {extent}){spread} < {name}", f"np.broadcast_to(np.arange({extent}){spread} < {name}, {shape})"


def _other(make: Maker, mask) -> int | None:
    return make.draws.integer(0, 5) if mask is not None and make.draws.chance(50) else None


def _loaded(array: str, place: Place, mask, other: int | None, element: str) -> str:
    """The tile, in numpy."""
    if mask is None:
        return f"{array}[{place.numbers}]"
    return f"np.where({mask[1]}, {array}[{place.numbers}], {ELEMENTS[element].reading}({other or 0})).astype({array}.dtype)"


def _arguments(mask, other=None, **more) -> str:
    """Keywords as a call has them."""
    given = {"mask": mask and mask[0], "other": other, **more}
    return "".join(f", {name}={value}" for name, value in given.items() if value is not None)


@word("buffers", 4)
def loads(make: Maker):
    """One tile by any offsets."""
    draws, shape = make.draws, make.shape()
    element = draws.pick([one for one in LOADED if one in make.limits.elements])
    array, place = placed(make, element, shape)
    mask = masked(make, shape)
    other = _other(make, mask)
    cache = draws.pick(LOAD_CACHES) if draws.chance(40) else None
    run = place.run if place.run > 1 or draws.chance(20) else None
    call = f"tlx.buffer_load({place.base}, {place.offsets}{_arguments(mask, other, cache=cache, contiguity=run)})"
    value = Value(call, _loaded(array, place, mask, other, element), element, shape, SMALL)
    make.let(value, before=[*place.before])


@word("buffers", 3)
def stores(make: Maker):
    """A tile to a place of its own, maybe in rows with a gap between."""
    tile, draws = make.operand(), make.draws
    if len(tile.shape) > 2 or tile.element not in LOADED:
        return False
    shape, size, index = tile.shape, tile.size, make.instance()
    gap = draws.pick([0, 0, 1, 8]) if len(shape) == 2 else 0
    each = size // shape[-1] * (shape[-1] + gap)
    array = make.array(tile.element, (make.instances() * each,), ("ints", 0, 3), output=True)
    at, number = spread_rows(shape, shape[1] + gap) if gap else (offsets(shape), numbers(shape))
    mask = masked(make, shape)
    cache = draws.pick(STORE_CACHES) if draws.chance(40) else None
    base, at = (f"({array} + {index} * {each})", at) if draws.chance(40) else (array, f"({index} * {each} + {at})")
    place, where = f"{array}[{index} * {each} + {number}]", f"np.where({mask[1]}, " if mask else ""
    reading = f"{where}{tile.reading}, {place})" if mask else tile.reading
    make.step(
        [f"tlx.buffer_store({tile.kernel}, {base}, {_typed(make, at)}{_arguments(mask, cache=cache)})"],
        [f"{place} = {reading}"],
        tile.uses,
        tile.states,
        private=True,
    )


@word("buffers", 2)
def sums(make: Maker):
    """Atomics of all CTAs and rounds into one tile, or of one on elements of its own, whose old values are a tile then."""
    if make.chip == "gfx1250":
        return loads(make)
    draws = make.draws
    element = draws.pick([one for one in ADDED if one != "bf16" or make.chip == "gfx950"])
    pairs = ELEMENTS[element].bytes == 2
    tile = within(cast(make.operand(), element), 1 if pairs else 1 << 10)
    if len(tile.shape) > 2 or tile.element != element:
        return False
    shape, own = tile.shape, not pairs and draws.chance(50)
    if pairs and make.instances() > 100:
        return False
    count = make.instances() * tile.size if own else tile.size
    array = make.array(element, (count,), ("ints", 0, 3), output=True)
    first = f"{make.instance()} * {tile.size} + " if own else ""
    at, place, mask = f"({first}{offsets(shape)})", f"{first}{numbers(shape)}", masked(make, shape, pairs)
    more = _arguments(mask, sem=draws.pick([None, "'relaxed'", "'release'", "'acq_rel'", "'acquire'"]),
                      scope=draws.pick([None, "'gpu'", "'cta'" if own else "'gpu'", "'sys'"]), contiguity=2 if pairs else None)
    call = f"tlx.buffer_atomic_add({array}, {at}, {tile.kernel}{more})"
    added = f"wide({tile.reading})" if mask is None else f"np.where({mask[1]}, wide({tile.reading}), 0)"
    total = f"{array}[{place}] = cast(wide({array}[{place}]) + {added}, {array}.dtype)"
    if not own:
        make.step([call], [total], tile.uses, tile.states, private=True)
        return
    old, state = make.name("h"), f"words of {array}"
    before = f"{array}[{place}]" if mask is None else f"np.where({mask[1]}, {array}[{place}], 0).astype({array}.dtype)"
    make.step([f"{old} = {call}"], [f"{old} = {before}", total], tile.uses, (*tile.states, state), private=True)
    make.let(Value(old, old, element, shape, 3, states=frozenset({state})), private=True)


@word("buffers", 4)
def copies(make: Maker):
    """One or two groups of copies into buffers, by offsets or by pointers; the first may be read while the second is on its way."""
    draws, shape, element = make.draws, make.shape(), make.draws.pick(COPIED)
    if not make.shared(2 * prod(shape) * ELEMENTS[element].bytes):
        return False
    buffer, count, tokens, readings, lines = make.name("b"), draws.integer(1, 2), [], [], []
    make.head.append(f"{buffer} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 2)")
    make.captured.append(buffer)
    for slot in range(count):
        array, place = placed(make, element, shape, ("rows", "gap", "pieces"))
        mask = masked(make, shape)
        other = _other(make, mask)
        cache = draws.pick(LOAD_CACHES[:3]) if draws.chance(20) else None
        more = _arguments(mask, other, cache_modifier=cache)
        tokens.append(make.name("k"))
        call = (
            f"tlx.buffer_load_to_local({buffer}[{slot}], {place.base}, {place.offsets}{more})"
            if draws.chance(60)
            else f"tlx.async_load({place.base} + {place.offsets}, {buffer}[{slot}]{more})"
        )
        lines += [*place.before, f"{tokens[-1]} = {call}", f"tlx.async_load_commit_group([{tokens[-1]}])"]
        readings.append(_loaded(array, place, mask, other, element))
    channel = f"a{len(make.counts)}{buffer}"
    for slot in range(count):
        wait = Line(f"tlx.async_load_wait_group({count - 1 - slot})", Mark("wait of a load", channel))
        make.step([*lines, wait], [f"seen('{channel}')"], states=(buffer,))
        make.let(Value(f"tlx.local_load({buffer}[{slot}])", readings[slot], element, shape, SMALL, states=frozenset({buffer})))
        lines = []
