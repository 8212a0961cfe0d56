"""Loops whose ends the data decide: nested ones that are left early, `while`s in `while`s, helpers that return early, and readers
that learn from the tiles that none will follow.

    while (i < n) & (done == 0):        # both tasks go by the same words in global memory
        while (j < tl.load(counts + i)) & (done == 0): ..
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places


def tile_of(draws: Draws) -> tuple[str, tuple[int, ...]]:
    return draws.pick(["i32", "f32", "f16"]), draws.pick([(64,), (128,), (8, 16)])


# How the rounds are counted, and left: text of both languages. `BODY` is a round, number c of all; where `stops[c]` is set it is
# the last.
NESTS = {
    "flag": """
c, i, done = 0, 0, 0
while (i < n) {and} (done == 0):
    k, j = {counts}, 0
    while (j < k{more}) {and} (done == 0):
        BODY
        done = {stops}
        c += 1
        j += 1
    i += 1
""",
    "inner only": """
c = 0
for i in range(n):
    k, j = {counts}, 0
    while j < k{more}:
        BODY
        j += 1 + {stops} * 100
        c += 1
""",
    "guarded": """
c, done = 0, 0
for i in range(n):
    for j in range({counts}{more}):
        if done == 0:
            BODY
            done = {stops}
            c += 1
""",
    "three": """
c, i, done = 0, 0, 0
while i < n:
    for j in range({counts}{more}):
        m = 0
        while (m < 1 + j % 2) {and} (done == 0):
            BODY
            done = {stops}
            c += 1
            m += 1
    i += 1 + done * 100
