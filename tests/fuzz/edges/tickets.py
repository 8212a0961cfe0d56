"""Atomics whose old values are used: tickets, locks, chains of exchanges, places in a list; between programs, and in shared memory.

Which program gets which old value is open; what is stored at the places that they name is not:

    ticket = tl.atomic_add(counter, 1)
    tl.store(y + ticket, 1)                     # every place is written once, by whomever
"""

from __future__ import annotations

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch

COUNTED = ("i32", "i64", "u32")


@family(2)
def tickets(draws: Draws):
    """One to three such uses of atomics, in a launch of one to five programs."""
    s = Sketch(draws, grid=(draws.integer(1, 5),))
    for number in range(draws.integer(1, 3)):
        draws.pick([of_programs, of_lanes, exchanged, last_one, locked, sorted_by_counts, old_values, swapped_where])(
            s, draws, number
        )
    return s


def of_programs(s: Sketch, draws: Draws, number: int) -> None:
    """Each program takes a ticket, some times in a loop; the place that it names is the program's."""
    element, step, rounds = draws.pick(COUNTED), draws.integer(1, 5), draws.integer(1, 3)
    counter, y = s.output(element, (1,)), s.output("i32", (s.programs * rounds,))
    sem = draws.pick(["", ", sem='relaxed'", ", sem='acquire'", ", sem='release', scope='gpu'"])
    with s.block(f"for r{number} in range({rounds}):"):
        s.kernel(
            f"t{number} = tl.atomic_add({counter}, {step}{sem})",
            f"tl.atomic_add({y} + t{number} // {step}, {number + 1})",
        )
    s.reads(f"{counter}[0] += {step * rounds}", f"{y}[pid * {rounds}:(pid + 1) * {rounds}] = {number + 1}")


def of_lanes(s: Sketch, draws: Draws, number: int) -> None:
    """All elements of a tile count up one word; some are masked."""
    size = draws.pick([32, 64, 128])
    limit = draws.integer(1, size)
    counter, y = s.output("i32", (1,)), s.output("i32", (s.programs * limit,))
    s.kernel(f"""
        at{number} = tl.arange(0, {size})
        t{number} = tl.atomic_add({counter} + at{number} * 0, 1, mask=at{number} < {limit})
        tl.store({y} + t{number}, 7, mask=at{number} < {limit})""")
    s.reads(f"{counter}[0] += {limit}", f"{y}[pid * {limit}:(pid + 1) * {limit}] = 7")


def exchanged(s: Sketch, draws: Draws, number: int) -> None:
    """Exchanges of one word: all that was put in comes out again, save what the last one leaves, who takes that, too."""
    element = draws.pick(["i32", "i64", "f32"])
    word, done, total = s.array(element, (1,), ("listed", (5,))), s.output("i32", (1,)), s.output(element, (1,))
    s.kernel(f"""
        o{number} = tl.atomic_xchg({word}, pid + {number + 2})
        tl.atomic_add({total}, o{number}.to({ELEMENTS[element].tl}))
        if tl.atomic_add({done}, 1) == {s.programs - 1}:
            tl.atomic_add({total}, tl.atomic_xchg({word}, 1).to({ELEMENTS[element].tl}))""")
    s.reads(f"{done}[0] += 1", f"{total}[0] += pid + {number + 2} + (5 if pid == 0 else 0)")


def last_one(s: Sketch, draws: Draws, number: int) -> None:
    """Each program stores its part and takes a ticket; who has the last one adds all parts up."""
    size = draws.pick([16, 64, 128])
    x, parts = s.array("i32", (s.programs, size)), s.output("i32", (s.programs, size))
    done, y = s.output("i32", (1,)), s.output("i32", (size,))
    fold = draws.pick(["+", "max"])
    line = f"t{number} = tl.atomic_add({done}, 1, sem='acq_rel')" + s.mark()
    join = f"s{number} + part" if fold == "+" else f"tl.maximum(s{number}, part)"
    s.kernel(f"""
        at{number} = tl.arange(0, {size})
        tl.store({parts} + pid * {size} + at{number}, tl.load({x} + pid * {size} + at{number}) * 3)
        {line}
        if t{number} == {s.programs - 1}:
            s{number} = tl.load({parts} + at{number})
            for row in range(1, {s.programs}):
                part = tl.load({parts} + row * {size} + at{number})
                s{number} = {join}
            tl.store({y} + at{number}, s{number})""")
    if s.programs > 1:
        for sem, why in (
            ("relaxed", "a relaxed ticket orders nothing"),
            ("acquire", "nothing releases the part"),
            ("release", "who adds up acquires nothing"),
        ):
            s.mistake(line, line.replace("acq_rel", sem), why)
    function = "sum" if fold == "+" else "max"
    s.reads(
        f"{parts}[pid] = {x}[pid] * 3",
        f"{done}[0] += 1",
        f"if pid == {s.programs - 1}:\n    {y}[...] = ({x}.astype(np.int64) * 3).{function}(0)",
    )


