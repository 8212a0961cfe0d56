"""Random programs on several GPUs: puts, gets, signals, barriers and waits of all comparisons, each exchange with its reading in
numpy and with the ways to break it.

    program = world_program(7)
    program.kernel, program.expected()          the source, and what each rank's `y` should be: integers, so bit by bit
    program.breaks[0]                           Break(old text, new text, why): a program that `mimw.check` must refuse

Input: a seed. Output: a `WorldProgram`. Every rank's programs hold a tile `v`. A statement changes it: by arithmetic, or by what
comes from another rank, through a buffer and words of its own. Statements with rounds use their buffer again in each, guarded by
answers, by slots or by barriers, and no other statement orders their rounds; so a break of one is always wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from .draws import Draws
from .tree import Break

N = 16
HEAD = '''import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx

MESH = tle.device_mesh({"row": 2, "device": 2})
GPUS = tle.device_mesh({"device": {gpus}})


@mimw.jit
def kernel(x, y, world, {names}):
    me, size, pid = tlx.world_rank(world), tlx.world_size(world), tl.program_id(0)
    at = pid * {n} + tl.arange(0, {n})
    v = tl.load(x + at)
'''


@dataclass
class WorldProgram:
    """`arrays` are the symmetric ones: name -> (elements a program, type). `readings` change the tiles of all ranks, in order."""

    seed: int
    gpus: int
    programs: int
    lines: list[str] = field(default_factory=list)
    arrays: dict[str, tuple[int, str]] = field(default_factory=dict)
    readings: list[Callable] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    marks: int = 0

    @property
    def kernel(self) -> str:
        body = "\n".join(f"    {line}" for line in [*self.lines, "tl.store(y + at, v)", ""])
        return HEAD.replace("{gpus}", str(self.gpus)).replace("{names}", ", ".join(self.arrays)).replace("{n}", str(N)) + body

    def inputs(self) -> np.ndarray:
        """(ranks, programs, N): what `x` holds."""
        return np.random.default_rng(self.seed).integers(-9, 10, (self.gpus, self.programs, N)).astype(np.int32)

    def expected(self) -> np.ndarray:
        v = self.inputs()
        for read in self.readings:
            v = read(v)
        return v

    def mark(self) -> str:
        """What tells a line from all others."""
        self.marks += 1
        return f"m{self.marks}"

    def array(self, stem: str, elements: int, kind: str = "int32") -> str:
        name = f"{stem}{len(self.arrays)}"
        self.arrays[name] = elements, kind
        return name

    def broken(self, which: int) -> str:
        one = self.breaks[which]
        assert self.kernel.count(one.old) == 1, f"{one.old!r} stands {self.kernel.count(one.old)} times in seed {self.seed}"
        return self.kernel.replace(one.old, one.new)


def world_program(seed: int) -> WorldProgram:
    """The program of a seed: one to four statements, of which one at least exchanges something."""
    draws = Draws(seed * 7919 + 5)
    made = WorldProgram(seed, draws.integer(2, 5), draws.integer(1, 2))
    exchanges = [passed, passed, fetched, gathered, added, told_by_one, resharded, *([in_rows] if made.gpus == 4 else [])]
    for index in range(draws.integer(1, 3)):
        if draws.chance(50):
            arithmetic(made, draws)
        draws.pick(exchanges)(made, draws, index)
    return made


# ---- statements -------------------------------------------------------------------------------------------------------


def arithmetic(made: WorldProgram, draws: Draws) -> None:
    scale, more = draws.integer(1, 3), draws.integer(-3, 3)
    made.lines.append(f"v = v * {scale} + me * {more} + pid")
    ranks, pids = np.arange(made.gpus, dtype=np.int32)[:, None, None], np.arange(made.programs, dtype=np.int32)[None, :, None]
    made.readings.append(lambda v: v * np.int32(scale) + ranks * np.int32(more) + pids)


def sent(made: WorldProgram, draws: Draws, target: str, how: str) -> list[str]:
    """A signal to `target` behind all that the task did: by a release, or relaxed behind a fence; its breaks."""
    mark = made.mark()
    if draws.chance(25):
        lines = [f'tlx.fence("sys")  # {mark}', f'tlx.signal({target}, {how}, sem="relaxed")  # {mark}']
        made.breaks.append(Break(lines[0], "pass", "nothing releases the put"))
    else:
        lines = [f"tlx.signal({target}, {how})  # {mark}"]
        made.breaks.append(Break(lines[0], lines[0].replace(")  #", ', sem="relaxed")  #'), "a relaxed signal releases nothing"))
        made.breaks.append(Break(lines[0], lines[0].replace(")  #", ', scope="gpu")  #'), "a release of the GPU's scope"))
    return lines


def awaited(made: WorldProgram, draws: Draws, word: str, count: str, compares: tuple[str, ...]) -> list[str]:
    """A wait until `word` has `count`, by one of the comparisons that mean it; its breaks."""
    mark = made.mark()
    compare = draws.pick(compares)
    value = {"gt": f"{count} - 1", "ne": "0"}.get(compare, count)
    if draws.chance(25):
        lines = [f'tlx.wait_signal({word}, {value}, compare="{compare}", sem="relaxed")  # {mark}', f'tlx.fence("sys")  # {mark}']
        made.breaks.append(Break(lines[1], "pass", "nothing acquires"))
    else:
        lines = [f'tlx.wait_signal({word}, {value}, compare="{compare}")  # {mark}']
        made.breaks.append(Break(lines[0], lines[0].replace(")  #", ', sem="relaxed")  #'), "a relaxed wait acquires nothing"))
        made.breaks.append(Break(lines[0], lines[0].replace(")  #", ', scope="gpu")  #'), "an acquire of the GPU's scope"))
    made.breaks.append(Break(lines[0], "pass", "nobody waits"))
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def passed(made: WorldProgram, draws: Draws, index: int) -> None:
    """In each round every rank puts its tile into a slot of the rank `shift` on, by stores or by a bulk copy, and tells it."""
    gpus, shift = made.gpus, draws.integer(1, made.gpus - 1)
    rounds, slots = draws.integer(1, 4), draws.integer(1, 2)
    buffer, ready = made.array("b", N * slots), made.array("f", 1)
    free = made.array("f", 1) if rounds > slots else ""
    bulk, mark = draws.chance(35), made.mark()
    place = f"(pid * {slots} + r % {slots}) * {N}"
    peer, back = f"(me + {shift}) % {gpus}", f"(me + {gpus - shift}) % {gpus}"
    body = []
    if free:
        body.append(f"tlx.wait_signal({free} + pid, r + 1 - {slots})  # {mark}")
        if slots < gpus // gcd(gpus, shift):    # else what comes back around the ring says that the slot was read
            made.breaks.append(Break(body[-1], "pass", "a slot is filled again before it was read"))
    if bulk:
        made.lines.append(f"tile{index} = tlx.local_alloc(({N},), tl.int32, 1)")
        done = f"tlx.async_descriptor_store_wait(0)  # {mark}"
        put = [f"tlx.local_store(tile{index}[0], v)", 'tlx.fence("async_shared")',
               f"tlx.async_store(tlx.peer_pointer({buffer}, {peer}, world) + {place}, tile{index}[0], {N * 4})", done]
        made.breaks.append(Break(done, "pass", "the put need not have ended"))
    else:
        put = [f"tl.store(tlx.peer_pointer({buffer}, {peer}, world) + {place} + tl.arange(0, {N}), v)"]
    tell = sent(made, draws, f"tlx.peer_pointer({ready}, {peer}, world) + pid", "1")
    if not bulk and len(tell) == 1:
        early = "\n        ".join([tell[0], put[0]])
        made.breaks.append(Break(f"{put[0]}\n        {tell[0]}", early, "told before it was put"))
    body += put + tell
    body += awaited(made, draws, f"{ready} + pid", "r + 1", ("ge", "gt"))
    body.append(f"v += tl.load({buffer} + {place} + tl.arange(0, {N}))")
    if free:
        body += [f"tlx.signal(tlx.peer_pointer({free}, {back}, world) + pid)"]
    made.lines += [f"for r in range({rounds}):", *indented(body)]

    def read(v):
        for _ in range(rounds):
            v = v + np.roll(v, shift, 0)
        return v

    made.readings.append(read)


def fetched(made: WorldProgram, draws: Draws, index: int) -> None:
    """In each round all store where peers may look, meet, and load from the rank `shift` on; then meet before the next."""
    gpus, shift, rounds = made.gpus, draws.integer(1, made.gpus - 1), draws.integer(1, 3)
    buffer, mark = made.array("b", N), made.mark()
    meet = f"tlx.world_barrier(world)  # {mark} first"
    again = f"tlx.world_barrier(world)  # {mark} then"
    body = [f"tl.store({buffer} + at, v)", meet,
            f"v += tl.load(tlx.peer_pointer({buffer}, (me + {shift}) % {gpus}, world) + at)", again]
    made.breaks.append(Break(meet, "pass", "read before it was stored"))
    if rounds > 1:
        made.breaks.append(Break(again, "pass", "stored again before it was read"))
        made.breaks.append(Break(again, f"if me > 0:\n            {again}", "one rank does not come"))
    made.lines += [f"for r in range({rounds}):", *indented(body)]

    def read(v):
        for _ in range(rounds):
            v = v + np.roll(v, -shift, 0)
        return v

    made.readings.append(read)


def gathered(made: WorldProgram, draws: Draws, index: int) -> None:
    """Everybody puts at everybody, each at a place and a word of its own; the parts are taken in another order."""
    gpus = made.gpus
    buffer, ready = made.array("b", N * gpus), made.array("f", gpus)
    how, compares = draws.pick([("1", ("ge", "ne", "eq")), ('7, op="set"', ("eq", "ge", "ne"))])
    first = draws.integer(0, 1)
    send = [f"tl.store(tlx.peer_pointer({buffer}, peer, world) + (pid * {gpus} + me) * {N} + tl.arange(0, {N}), v)",
            *sent(made, draws, f"tlx.peer_pointer({ready}, peer, world) + pid * {gpus} + me", how)]
    take = [*awaited(made, draws, f"{ready} + pid * {gpus} + peer", how.split(",")[0], compares),
            f"total{index} += tl.load({buffer} + (pid * {gpus} + peer) * {N} + tl.arange(0, {N})) * (peer + 1)"]
    made.lines += [f"total{index} = tl.zeros(({N},), tl.int32)",
                   "for step in range(size):", f"    peer = (me + step + {first}) % size", *indented(send),
                   "for step in range(size):", "    peer = (me + size - step) % size", *indented(take),
                   f"v = total{index}"]
    weights = np.arange(1, gpus + 1, dtype=np.int32)[:, None, None]
    made.readings.append(lambda v: np.broadcast_to((v * weights).sum(0, dtype=np.int32), v.shape))


def added(made: WorldProgram, draws: Draws, index: int) -> None:
    """Every rank adds its tile to a sum at every rank, by atomics of system scope; all meet before anybody looks."""
    buffer, mark = made.array("b", N), made.mark()
    add = f'tl.atomic_add(tlx.peer_pointer({buffer}, peer, world) + at, v, sem="relaxed", scope="sys")  # {mark}'
    meet = f"tlx.world_barrier(world)  # {mark}"
    made.breaks += [Break(add, add.replace('"sys"', '"gpu"'), "atomics of the GPU's scope"),
                    Break(meet, "pass", "read before all have added")]
    made.lines += ["for peer in range(size):", f"    {add}", meet, f"v = tl.load({buffer} + at)"]
    made.readings.append(lambda v: np.broadcast_to(v.sum(0, dtype=np.int32), v.shape))


def resharded(made: WorldProgram, draws: Draws, index: int) -> None:
    """The tiles of all ranks as one tensor that is spread in another way, some times in a row: a sum, or where extents have to be
    powers of two and the ranks are so many, the parts exchanged, or a weighted sum of what was gathered."""
    gpus, rounds = made.gpus, draws.integer(1, 3)
    kind = draws.pick(["sum", "exchange", "gather"] if gpus in (2, 4) else ["sum"])
    part, whole = f"tle.sharding(mesh{index}, {{}})", f"tle.sharding(mesh{index})"
    tile, have, want, after = {
        "sum": ("v", part.format('None, "device"'), whole, "{}"),
        "exchange": (f"tl.reshape(v, [{gpus}, {N // gpus}])", part.format('[None, "device"]'), part.format('["device", None]'),
                     f"tl.reshape({{}}, [{N}])"),
        "gather": (f"tl.reshape(v, [1, {N}])", part.format('["device", None]'), whole,
                   f"tl.sum({{}} * (tl.arange(0, {gpus})[:, None] + 1), 0)"),
    }[kind]
    made.lines += [f"mesh{index} = tle.bind_mesh(GPUS, world)", f"for r in range({rounds}):",
                   f"    v = {after.format(f'tle.reshard(tle.make_sharded_tensor({tile}, {have}), {want}).handle')}"]
    weights = np.arange(1, gpus + 1, dtype=np.int32)[:, None, None]

    def read(v):
        for _ in range(rounds):
            if kind == "exchange":
                v = v.reshape(gpus, -1, gpus, N // gpus).transpose(2, 1, 0, 3).reshape(v.shape)
            else:
                v = np.broadcast_to((v * (weights if kind == "gather" else 1)).sum(0, dtype=np.int32), v.shape)
        return v

    made.readings.append(read)


def told_by_one(made: WorldProgram, draws: Draws, index: int) -> None:
    """One rank puts its tile everywhere; the others wait for it."""
    gpus = made.gpus
    teller = draws.integer(0, gpus - 1)
    buffer, ready = made.array("b", N), made.array("f", 1)
    send = [f"tl.store(tlx.peer_pointer({buffer}, peer, world) + at, v)",
            *sent(made, draws, f"tlx.peer_pointer({ready}, peer, world) + pid", "1")]
    take = [*awaited(made, draws, f"{ready} + pid", "1", ("ge", "eq", "ne", "gt")), f"v -= tl.load({buffer} + at)"]
    guarded = [f"if peer != {teller}:", *indented(send)]
    made.lines += [f"if me == {teller}:", "    for peer in range(size):", *indented(indented(guarded)), "else:", *indented(take)]

    def read(v):
        v = v.copy()
        others = [rank for rank in range(gpus) if rank != teller]
        v[others] -= v[teller]
        return v

    made.readings.append(read)


def in_rows(made: WorldProgram, draws: Draws, index: int) -> None:
    """Four ranks as rows of two, or columns: the two of each meet and swap, the others take no part."""
    buffer, mark, columns = made.array("b", N), made.mark(), draws.chance(50)
    parts = [f"tle.distributed_barrier(mesh{index}[{':, ' if columns else ''}{part}])  # {mark}" for part in range(2)]
    other = "me ^ 2" if columns else "me ^ 1"
    made.breaks += [Break(part, "pass", "two ranks do not meet") for part in parts]
    made.lines += [f"mesh{index} = tle.bind_mesh(MESH, world)", f"tl.store({buffer} + at, v)", *parts,
                   f"v -= 2 * tl.load(tlx.peer_pointer({buffer}, {other}, world) + at)"]
    swapped = [2, 3, 0, 1] if columns else [1, 0, 3, 2]
    made.readings.append(lambda v: v - 2 * v[swapped])