""",
}


def nested(nest: str, body: str, kernel: bool, more: str = "") -> str:
    """The rounds around `body`, in one of the languages."""
    words = {
        "and": "&" if kernel else "and",
        "more": more,
        "counts": "tl.load(counts + i)" if kernel else "int(counts[i])",
        "stops": "tl.load(stops + c)" if kernel else "int(stops[c])",
    }
    lines = []
    for line in NESTS[nest].strip("\n").split("\n"):
        pad = line[: len(line) - len(line.lstrip())]
        lines += [pad + one for one in body.split("\n")] if line.strip() == "BODY" else [line.format(**words)]
    return "\n".join(lines)


HELPER = '''
@mimw.jit
def taken(buf, full, free, c, kind, SLOTS: tl.constexpr):
    """A tile of the ring; for some kinds another value, and by another way out."""
    tlx.barrier_wait(full[c % SLOTS], (c // SLOTS) & 1)
    v = tlx.local_load(buf[c % SLOTS])
    if kind == 0:
        tlx.barrier_arrive(free[c % SLOTS])
        return v
    w = v + v
    tlx.barrier_arrive(free[c % SLOTS])
    if kind == 1:
        return w
    return w - v
'''


@family(3)
def exits(draws: Draws):
    """Two tasks, a ring between them, and loops that both leave at the same round; some programs of the launch leave at once."""
    s = Sketch(draws, grid=(draws.integer(1, 3),))
    element, shape = tile_of(draws)
    nest, slots, rows = draws.pick(list(NESTS)), draws.integer(1, 3), draws.integer(1, 4)
    counts = [draws.integer(0, 3) for _ in range(rows)]
    most = 2 * sum(counts) + 2
    last = draws.integer(0, most) if draws.chance(60) else most
    stops = [int(one == last) for one in range(most)]
    s.array(element, (s.programs, most, *shape))
    x0, x1, x2 = (
        "x0",
        s.array("i32", (rows,), ("listed", tuple(counts))),
        s.array("i32", (most,), ("listed", tuple(stops))),
    )
    kinds = s.array("i32", (most,), ("ints", 0, 2, s.seed()))
    y, n, tl_name = s.output(element, (s.programs, most, *shape)), s.number(rows), ELEMENTS[element].tl
    size = 1
    for extent in shape:
        size *= extent
    leaving = draws.integer(0, s.programs - 1) if draws.chance(40) else 0
    space: dict = {"counts": counts, "stops": stops, "n": rows}
    exec(nested(nest, "pass", False), space)
    total, stopped = space["c"], last < space["c"]
    at = f"(pid * {most} + c) * {size} + {places(shape)}"
    known = f"counts, stops, n = {x1}, {x2}, {n}"
    if leaving:
        s.kernel(f"if pid < {leaving}:\n    return")
    _ringed(s, draws, nest, slots, shape, tl_name, total, f"{x0} + {at}", kinds, f"{y} + {at}", known, stopped)
    doubled = f"({kinds}[c] == 1)"
    reading = nested(nest, f"{y}[pid, c] = {x0}[pid, c] * (1 + {doubled})", False)
    s.reads(f"counts, stops, n = {x1}, {x2}, {n}", f"if pid >= {leaving}:\n    " + reading.replace("\n", "\n    "))
    return s


def _ringed(s: Sketch, draws: Draws, nest: str, slots: int, shape, tl_name: str, total: int, source, kinds, target, known, stopped):
    """The two tasks, or partitions, and their ring of so many slots, through which `total` tiles go."""
    piped = draws.chance(35)
    doubled = f"if tl.load({kinds} + c) == 1:\n    v = v + v"
    if piped:
        given, released = "w.commit(c)" + s.mark(), "r.release(c)" + s.mark()
        put = f"slot = w.acquire(c)\ntl.store(tle.gpu.local_ptr(slot.tile), tl.load({source}))\n{given}"
        take = f"h = r.wait(c)\nv = tl.load(tle.gpu.local_ptr(h.slot.tile))\n{released}\n{doubled}"
    else:
        free = f"tlx.barrier_wait(free[c % {slots}], ((c // {slots}) & 1) ^ 1)" + s.mark()
        given = f"tlx.barrier_arrive(full[c % {slots}])" + s.mark()
        put = f"{free}\ntlx.local_store(buf[c % {slots}], tl.load({source}))\n{given}"
        full = f"tlx.barrier_wait(full[c % {slots}], (c // {slots}) & 1)" + s.mark()
        released = f"tlx.barrier_arrive(free[c % {slots}])" + s.mark()
        take = f"{full}\nv = tlx.local_load(buf[c % {slots}])\n{released}\n{doubled}"
        if total > slots:
            s.mistake(free, "pass", "a slot is filled again before it was read")
    if total:
        s.mistake(given, "pass", "nobody says that the slot is full")
    if not piped and draws.chance(50):  # what the reader does is a helper's, whose ends are several
        s.function(HELPER)
        take = f"v = taken(buf, full, free, c, tl.load({kinds} + c), {slots})"
    else:
        if total > slots:
            s.mistake(released, "pass", "nothing is given back")
        if total and not piped:
            s.mistake(full, "pass", "the reader does not wait")
    store = f"{take}\ntl.store({target}, v.to({tl_name}))"
    sender, receiver = nested(nest, put, True), nested(nest, store, True)
    if total and not stopped and nest in ("inner only", "flag"):
        s.mistake(receiver, nested(nest, store, True, " + 1"), "one round too many is awaited")
    if piped:
        s.kernel(f"p = tle.pipe(capacity={slots}, tile=tle.gpu.alloc({[slots, *shape]}, {tl_name}))")
        s.partitions((f"{known}\n{sender}", "w", "p.writer()"), (f"{known}\n{receiver}", "r", "p.reader()"))
        return
    s.kernel(
        known,
        f"buf = tlx.local_alloc({shape}, {tl_name}, {slots})",
        f"full, free = tlx.alloc_barriers({slots}), tlx.alloc_barriers({slots})",
    )
    s.tasks(sender, receiver)


@family(2)
def whiles(draws: Draws):
    """`while`s that a tile's own numbers end, in each other and in loops; or a ring whose reader is told by a word that comes along
    with each tile whether another one follows."""
    return draws.pick([_told, _by_numbers])(draws)


def _told(draws: Draws):
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    element, shape = tile_of(draws)
    slots, count = draws.integer(1, 3), draws.integer(1, 8)
    size, tl_name = shape[0] * (shape[1] if len(shape) > 1 else 1), ELEMENTS[element].tl
    x, n = s.array(element, (s.programs, count, *shape)), s.number(count)
    y, rounds = s.output(element, (s.programs, count, *shape)), s.output("i32", (s.programs,))
    at = f"(pid * {count} + c) * {size} + {places(shape)}"
    slot = f"c % {slots}"
    lines = {
        "free wait": f"tlx.barrier_wait(free[{slot}], ((c // {slots}) & 1) ^ 1)",
        "full arrive": f"tlx.barrier_arrive(full[{slot}])",
        "full wait": f"tlx.barrier_wait(full[{slot}], (c // {slots}) & 1)",
        "free arrive": f"tlx.barrier_arrive(free[{slot}])",
        "word": f"tlx.local_store(word[{slot}], tl.full((1,), (c < {n} - 1).to(tl.int32), tl.int32))",
    }
    lines = {name: line + s.mark() for name, line in lines.items()}
    s.mistake(lines["full arrive"], "pass", "nobody says that the slot is full")
    s.mistake(lines["full wait"], "pass", "the reader does not wait")
    s.mistake(
        lines["word"],
        f"tlx.local_store(word[{slot}], tl.full((1,), 1, tl.int32))",
        "the reader is told that more comes, always",
    )
    s.mistake(
        f"{lines['word']}\n{lines['full arrive']}",
        f"{lines['full arrive']}\n{lines['word']}",
        "the word is written when the reader has been told",
    )
    if count > slots:
        s.mistake(lines["free wait"], "pass", "a slot is filled again before it was read")
        s.mistake(lines["free arrive"], "pass", "nothing is given back")
    s.kernel(
        f"buf = tlx.local_alloc({shape}, {tl_name}, {slots})",
        f"word = tlx.local_alloc((1,), tl.int32, {slots})",
        f"full, free = tlx.alloc_barriers({slots}), tlx.alloc_barriers({slots})",
    )
    sender = (
        f"for c in range({n}):\n    {lines['free wait']}\n    tlx.local_store(buf[{slot}], tl.load({x} + {at}))\n"
        f"    {lines['word']}\n    {lines['full arrive']}"
    )
    receiver = (
        f"more, c = 1, 0\nwhile more == 1:\n    {lines['full wait']}\n    v = tlx.local_load(buf[{slot}])\n"
        f"    more = tl.sum(tlx.local_load(word[{slot}]), 0)\n    {lines['free arrive']}\n"
        f"    tl.store({y} + {at}, v)\n    c += 1\ntl.store({rounds} + pid, c)"
    )
    s.tasks(sender, receiver)
    s.reads(f"{y}[pid] = {x}[pid]", f"{rounds}[pid] = {n}")
    return s


def _by_numbers(draws: Draws):
    s = Sketch(draws, grid=(draws.integer(1, 3),))
    size, rows = draws.pick([16, 32, 64]), draws.integer(1, 3)
    x, n = s.array("i32", (s.programs, rows, size), ("ints", -20, 40, s.seed())), s.number(rows)
    y, steps = s.output("i32", (s.programs, rows, size)), s.output("i32", (s.programs, rows))
    fold, low, held = draws.pick(["max", "min", "sum"]), draws.integer(1, 9), draws.chance(50)
    change, reading = draws.pick(
        [
            ("tl.where(v > {0}, v // 2, v - 1)", "np.where(v > {0}, np.trunc(v / 2).astype(np.int32), v - 1)"),
            ("v - (v > {0}).to(tl.int32) * 3 - 1", "v - (v > {0}) * 3 - 1"),
            ("v - tl.max(v, 0) // 3 - 1", "v - int(v.max() / 3) - 1"),
        ]
    )
    inner = draws.integer(0, 2)
    text = (
        f"i = 0\nwhile i < {n}:\n    at = (pid * {rows} + i) * {size} + tl.arange(0, {size})\n    v, count = tl.load({x} + at), 0\n"
        f"    while (tl.{fold}(v, 0) > {low}) & (count < 60):\n        v = {change.format(low)}\n        count += 1\n"
    )
    meaning = (
        f"i = 0\nwhile i < {n}:\n    v, count = {x}[pid, i].copy(), 0\n    while v.{fold}() > {low} and count < 60:\n"
        f"        v = ({reading.format(low)}).astype(np.int32)\n        count += 1\n"
    )
    if inner:
        text += f"        j = 0\n        while j < count % 3:\n            v = v - {inner}\n            j += 1\n"
        meaning += f"        v = v - {inner} * (count % 3)\n"
    if held:  # each round goes through shared memory
        s.kernel(f"buf = tlx.local_alloc(({size},), tl.int32, 1)")
        text = text.replace(
            "        count += 1\n",
            "        tlx.local_store(buf[0], v)\n        v = tlx.local_load(buf[0])\n        count += 1\n",
        )
    s.kernel(text + f"    tl.store({y} + at, v)\n    tl.store({steps} + pid * {rows} + i, count)\n    i += 1")
    s.reads(meaning + f"    {y}[pid, i], {steps}[pid, i] = v, count\n    i += 1")
    return s