def locked(s: Sketch, draws: Draws, number: int) -> None:
    """A lock by compare-and-swap around words that are read, changed and written back."""
    size, rounds = draws.pick([1, 32, 64]), draws.integer(1, 2)
    lock, y = s.output("i32", (1,)), s.output("i32", (size,))
    at = f"tl.arange(0, {size})" if size > 1 else "0"
    taken = f"while tl.atomic_cas({lock}, 0, 1, sem='acquire') == 1:" + s.mark()
    given = f"tl.atomic_xchg({lock}, 0, sem='release')" + s.mark()
    with s.block(f"for r{number} in range({rounds}):"):
        s.kernel(f"""
            {taken}
                pass
            tl.store({y} + {at}, tl.load({y} + {at}, volatile={bool(size == 1)}) + pid + 1)
            {given}""")
    if s.programs > 1:
        s.mistake(taken, taken.replace("'acquire'", "'relaxed'"), "the lock is taken relaxed")
        s.mistake(given, given.replace("'release'", "'relaxed'"), "the lock is given back relaxed")
        s.mistake(taken, f"while tl.atomic_or({lock}, 0) == 7:", "nobody takes the lock")
        s.mistake(given, "pass", "the lock is never given back")
    s.reads(f"{y}[...] += (pid + 1) * {rounds}")


def sorted_by_counts(s: Sketch, draws: Draws, number: int) -> None:
    """Keys are sorted by counting in shared memory: an old count is the place among equal keys."""
    size, keys, programs = draws.pick([32, 64, 128]), draws.pick([4, 8, 16]), s.programs
    x, y = s.array("i32", (programs, size), ("ints", 0, keys - 1, s.seed())), s.output("i32", (programs, size))
    s.kernel(f"""
        counts{number} = tle.gpu.alloc([{keys}], tl.int32)
        every{number} = tl.arange(0, {keys})
        tl.store(tle.gpu.local_ptr(counts{number}), tl.zeros([{keys}], tl.int32))
        key{number} = tl.load({x} + pid * {size} + tl.arange(0, {size}))
        among{number} = tl.atomic_add(tle.gpu.local_ptr(counts{number}, (key{number},)), 1)
        have{number} = tl.load(tle.gpu.local_ptr(counts{number}))
        tl.store(tle.gpu.local_ptr(counts{number}), tl.cumsum(have{number}, 0) - have{number})
        first{number} = tl.load(tle.gpu.local_ptr(counts{number}, (key{number},)))
        tl.store({y} + pid * {size} + first{number} + among{number}, key{number})""")
    s.reads(f"{y}[pid] = np.sort({x}[pid])")


def old_values(s: Sketch, draws: Draws, number: int) -> None:
    """What was there, of words that nobody else touches; some lanes masked; integers at the ends of their types."""
    size, programs = draws.pick([32, 64, 128]), s.programs
    element = draws.pick(["i32", "i64", "u32", "f32", "f16"])
    operations = (
        ["add", "xchg", "max", "min", "and", "or", "xor"]
        if element[0] in "iu"
        else ["add", "xchg"]
        if element == "f32"
        else ["add"]
    )
    how = draws.pick(operations)
    fill = ("edges", s.seed()) if element[0] in "iu" and draws.chance(60) else ("ints", 0, 8, s.seed())
    x, words = s.array(element, (programs, size)), s.output(element, (programs, size), fill)
    y, limit = s.output(element, (programs, size)), draws.integer(0, size) if draws.chance(40) else size
    turn = draws.integer(0, size - 1)
    s.kernel(f"""
        at{number} = tl.arange(0, {size})
        old{number} = tl.atomic_{how}({words} + pid * {size} + (at{number} ^ {turn}), tl.load({x} + pid * {size} + at{number}),
                                      mask=at{number} < {limit})
        tl.store({y} + pid * {size} + at{number}, old{number}, mask=at{number} < {limit})""")
    new = {
        "add": "old + new",
        "xchg": "new",
        "max": "np.maximum(old, new)",
        "min": "np.minimum(old, new)",
        "and": "old & new",
        "or": "old | new",
        "xor": "old ^ new",
    }[how]
    s.reads(f"""
        where = (np.arange({size}) ^ {turn})[:{limit}]
        old, new = {words}[pid, where].copy(), {x}[pid, :{limit}]
        {y}[pid, :{limit}] = old
        with np.errstate(over="ignore"):
            {words}[pid, where] = ({new}).astype({words}.dtype)""")


def swapped_where(s: Sketch, draws: Draws, number: int) -> None:
    """Compare-and-swap of a tile of words, of which some are what is expected."""
    size, programs, element = draws.pick([32, 64]), s.programs, draws.pick(["i32", "i64"])
    words, y = s.output(element, (programs, size), ("ints", 0, 3, s.seed())), s.output(element, (programs, size))
    s.kernel(f"""
        at{number} = tl.arange(0, {size})
        old{number} = tl.atomic_cas({words} + pid * {size} + at{number}, (at{number} * 0 + 1).to({ELEMENTS[element].tl}),
                                    (at{number} + 9).to({ELEMENTS[element].tl}))
        tl.store({y} + pid * {size} + at{number}, old{number})""")
    s.reads(
        f"{y}[pid] = {words}[pid]", f"{words}[pid] = np.where({words}[pid] == 1, np.arange({size}) + 9, {words}[pid])"
    )
