"""The families of programs: each weighs the words, and says what stands around them.

Input: a seed, or the record of draws. Output: a `Program`. Families differ in weights and frame, not in rules:

    program = make_program("looped", Draws(3), seed=3)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .assemble import assemble
from .blocks import block, loop, sinks, statement
from .draws import Draws
from .maker import Limits, Maker, branch
from .tree import Argument, Dot, Program
from .words import load_all
from .words.carries import last, new_previous, new_sum
from .words.dots import plain_dot
from .words.globals import output
from .words.shared import fill, held, new_buffer, slot_index, whole
from .words.tiles import derived, load_tile

load_all()
FAMILIES: dict[str, tuple[float, Callable]] = {}


def family(weight: float):
    """Register the decorated function: it takes a `Draws` and gives (maker, segments)."""

    def register(function: Callable) -> Callable:
        FAMILIES[function.__name__] = weight, function
        return function

    return register


# ---- frames --------------------------------------------------------------------------------------------------------------


def start(draws: Draws, limits: Limits, grids=((1,), (2,), (3,), (2, 2))) -> tuple[Maker, tuple[int, ...]]:
    grid = draws.pick(grids)
    make = Maker(draws, limits, programs=grid[0] * (grid[1] if len(grid) > 1 else 1))
    make.arguments["flags"] = Argument("flags", "array", "i32", (1,), ("ints", (flag := draws.integer(0, 1)), flag, 0))
    return make, grid


def portable(draws: Draws, limits: Limits) -> Limits:
    """In one of four programs only words that every chip has."""
    if not draws.chance(25):
        return limits
    words = {
        name: weight for name, weight in limits.words.items() if name not in ("copies", "barriers", "tma", "async_dots")
    }
    elements = tuple(name for name in limits.elements if not name.startswith("f8"))
    return replace(limits, words={**words, "cp_async": 1, "fences": 1}, elements=elements, portable=True)


def segment(make: Maker, fill: Callable[[], None]) -> tuple:
    """A block of its own, whose tiles go out of sight at its end."""
    with make.block() as nodes:
        fill()
    return tuple(nodes)


PLAIN = {"tiles": 8, "shapes": 5, "sums": 4, "globals": 3, "math": 4, "misc": 8, "tle_tiles": 1, "stores": 2}


@family(1)
def plain(draws: Draws):
    """Triton's own words alone, and few of ours: straight, in loops, in branches."""
    limits = Limits({**PLAIN, "dots": 1.5, "layouts": 1, "tma": 1}, statements=(3, 9), depth=2)
    make, grid = start(draws, portable(draws, limits))
    make.serial = True
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


@family(3)
def looped(draws: Draws):
    """Ordinary loops with a dot: what Triton would pipeline, with shared memory, barriers and fences under branches around it."""
    flavour = draws.pick(["tlx", "tle"])
    square = draws.pick([((32, 32), (64, 32)), ((64, 64),), ((64, 32), (32, 64), (32,)), ((16, 16), (64,))])
    limits = Limits(
        {
            "shared": 6,
            "dots": 4,
            "tiles": 3,
            "barriers": 2,
            "carries": 4,
            "pointers": 2 if flavour == "tle" else 0.5,
            "globals": 1,
            "copies": 1,
            "views": 1,
            "sums": 0.5,
            "shapes": 0.5,
            "stores": 0.5,
            "async_dots": 0.3,
            "assembly": 0.15,
        },
        statements=(2, 5),
        depth=2,
        flavour=flavour,
        elements=("f16", "f32", "i32", "bf16"),
        shapes=square,
        shape_count=3,
        trips=(0, 6),
    )
    make, grid = start(draws, portable(draws, limits), grids=((1,), (2,)))
    make.meta["num_stages"] = draws.integer(1, 4)

    def fill_segment():
        for _ in range(draws.integer(1, 2)):
            new_buffer(make)
        m, n = draws.pick([64, 32, 128, 16]), draws.pick([32, 64, 16])
        total = new_sum(make, (m, n), product=True)
        growing = new_sum(make, make.shape(), draws.pick(["f32", "i32"]))
        new_previous(make, make.shape(), draws.pick(["f32", "i32"]))
        left = (
            new_buffer(make, shape=(m, draws.pick([16, 32, 64])), element="f16", layout=False)
            if draws.chance(65)
            else None
        )
        with make.draws.span():
            dotted_loop(make, draws, total, left)
        for _ in range(draws.integer(0, 2)):
            with make.draws.span():
                statement(make, 1)
        output(make, last(make, total), ways=("plain",))
        output(make, last(make, growing))
        sinks(make, 0, len(make.carried))
        for buffer in make.buffers[:2]:
            output(make, make.let(whole(make, buffer, str(buffer.count - 1))))

    return make, grid, [segment(make, fill_segment)], 0, False


