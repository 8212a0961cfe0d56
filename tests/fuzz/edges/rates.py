"""A ring with up to three readers that go at rates of their own: one tile after the other, some of them only, several at once, one
behind, slowly, or no further than they care to.

Every reader waits for each tile and gives each slot back, so no ring stands still; a ring in TLX's words or a pipe of TLE:

    producer    0 1 2 3 4 5 ..
    p           0 1 2 3 4 5 ..
    q           (0 1) (2 3) ..      both slots of a pair are given back when both were read
"""

from __future__ import annotations

from dataclasses import dataclass

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places

STYLES = ("each", "some", "group", "late", "slow", "first")


@dataclass(frozen=True)
class Ring:
    """The words of a ring of `slots`: `t` is the text of a tile's number."""

    piped: bool
    slots: int
    end: str = ""

    def wait(self, t: str) -> str:
        return (
            f"h = {self.end}.wait({t})"
            if self.piped
            else f"tlx.barrier_wait(full[({t}) % {self.slots}], (({t}) // {self.slots}) & 1)"
        )

    def load(self, t: str) -> str:
        return "tl.load(tle.gpu.local_ptr(h.slot.tile))" if self.piped else f"tlx.local_load(buf[({t}) % {self.slots}])"

    def release(self, t: str) -> str:
        return f"{self.end}.release({t})" if self.piped else f"tlx.barrier_arrive(free[({t}) % {self.slots}])"


