"""The families of programs: each weighs the words, and says what stands around them.

Input: a seed, or the record of draws. Output: a `Program`. Families differ in weights and frame, not in rules:

    program = make_program("looped", Draws(3), seed=3)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .draws import Draws
from .maker import Limits, Maker, branch
from .orchestrate import Task, fill_warps, finished, plan, replica_tokens, token_lines, walk
from .printer import counters, indented, kernel_source, reading_lines, reading_source, serial
from .tree import Argument, Dot, Line, Program
from .words import WORDS, load_all
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


# ---- blocks --------------------------------------------------------------------------------------------------------------

def statement(make: Maker, depth: int) -> None:
    """A word, or a loop or branch around a block of them."""
    draws = make.draws
    kind = draws.pick(["word", "loop", "branch"], [8, 1.5, 2]) if depth > 0 else "word"
    if kind == "loop" and len(make.around) < 3 and make.instances() <= 64:
        loop(make, depth - 1)
    elif kind == "branch":
        branch(make, lambda: block(make, depth - 1, (1, 2)), (lambda: block(make, depth - 1, (1, 1))) if draws.chance(30) else None)
    else:
        one_word(make)


def loop(make: Maker, depth: int, kinds=None, low: int | None = None) -> None:
    kind = make.draws.pick(list(kinds or make.limits.loops))
    high = 3 if make.around or kind == "static" else make.limits.trips[1]
    trips = make.draws.integer(min(high, make.limits.trips[0] if low is None else low), high)
    with make.loop(kind, trips):
        block(make, depth, (1, 4))


def one_word(make: Maker) -> None:
    groups = [name for name, weight in make.limits.words.items() if weight]
    group = make.draws.pick(groups, [make.limits.words[name] for name in groups])
    words = WORDS[group]
    found = make.draws.pick([function for _, function in words], [weight for weight, _ in words])
    before = len(make.nodes)
    if found(make) is False and len(make.nodes) == before:
        make.let(make.operand())


def block(make: Maker, depth: int, size: tuple[int, int] | None = None) -> None:
    """Fill the block at hand, and store the tiles that nobody used."""
    low, high = size or make.limits.statements
    first = len(make.tiles)
    for _ in range(low):
        with make.draws.span():
            statement(make, depth)
    for _ in range(high - low):
        with make.draws.span():
            if make.draws.chance(60):
                statement(make, depth)
    sinks(make, first)


def sinks(make: Maker, first: int) -> None:
    """Store the tiles of this block that no step has used, so that nothing in a program is for nothing."""
    used = frozenset().union(*(names(node) for node in make.nodes)) if make.nodes else frozenset()
    loose = [tile for tile in make.tiles[first:] if tile.kernel not in used]
    for tile in loose:
        output(make, tile)


def names(node) -> frozenset[str]:
    if hasattr(node, "uses"):
        return node.uses
    parts = node.body if hasattr(node, "body") else (*node.then, *node.else_)
    return frozenset().union(*(names(part) for part in parts)) if parts else frozenset()


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
    words = {name: weight for name, weight in limits.words.items() if name not in ("copies", "barriers", "tma", "async_dots")}
    elements = tuple(name for name in limits.elements if not name.startswith("f8"))
    return replace(limits, words={**words, "cp_async": 1, "fences": 1}, elements=elements, portable=True)


def segment(make: Maker, fill: Callable[[], None]) -> tuple:
    """A block of its own, whose tiles go out of sight at its end."""
    with make.block() as nodes:
        fill()
    return tuple(nodes)


def assemble(name: str, seed: int, make: Maker, grid, segments: list[tuple], tasks: int = 0, pipes: bool = False) -> Program:
    """Print the segments, each over `tasks` tasks (0: none)."""
    body: list[Line] = []
    functions: list[list[Line]] = []
    reading: list[str] = []
    steps = [step for nodes in segments for step, _, _ in walk(nodes)]
    warps = make.meta.setdefault("num_warps", make.draws.pick([
        count for count in ((4, 8) if tasks else (4, 8, 2, 1)) if all(count in one.warps for one in steps)]))
    for number, nodes in enumerate(segments):
        made = plan(make, nodes, tasks, pipes) if tasks and number % 2 == 0 else None
        if made is None or len(made.tasks) < 2 and pipes:
            default = Task(0, warps=warps)
            lines = token_lines(serial(nodes), default)
            for line in lines:
                if line.text.strip().startswith("# warps of "):
                    fill_warps(make, line.text.strip().removeprefix("# warps of "), warps)
            lines = replica_tokens(make, lines, default)
            body += [*counters(lines), *lines]
            transfers: dict[str, str] = {}
            ends: list[str] = []
        else:
            made.tasks[0].warps = made.tasks[0].warps if number == 0 else warps
            if number == 0:
                warps = make.meta["num_warps"] = made.tasks[0].warps
            texts = finished(made, nodes, make)
            body += region(made, texts) if not pipes else partitions(make, made, texts, functions, number)
            transfers = {value: channel.name for value, channel in made.channels.items()}
            ends = [f"{one.ended}.reshape({make.programs}, -1)[pid] = 1" for one in made.channels.values() if one.ended]
        reading += [*reading_lines(nodes, transfers), *ends]
    source, marks = kernel_source(make, functions, body, len(grid))
    make.meta.setdefault("enable_fp_fusion", False)
    return Program(name, seed, source, reading_source(make, reading), tuple(make.arguments.values()), grid, dict(make.meta), make.cluster,
                   make.meshed, make.whole_grid, dict(make.skips), marks)


def region(made, texts: list[list[Line]]) -> list[Line]:
    """`with tlx.async_tasks()` around the tasks."""
    lines = []
    for task, text in zip(made.tasks, texts):
        regs = f", {'num_regs' if task.registers % 16 else 'registers'}={task.registers}" if task.registers else ""
        replicas = f", replicate={task.replicas}" if task.replicas > 1 else ""
        head = 'with tlx.async_task("default"):' if task.index == 0 else f"with tlx.async_task(num_warps={task.warps}{regs}{replicas}):"
        lines += [Line(head), *indented(text or [Line("pass")])]
    return [Line("with tlx.async_tasks():"), *indented(lines)]


def partitions(make: Maker, made, texts, functions, number: int) -> list[Line]:
    """tle.gpu.warp_specialize: each task a function of the module."""
    plain = [one for one in make.arguments.values()]
    calls, counts = [], []
    for task, text in zip(made.tasks, texts):
        ends = [f"{channel.name}w" for channel in made.channels.values() if channel.writer is task]
        given = [f"{channel.name}.writer()" for channel in made.channels.values() if channel.writer is task]
        for channel in made.channels.values():
            if task in channel.readers:
                ends.append(f"{channel.name}r")
                given.append(channel.endpoint(task))
        captured = [one for one in dict.fromkeys(make.captured)]
        parameters = [*(one.name for one in plain if one.kind != "constant"), "pid", "flag", *captured, *ends,
                      *(f"{one.name}: tl.constexpr" for one in plain if one.kind == "constant")]
        passed = [*(one.name for one in plain if one.kind != "constant"), "pid", "flag", *captured, *given,
                  *(one.name for one in plain if one.kind == "constant")]
        name = f"part{number}_{task.index}"
        functions.append([Line("@mimw.jit"), Line(f"def {name}({', '.join(parameters)}):"), *indented(text or [Line("pass")])])
        calls.append(f"({name}, ({', '.join(passed)},))")
        if task.index:
            counts.append(task.warps)
    registers = [task.registers or 96 for task in made.tasks[1:]]
    return [Line(f"tle.gpu.warp_specialize([{', '.join(calls)}], {counts}, {registers})")]


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
    limits = Limits({"shared": 6, "dots": 4, "tiles": 3, "barriers": 2, "carries": 4, "pointers": 2 if flavour == "tle" else 0.5, "globals": 1,
                     "copies": 1, "views": 1, "sums": 0.5, "shapes": 0.5, "stores": 0.5, "async_dots": 0.3, "assembly": 0.15}, statements=(2, 5), depth=2, flavour=flavour,
                    elements=("f16", "f32", "i32", "bf16"), shapes=square, shape_count=3, trips=(0, 6))
    make, grid = start(draws, portable(draws, limits), grids=((1,), (2,)))
    make.meta["num_stages"] = draws.integer(1, 4)

    def fill_segment():
        for _ in range(draws.integer(1, 2)):
            new_buffer(make)
        m, n = draws.pick([64, 32, 128, 16]), draws.pick([32, 64, 16])
        total = new_sum(make, (m, n), product=True)
        growing = new_sum(make, make.shape(), draws.pick(["f32", "i32"]))
        new_previous(make, make.shape(), draws.pick(["f32", "i32"]))
        left = new_buffer(make, shape=(m, draws.pick([16, 32, 64])), element="f16", layout=False) if draws.chance(65) else None
        with make.draws.span():
            dotted_loop(make, draws, total, left)
        for _ in range(draws.integer(0, 2)):
            with make.draws.span():
                statement(make, 1)
        output(make, last(make, total), ways=("plain",))
        output(make, last(make, growing))
        sinks(make, 0)
        for buffer in make.buffers[:2]:
            output(make, make.let(whole(make, buffer, str(buffer.count - 1))))
    return make, grid, [segment(make, fill_segment)], 0, False


def dotted_loop(make: Maker, draws: Draws, total, left) -> None:
    """A loop with a dot, and things before and after it in the body: fills, barriers, branches, loops. The left operand may come
    from the buffer `left`, which is filled, or changed, in some of the rounds only."""
    kind = draws.pick(["for", "stages", "for", "stages", "while", "unroll", "step", "static"])
    with make.loop(kind, draws.integer(min(2, draws.pick([2, 0, 1])), 3 if kind == "static" else make.limits.trips[1])):
        first = len(make.tiles)
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
        sinks(make, first)


def dot_through(make: Maker, total, buffer) -> None:
    """Fill a buffer, perhaps under an `if`; read it; load the other operand; multiply; perhaps change the buffer for later rounds."""
    draws, (m, k), n = make.draws, buffer.shape, total.shape[1]

    def refill():
        fill(make, buffer, slot_index(make, buffer), load_tile(make, "f16", (m, k)))

    def change():
        index = slot_index(make, buffer)
        fill(make, buffer, index, held(whole(make, buffer, index), "f16") if draws.chance(30) else held(
            derived((one := make.let(whole(make, buffer, index)),), f"3 - {one.kernel}", f"3 - wide({one.reading})", "f16", (m, k), 11), "f16"))

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
        make.step([f"{total.name} = tl.dot({x.kernel}, {w.kernel}, {total.name})"],
                  [f"{total.name} = cast(wide({total.name}) + wide({x.reading}) @ wide({w.reading}), np.float32)"], x.uses | w.uses, (total.name,))
    if draws.chance(40):
        branch(make, change)


STREAM = {"tiles": 8, "shapes": 2, "sums": 2, "stores": 2, "globals": 1.5, "shared": 2, "views": 1, "aliases": 0.7, "copies": 2, "barriers": 1.2,
          "carries": 3, "misc": 1, "layouts": 0.5, "pointers": 0.7, "tle_tiles": 0.5, "tma": 0.5}


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
    sinks(make, 0)


@family(3)
def stream(draws: Draws):
    """Tasks of TLX with rings between them, out of any sequential program; some have a second region after the first."""
    limits = Limits(STREAM, flavour="tlx", trips=(0, 8), shape_count=3)
    make, grid = start(draws, limits)
    segments = [segment(make, lambda: carried_block(make))]
    if draws.chance(25):
        segments.append(segment(make, lambda: block(make, 1, (1, 2))))
        segments.append(segment(make, lambda: block(make, 1, (1, 3))))
    return make, grid, segments, draws.integer(2, 4), False


@family(2)
def pipes(draws: Draws):
    """Partitions of TLE with pipes between them."""
    words = {name: weight for name, weight in STREAM.items() if name not in ("aliases",)}
    limits = Limits({**words, "pointers": 3}, flavour="tle", trips=(0, 8), shape_count=3, loops=("for", "for", "while", "step", "static"))
    make, grid = start(draws, limits)
    return make, grid, [segment(make, lambda: carried_block(make))], draws.integer(2, 4), True


@family(2)
def gemm(draws: Draws):
    """Products in a loop, spread over tasks: operands through rings into asynchronous dots, or into registers."""
    m, n, k = draws.pick([64, 128]), draws.pick([32, 64, 16, 128]), draws.pick([32, 64, 16])
    limits = Limits({"tiles": 3, "carries": 2, "dots": 1, "stores": 1, "shared": 1, "barriers": 0.5}, elements=("f16", "bf16", "f32"),
                    shapes=((m, k), (k, n)), shape_count=3, trips=(1, 6))
    make, grid = start(draws, limits, grids=((1,), (2,)))

    def fill_segment():
        element = draws.pick(["f16", "bf16"])
        total = new_sum(make, (m, n), product=True)
        with make.loop(draws.pick(["for", "for", "while", "step"]), draws.integer(1, 7)):
            a, b = load_tile(make, element, (m, k)), load_tile(make, element, (k, n))
            make.step([f"{total.name} = tl.dot({a.kernel}, {b.kernel}, {total.name})"],
                      [f"{total.name} = cast(wide({total.name}) + wide({a.reading}) @ wide({b.reading}), np.float32)"], a.uses | b.uses,
                      (total.name,), dot=Dot(a.kernel, b.kernel, total.name), warps=(4, 8))
            first = len(make.tiles)
            for _ in range(draws.integer(0, 2)):
                with make.draws.span():
                    statement(make, 1)
            sinks(make, first)
        output(make, last(make, total))
    return make, grid, [segment(make, fill_segment)], draws.integer(2, 3), False


@family(1)
def dots(draws: Draws):
    """Asynchronous dots of every type, one after the other and in loops."""
    limits = Limits({"async_dots": 4, "dots": 2, "tiles": 2, "stores": 1, "shared": 1}, statements=(1, 4), depth=1, shapes=((64, 32), (32, 64), (64, 64)),
                    elements=("f16", "bf16", "f32", "i32"), trips=(1, 3))
    make, grid = start(draws, limits, grids=((1,), (2,)))
    make.meta["num_warps"] = draws.pick([4, 8])
    make.meta["num_stages"] = draws.integer(1, 3)
    return make, grid, [segment(make, lambda: block(make, 1))], 0, False


@family(2)
def memory(draws: Draws):
    """Buffers, views, aliases, pointers, copies and layouts, without tasks or with them."""
    limits = Limits({"shared": 4, "views": 4, "aliases": 3, "pointers": 4, "copies": 4, "tiles": 2, "layouts": 2, "stores": 1, "barriers": 1.5, "tma": 1.5,
                     "globals": 1}, statements=(3, 8), depth=2, flavour=draws.pick(["tlx", "tle"]), trips=(0, 4))
    limits = portable(draws, limits)
    make, grid = start(draws, limits)
    return make, grid, [segment(make, lambda: block(make, 2))], 0 if limits.portable else draws.pick([0, 0, 2, 3]), False


COMMON = {"tiles": 5, "shapes": 1, "sums": 1.5, "stores": 1, "shared": 1.5, "carries": 1, "barriers": 1, "copies": 1, "globals": 0.7}
CLUSTERED = ((32,), (64,), (128,), (16, 32), (32, 32))


@family(2)
def cluster(draws: Draws):
    """CTAs that send each other tiles, by every word for it, in loops and in tasks."""
    size, groups = draws.pick([2, 4, 3, 8]), draws.integer(1, 2)
    tasks = draws.pick([0, 0, 2, 3])
    limits = Limits({**COMMON, "exchange": 8}, statements=(2, 6), depth=2, flavour="tlx", trips=(0, 5), shapes=CLUSTERED, shape_count=2)
    make, grid = start(draws, limits, grids=((size * groups,),))
    make.cluster, make.serial = size, not tasks
    make.head.append("rank = tlx.cluster_cta_rank()")
    make.captured.append("rank")
    return make, grid, [segment(make, lambda: block(make, 2))], tasks, False


@family(1.5)
def mesh(draws: Draws):
    """Meshes of TLE: remote pointers, resharding, distributed products; the mesh makes the clusters."""
    size, groups = draws.pick([2, 4]), draws.integer(1, 2)
    limits = Limits({**COMMON, "pointers": 1, "mesh": 8}, statements=(2, 6), depth=2, flavour="tle", trips=(0, 4), shapes=CLUSTERED, shape_count=2)
    make, grid = start(draws, limits, grids=((size * groups,),))
    make.cluster, make.serial, make.meshed = size, True, True
    make.functions.append(f"MESH = tle.device_mesh({{'cluster': [('x', {size})]}})\nROWS = tle.sharding(MESH, ['x', None])\n"
                          "COLUMNS = tle.sharding(MESH, [None, 'x'])\nWHOLE = tle.sharding(MESH)\n")
    make.head.append("rank = tle.shard_id(MESH, 'x')")
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


@family(0.7)
def grids(draws: Draws):
    """All programs of a launch meet, and hand tiles on through global memory."""
    size = draws.integer(2, 5)
    limits = Limits({**COMMON, "grid": 6}, statements=(2, 5), depth=2, flavour="tlx", trips=(0, 4), shapes=CLUSTERED, shape_count=2)
    make, grid = start(draws, limits, grids=((size,),))
    make.cluster, make.serial, make.whole_grid = size, True, True
    make.functions.append(f"MESH = tle.device_mesh({{'block': {size}}})\n")
    return make, grid, [segment(make, lambda: block(make, 2))], 0, False


def make_program(name: str, draws: Draws, seed: int = 0) -> Program:
    """One program of the family."""
    make, grid, segments, tasks, pipes_ = FAMILIES[name][1](draws)
    return assemble(name, seed, make, grid, segments, tasks, pipes_)


def program_of(seed: int, only: str | None = None, record=None) -> tuple[Program, Draws]:
    """The program of a seed: its family by weight, unless `only` names it."""
    chooser = Draws(seed)
    name = only or chooser.pick(list(FAMILIES), [weight for weight, _ in FAMILIES.values()])
    draws = Draws(seed * 7919 + 13, record)
    return replace(make_program(name, draws, seed)), draws