def dotted_loop(make: Maker, draws: Draws, total, left) -> None:
    """A loop with a dot, and things before and after it in the body: fills, barriers, branches, loops. The left operand may come
    from the buffer `left`, which is filled, or changed, in some of the rounds only."""
    kind = draws.pick(["for", "stages", "for", "stages", "while", "unroll", "step", "static"])
    with make.loop(kind, draws.integer(min(2, draws.pick([2, 0, 1])), 3 if kind == "static" else make.limits.trips[1])):
        first, carried = len(make.tiles), len(make.carried)
        for _ in range(draws.integer(0, 3)):
            with draws.span():
                statement(make, 2)
        dot = plain_dot if left is None else lambda made: dot_through(made, total, left)
        if draws.chance(15):
            branch(make, lambda: dot(make))
        else:
            dot(make)
        for _ in range(draws.integer(0, 3)):
            with draws.span():
                statement(make, 2)
        sinks(make, first, carried)


def dot_through(make: Maker, total, buffer) -> None:
    """Fill a buffer, perhaps under an `if`; read it; load the other operand; multiply; perhaps change the buffer."""
    draws, (m, k), n = make.draws, buffer.shape, total.shape[1]

    def refill():
        fill(make, buffer, slot_index(make, buffer), load_tile(make, "f16", (m, k)))

    def change():
        index = slot_index(make, buffer)
        fill(
            make,
            buffer,
            index,
            held(whole(make, buffer, index), "f16")
            if draws.chance(30)
            else held(
                derived(
                    (one := make.let(whole(make, buffer, index)),),
                    f"3 - {one.kernel}",
                    f"3 - wide({one.reading})",
                    "f16",
                    (m, k),
                    11,
                ),
                "f16",
            ),
        )

    if draws.chance(75):
        branch(make, refill)
    else:
        refill()
    index, tiles = slot_index(make, buffer), []
    order = draws.pick(["xw", "wx"])
    for which in order:
        tiles.append(make.let(whole(make, buffer, index)) if which == "x" else load_tile(make, "f16", (k, n)))
        if draws.chance(25):
            with draws.span():
                statement(make, 1)
    x, w = tiles if order == "xw" else tiles[::-1]
    for _ in range(draws.integer(1, 2)):
        make.step(
            [f"{total.name} = tl.dot({x.kernel}, {w.kernel}, {total.name})"],
            [f"{total.name} = cast(wide({total.name}) + wide({x.reading}) @ wide({w.reading}), np.float32)"],
            x.uses | w.uses,
            (total.name,),
        )
    if draws.chance(40):
        branch(make, change)


STREAM = {
    "tiles": 8,
    "shapes": 2,
    "sums": 2,
    "stores": 2,
    "globals": 1.5,
    "shared": 2,
    "views": 1,
    "aliases": 0.7,
    "copies": 2,
    "barriers": 1.2,
    "carries": 3,
    "misc": 1,
    "layouts": 0.5,
    "pointers": 0.7,
    "tle_tiles": 0.5,
    "tma": 0.5,
}


def carried_block(make: Maker) -> None:
    """Sums and a tile of the round before, a loop that feeds them, and their last values out."""
    sums = [new_sum(make, make.shape(), make.draws.pick(["i32", "f32"])) for _ in range(make.draws.integer(0, 2))]
    if make.draws.chance(40):
        new_previous(make, make.shape(), make.draws.pick(["f32", "i32", "f16"]))
    for _ in range(make.draws.integer(0, 2)):
        with make.draws.span():
            statement(make, 1)
    with make.draws.span():
        loop(make, 2, low=make.draws.pick([3, 1, 0, 5]))
    for one in sums:
        output(make, last(make, one))
    if make.draws.chance(25):
        with make.draws.span():
            loop(make, 1)
    sinks(make, 0, len(make.carried))