@family(3)
def rates(draws: Draws):
    """Tiles come by a store, a copy or TMA; each reader writes an output of its own."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    piped, slots, count = draws.chance(40), draws.integer(1, 4), draws.integer(0, 9)
    element, shape = draws.pick(["f32", "i32", "f16", "i16"]), draws.pick([(64,), (128,), (8, 32), (4, 16)])
    styles = [
        draws.pick([one for one in STYLES if slots > 1 or one not in ("group", "late")])
        for _ in range(draws.integer(1, 3))
    ]
    x, n = s.array(element, (s.programs, count + 1, *shape)), s.number(count)
    s.reads(f"tiles = {x}[pid].astype(np.int64)")
    size, tl_name = s.arguments[x].shape[2:], ELEMENTS[element].tl
    total = 1
    for extent in size:
        total *= extent
    groups = [draws.integer(2, slots) if style == "group" else 2 if style == "late" else 1 for style in styles]
    burst = draws.integer(1, slots - max(groups) + 1)
    fills = ["st", "tma"] if size[-1] * ELEMENTS[element].bytes >= 16 else ["st"]
    fill = draws.pick(fills if not piped else [*fills, "copy"])
    d = s.descriptor(x, (1, 1, *shape)) if fill == "tma" and not piped else ""
    parts = [
        (_sender(s, Ring(piped, slots, "w"), fill, x, d, n, count, element, size, total, 1 if piped else burst), "w")
    ]
    for index, (style, group) in enumerate(zip(styles, groups)):
        ring = Ring(piped, slots, f"e{index}")
        parts.append((_reader(s, draws, ring, style, group, index, n, count, element, size, total), f"e{index}"))
    if draws.chance(50):
        parts = parts[1:] + parts[:1]  # the first is the default task
    warps = [draws.pick([4, 8])] + [draws.pick([4, 2, 1]) for _ in parts[1:]]
    s.meta["num_warps"] = warps[0]
    if piped:
        _pipe(s, slots, shape, tl_name, len(styles), parts, warps)
    else:
        s.kernel(f"buf = tlx.local_alloc({shape}, {tl_name}, {slots})", f"full = tlx.alloc_barriers({slots})")
        line = f"free = tlx.alloc_barriers({slots}, {len(styles)})"
        s.kernel(line)
        if count > slots:
            s.mistake(line, f"free = tlx.alloc_barriers({slots}, {len(styles) + 1})", "one reader more is waited for")
            if len(styles) > 1:
                s.mistake(
                    line, f"free = tlx.alloc_barriers({slots}, {len(styles) - 1})", "one reader is not waited for"
                )
        with s.block("with tlx.async_tasks():"):
            for index, ((lines, _), many) in enumerate(zip(parts, warps)):
                with s.block(f"with tlx.async_task(num_warps={many}):" if index else 'with tlx.async_task("default"):'):
                    s.kernel(*lines)
    return s


def _pipe(s: Sketch, slots: int, shape, tl_name: str, readers: int, parts, warps) -> None:
    names = ", ".join(s.arguments)
    calls = []
    for index, (lines, end) in enumerate(parts):
        text = "\n".join("    " + line for part in lines for line in part.split("\n"))
        s.function(f"@mimw.jit\ndef part{index}({names}, pid, {end}):\n{text}")
        given = "p.writer()" if end == "w" else f"p.reader('{end}')" if readers > 1 else "p.reader()"
        calls.append(f"(part{index}, ({names}, pid, {given}))")
    named = f", readers={tuple(f'e{index}' for index in range(readers))}" if readers > 1 else ""
    s.kernel(
        f"p = tle.pipe(capacity={slots}, tile=tle.gpu.alloc({[slots, *shape]}, {tl_name}){named})",
        f"tle.gpu.warp_specialize([{', '.join(calls)}], {warps[1:]}, {[64] * len(warps[1:])})",
    )


def _sender(
    s: Sketch, ring: Ring, fill: str, x: str, d: str, n: str, count: int, element: str, shape, total: int, burst: int
):
    """Fills `burst` slots as soon as so many are free."""
    at = f"{x} + (pid * {count + 1} + t) * {total} + {places(shape)}"
    if ring.piped:
        commit = "w.commit(t)" + s.mark()
        if count:
            s.mistake(commit, "pass", "a tile is never published")
        put = (
            f"tle.gpu.copy({at}, slot.tile, {list(shape)})"
            if fill != "st"
            else f"tl.store(tle.gpu.local_ptr(slot.tile), tl.load({at}))"
        )
        return [f"for t in range({n}):\n    slot = w.acquire(t)\n    {put}\n    {commit}"]
    slots = ring.slots
    wait = f"tlx.barrier_wait(free[t % {slots}], ((t // {slots}) & 1) ^ 1)" + s.mark()
    if count > slots:
        s.mistake(wait, "pass", "a slot is filled again before all have read it")
    slot, full = f"buf[t % {slots}]", f"full[t % {slots}]"
    if fill == "tma":
        lead = ", ".join("0" for _ in shape)
        expect = f"tlx.barrier_expect_bytes({full}, {total * ELEMENTS[element].bytes})" + s.mark()
        if count:
            s.mistake(expect, "pass", "nobody expects the bytes")
        puts = f"{expect}\ntlx.async_descriptor_load({d}, {slot}, [pid, t, {lead}], {full})"
    else:
        arrive = f"tlx.barrier_arrive({full})" + s.mark()
        if count:
            s.mistake(arrive, "pass", "nobody says that the slot is full")
        puts = f"tlx.local_store({slot}, tl.load({at}))\n{arrive}"
    if burst == 1:
        return ["\n".join([f"for t in range({n}):", f"    {wait}", *("    " + line for line in puts.split("\n"))])]
    ahead = [
        f"for g in range(({n} + {burst - 1}) // {burst}):",
        f"    for t in range(g * {burst}, tl.minimum(g * {burst} + {burst}, {n})):",
    ]
    return ["\n".join([*ahead, f"        {wait}", ahead[1], *("        " + line for line in puts.split("\n"))])]


def _reader(
    s: Sketch,
    draws: Draws,
    ring: Ring,
    style: str,
    group: int,
    index: int,
    n: str,
    count: int,
    element: str,
    shape,
    total: int,
):
    """The lines of one reader, its output, its meaning and what can go wrong with it."""
    y, tl_name, weight = s.output(element, (s.programs, count + 1, *shape)), ELEMENTS[element].tl, draws.integer(1, 3)
    out = f"tl.store({y} + (pid * {count + 1} + {{}}) * {total} + {places(shape)}, {{}})"
    wait, load, release = ring.wait("t"), ring.load("t"), ring.release("t") + s.mark()
    reused = count > ring.slots
    every = draws.integer(2, 3)
    some = {"some": f"t % {every} == {draws.integer(0, every - 1)}", "first": f"t < {draws.integer(0, max(count, 1))}"}
    condition = some.get(style, "t >= 0")
    if not ring.piped:
        wait += s.mark()
        if reused or any(eval(condition, {"t": tile}) for tile in range(count)):  # else it comes too early for nothing
            s.mistake(wait, "pass", f"the reader of {style} does not wait")
    if reused:
        s.mistake(release, "pass", f"the reader of {style} gives nothing back")
    head, value = f"for t in range({n}):", f"(v * {weight}).to({tl_name})"
    if style in ("each", "slow"):
        busy = (
            f"\n    for k in range({draws.integer(1, 4)}):\n        v = (v + k).to({tl_name})"
            if style == "slow"
            else ""
        )
        more = sum(range(draws.record[-1] + 1)) if busy else 0
        text = f"{head}\n    {wait}\n    v = {load}\n    {release}{busy}\n    {out.format('t', value)}"
        if reused and not ring.piped:
            s.mistake(f"v = {load}\n{release}", f"{release}\nv = {load}", f"the reader of {style} gives back first")
        s.reads(f"for t in range({n}):\n    {y}[pid, t] = (tiles[t] + {more}) * {weight}")
        return [text]
    if style in ("some", "first"):
        text = f"{head}\n    {wait}\n    if {condition}:\n        v = {load}\n        {out.format('t', value)}\n    {release}"
        s.reads(f"for t in range({n}):\n    if {condition}:\n        {y}[pid, t] = tiles[t] * {weight}")
        return [text]
    if style == "group":
        reach = f"for t in range(g * {group}, tl.minimum(g * {group} + {group}, {n})):"
        text = (
            f"for g in range(({n} + {group - 1}) // {group}):\n    v = tl.zeros({list(shape)}, {tl_name})\n    {reach}\n"
            f"        {wait}\n        v += {load}\n    {reach}\n        {release}\n    {out.format('g', value)}"
        )
        s.reads(
            f"for g in range(({n} + {group - 1}) // {group}):\n"
            f"    {y}[pid, g] = tiles[g * {group}:min(g * {group} + {group}, {n})].sum(0) * {weight}"
        )
        return [text]
    last = ring.release("t - 1") + s.mark()
    if reused:
        s.breaks.pop()  # the slot is given back one round later, in this line
        s.mistake(last, "pass", "the late reader gives nothing back")
    text = (
        f"{head}\n    {wait}\n    v = {load}\n    if t > 0:\n        {last}\n    {out.format('t', value)}\n"
        f"if {n} > 0:\n    {ring.release(f'{n} - 1')}"
    )
    s.reads(f"for t in range({n}):\n    {y}[pid, t] = tiles[t] * {weight}")
    return [text]