@family(3)
def stream(draws: Draws, begin: Callable = start, more: dict[str, float] | None = None):
    """Tasks of TLX with rings between them, out of any sequential program; some have a second region after the first. `begin` makes
    the maker, `more` are further groups of words."""
    limits = Limits({**STREAM, **(more or {})}, flavour="tlx", trips=(0, 8), shape_count=3)
    make, grid = begin(draws, limits)
    segments = [segment(make, lambda: carried_block(make))]
    if draws.chance(25):
        segments.append(segment(make, lambda: block(make, 1, (1, 2))))
        segments.append(segment(make, lambda: block(make, 1, (1, 3))))
    return make, grid, segments, draws.integer(2, 4), False


@family(2)
def pipes(draws: Draws, begin: Callable = start, more: dict[str, float] | None = None):
    """Partitions of TLE with pipes between them; `begin` and `more` as of `stream`."""
    words = {name: weight for name, weight in STREAM.items() if name not in ("aliases",)}
    limits = Limits(
        {**words, "pointers": 3, **(more or {})},
        flavour="tle",
        trips=(0, 8),
        shape_count=3,
        loops=("for", "for", "while", "step", "static"),
    )
    make, grid = begin(draws, limits)
    return make, grid, [segment(make, lambda: carried_block(make))], draws.integer(2, 4), True


@family(2)
def gemm(draws: Draws, begin: Callable = start):
    """Products in a loop, spread over tasks: operands through rings into asynchronous dots, or into registers. `begin` as of
    `stream`."""
    m, n, k = draws.pick([64, 128]), draws.pick([32, 64, 16, 128]), draws.pick([32, 64, 16])
    limits = Limits(
        {"tiles": 3, "carries": 2, "dots": 1, "stores": 1, "shared": 1, "barriers": 0.5},
        elements=("f16", "bf16", "f32"),
        shapes=((m, k), (k, n)),
        shape_count=3,
        trips=(1, 6),
    )
    make, grid = begin(draws, limits, grids=((1,), (2,)))

    def fill_segment():
        element = draws.pick(["f16", "bf16"])
        total = new_sum(make, (m, n), product=True)
        with make.loop(draws.pick(["for", "for", "while", "step"]), draws.integer(1, 7)):
            a, b = load_tile(make, element, (m, k)), load_tile(make, element, (k, n))
            make.step(
                [f"{total.name} = tl.dot({a.kernel}, {b.kernel}, {total.name})"],
                [f"{total.name} = cast(wide({total.name}) + wide({a.reading}) @ wide({b.reading}), np.float32)"],
                a.uses | b.uses,
                (total.name,),
                dot=Dot(a.kernel, b.kernel, total.name),
                warps=(4, 8),
            )
            first, carried = len(make.tiles), len(make.carried)
            for _ in range(draws.integer(0, 2)):
                with make.draws.span():
                    statement(make, 1)
            sinks(make, first, carried)
        output(make, last(make, total))

    return make, grid, [segment(make, fill_segment)], draws.integer(2, 3), False


@family(1)
def dots(draws: Draws):
    """Asynchronous dots of every type, one after the other and in loops."""
    limits = Limits(
        {"async_dots": 4, "dots": 2, "tiles": 2, "stores": 1, "shared": 1},
        statements=(1, 4),
        depth=1,
        shapes=((64, 32), (32, 64), (64, 64)),
        elements=("f16", "bf16", "f32", "i32"),
        trips=(1, 3),
    )
    make, grid = start(draws, limits, grids=((1,), (2,)))
    make.meta["num_warps"] = draws.pick([4, 8])
    make.meta["num_stages"] = draws.integer(1, 3)
    return make, grid, [segment(make, lambda: block(make, 1))], 0, False


@family(2)
def memory(draws: Draws):
    """Buffers, views, aliases, pointers, copies and layouts, without tasks or with them."""
    limits = Limits(
        {
            "shared": 4,
            "views": 4,
            "aliases": 3,
            "pointers": 4,
            "copies": 4,
            "tiles": 2,
            "layouts": 2,
            "stores": 1,
            "barriers": 1.5,
            "tma": 1.5,
            "globals": 1,
        },
        statements=(3, 8),
        depth=2,
        flavour=draws.pick(["tlx", "tle"]),
        trips=(0, 4),
    )
    limits = portable(draws, limits)
    make, grid = start(draws, limits)
    return (
        make,
        grid,
        [segment(make, lambda: block(make, 2))],
        0 if limits.portable else draws.pick([0, 0, 2, 3]),
        False,
    )


COMMON = {
    "tiles": 5,
    "shapes": 1,
    "sums": 1.5,
    "stores": 1,
    "shared": 1.5,
    "carries": 1,
    "barriers": 1,
    "copies": 1,
    "globals": 0.7,
}
CLUSTERED = ((32,), (64,), (128,), (16, 32), (32, 32))


@family(2)
def cluster(draws: Draws):
    """CTAs that send each other tiles, by every word for it, in loops and in tasks."""
    size, groups = draws.pick([2, 4, 3, 8]), draws.integer(1, 2)
    tasks = draws.pick([0, 0, 2, 3])
    limits = Limits(
        {**COMMON, "exchange": 8},
        statements=(2, 6),
        depth=2,
        flavour="tlx",
        trips=(0, 5),
        shapes=CLUSTERED,
        shape_count=2,
    )
    make, grid = start(draws, limits, grids=((size * groups,),))
    make.cluster, make.serial = size, not tasks
    make.head.append("rank = tlx.cluster_cta_rank()")
    make.captured.append("rank")
    return make, grid, [segment(make, lambda: block(make, 2))], tasks, False


@family(1.5)
def mesh(draws: Draws):
    """Meshes of TLE: remote pointers, resharding, distributed products; the mesh makes the clusters."""
    size, groups = draws.pick([2, 4]), draws.integer(1, 2)
    limits = Limits(
        {**COMMON, "pointers": 1, "mesh": 8},
        statements=(2, 6),
        depth=2,
        flavour="tle",
        trips=(0, 4),
        shapes=CLUSTERED,
        shape_count=2,
    )
    make, grid = start(draws, limits, grids=((size * groups,),))
    make.cluster, make.serial, make.meshed = size, True, True
    make.functions.append(
        f"MESH = tle.device_mesh({{'cluster': [('x', {size})]}})\nROWS = tle.sharding(MESH, ['x', None])\n"
        "COLUMNS = tle.sharding(MESH, [None, 'x'])\nWHOLE = tle.sharding(MESH)\n"
    )
    make.head.append("rank = tle.shard_id(MESH, 'x')")
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


@family(0.7)
def grids(draws: Draws):
    """All programs of a launch meet, and hand tiles on through global memory."""
    size = draws.integer(2, 5)
    limits = Limits(
        {**COMMON, "grid": 6}, statements=(2, 5), depth=2, flavour="tlx", trips=(0, 4), shapes=CLUSTERED, shape_count=2
    )
    make, grid = start(draws, limits, grids=((size,),))
    make.cluster, make.serial, make.whole_grid = size, True, True
    make.functions.append(f"MESH = tle.device_mesh({{'block': {size}}})\n")
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


def make_program(name: str, draws: Draws, seed: int = 0) -> Program:
    """One program of the family."""
    made = everything()[name][1](draws)
    return made(name, seed) if callable(made) else assemble(name, seed, *made)


def everything() -> dict[str, tuple[float, Callable]]:
    """All families of programs on one GPU."""
    from .amd import AMD
    from .blackwell import BLACKWELL
    from .edges import EDGES

    return {**FAMILIES, **BLACKWELL, **AMD, **EDGES}


WORLDS = "worlds"  # programs on several GPUs; world_runs.py makes and runs them
ORDINARY = "ordinary"  # loops in `tl` words alone, under automatic orchestration; ordinary/ makes and runs them
GROUPS = ("blackwell", "amd", "edges", "all")


def group(name: str | None) -> dict[str, float] | None:
    """The families that a word of the command stands for, with their weights: none the first ones, "blackwell" those of that chip,
    "amd" those of AMD's chips, "edges" those and worlds, "all" the first ones, the edges and worlds; else None."""
    from .amd import AMD
    from .blackwell import BLACKWELL
    from .edges import EDGES

    made = {None: FAMILIES, "blackwell": BLACKWELL, "amd": AMD, "edges": EDGES, "all": {**FAMILIES, **EDGES}}.get(name)
    if made is None:
        return None
    weights = {one: weight for one, (weight, _) in made.items()}
    return weights | {WORLDS: 1.0} if name in ("edges", "all") else weights


def chosen(seed: int, only: str | None = None) -> str:
    """The family of a seed: by weight, unless `only` names it."""
    families = group(only)
    return only if families is None else Draws(seed).pick(list(families), list(families.values()))


def program_of(seed: int, only: str | None = None, record=None) -> tuple[Program, Draws]:
    """The program of a seed: of the family `only`, or of one that `only` stands for. Worlds are no such programs (worlds.py)."""
    name, draws = chosen(seed, only), Draws(seed * 7919 + 13, record)
    return replace(make_program(name, draws, seed)), draws
