"""Tiles copied past the registers, some groups ahead, through a ring of buffers that the same task reads.

Masks are alike over a lane's piece, or not; rows lie together, or so far apart that a copy cannot go past the registers; the wait
counts how many groups may be unfinished. Each trip, where A copies are started ahead:

    wait A - 1, read tile t, copy tile t + A        or        copy tile t + A, wait A, read tile t
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..draws import Draws
from ..edges.sketch import Sketch, places
from ..elements import ELEMENTS
from . import family, onto_a_chip

SHAPES = ((256,), (512,), (64,), (1024,), (32, 64), (64, 32), (16, 128), (64, 64), (32, 16))
LAYOUTS = (
    "tlx.swizzled_shared_layout_encoding.make_default(2)",
    "tlx.swizzled_shared_layout_encoding(4, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0])",
    "tlx.padded_shared_layout_encoding.with_identity_for([[{row}, 16]], {shape}, [1, 0])",
    "tlx.padded_shared_layout_encoding.with_identity_for([[512, 16]], {shape}, [1, 0])",
)


@dataclass(frozen=True)
class Source:
    """One array of tiles: where the elements of tile `t` lie, which of them there are, and what stands for the others; `there`: how
    many tiles the last program has, whose mask leaves out all others."""

    array: str
    base: str
    at: str
    mask: str
    other: int | None
    buffer: str
    by_base: bool
    there: int

    def copy(self, t: str, slot: str, masked: bool = True) -> str:
        """The copy of tile `t` into a slot."""
        more = f", mask={self.mask}" if self.mask and masked else ""
        more += f", other={self.other}" if more and self.other is not None else ""
        base = self.base.replace("{t}", t)
        if self.by_base:
            return f"tlx.buffer_load_to_local({self.buffer}[{slot}], {base}, {self.at}{more})".replace("{t}", t)
        return f"tlx.async_load({base} + {self.at}, {self.buffer}[{slot}]{more})".replace("{t}", t)


@family(3)
def direct(draws: Draws):
    """One or two arrays a group; their sum, or the one, goes out tile by tile."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    onto_a_chip(draws, s)
    shape, element = draws.pick(SHAPES), draws.pick(["f16", "f32", "bf16", "i32", "i8"])
    size, count = prod(shape), draws.integer(0, 6)
    late = draws.chance(50)                 # the copy of a trip stands behind the read
    slots = draws.integer(1 if late else 2, 4)
    ahead = draws.integer(1, slots if late else slots - 1)
    while slots * size * ELEMENTS[element].bytes > 16384:
        shape = (*shape[:-1], shape[-1] // 2)
        size = prod(shape)
    n = s.number(count)
    sources = [_source(s, draws, number, element, shape, count + ahead, slots) for number in range(draws.integer(1, 2))]
    y = s.output(element, (s.programs, count + 1, *shape))
    commit = s.dropped("tlx.async_load_commit_group()", "the copies of a trip are in no group that is waited for") if (
        count > ahead) else "tlx.async_load_commit_group()"
    start = [*(source.copy("t", f"t % {slots}") for source in sources), "tlx.async_load_commit_group()"]
    s.kernel(_loop(f"for t in tl.static_range({ahead}):", start))
    pending = ahead - late
    wait = f"tlx.async_load_wait_group({pending})" + s.mark()
    if count:
        s.mistake(wait, "pass", "a tile is read while its copy is on its way")
        s.mistake(wait, f"tlx.async_load_wait_group({pending + 1})", "the newest group but those allowed may be unfinished")
    loads = [f"tlx.local_load({source.buffer}[t % {slots}])" for source in sources]
    read = f"v = ({' + '.join(loads)}).to({ELEMENTS[element].tl})" + s.mark()
    out = f"tl.store({y} + (pid * {count + 1} + t) * {size} + {places(shape)}, v)"
    copies = [source.copy(f"(t + {ahead})", f"(t + {ahead}) % {slots}") for source in sources]
    needed = draws.chance(30)               # a copy that nobody needs is not made; its group is empty
    for source, line in zip(sources, copies, strict=True):
        if source.there < count + (0 if needed else ahead) and source.there >= ahead and count:
            whole = source.copy(f"(t + {ahead})", f"(t + {ahead}) % {slots}", masked=False)
            s.mistake(line, whole, "a tile is copied that is not there")
    if needed:
        copies = [f"if t + {ahead} < {n}:", *("    " + line for line in copies)]
    body = [wait, read, out, *copies, commit] if late else [*copies, commit, wait, read, out]
    if late and ahead == slots and count > slots and len(copies) == len(sources):
        block = "\n".join([read, out, *copies])
        s.mistake(block, "\n".join([*copies, read, out]), "a slot is filled again before it was read")
    s.kernel(_loop(f"for t in range({n}):", body))
    s.kernel("tlx.async_load_wait_group(0)")
    tiles = " + ".join(f"tiles_{source.array}(t)" for source in sources)
    s.reads(f"for t in range({n}):\n    {y}[pid, t] = ({tiles}).astype({y}.dtype)")
    s.meta["num_warps"] = draws.pick([4, 8, 2, 1])
    return s


def _loop(head: str, lines: list[str]) -> str:
    return "\n".join([head, *("    " + line for text in lines for line in text.split("\n"))])


def _source(s: Sketch, draws: Draws, number: int, element: str, shape, tiles: int, slots: int) -> Source:
    """An array of so many tiles a program, its ring of buffers, and its meaning."""
    size, tl_name = prod(shape), ELEMENTS[element].tl
    gap = draws.pick([0, 0, 16, 8, 1, 3]) if len(shape) == 2 else 0
    width = shape[-1] + gap
    each = size // shape[-1] * width
    way = draws.pick(["none", "columns", "rows", "tile", "all"] if len(shape) == 2 else ["none", "columns", "tile"])
    there = draws.integer(0, tiles) if way == "tile" else tiles
    x = s.array(element, (max(1, (s.programs - 1) * tiles + there) * each,), ("ints", -3, 3, s.seed()))
    if len(shape) == 2:
        stride = s.number(width) if draws.chance(60) else width
        at = f"(tl.arange(0, {shape[0]})[:, None] * {stride} + tl.arange(0, {shape[1]})[None, :])"
    else:
        at = f"tl.arange(0, {shape[0]})"
    layout = draws.pick(LAYOUTS).format(row=shape[-1], shape=list(shape)) if len(shape) == 2 and draws.chance(35) else ""
    if layout:
        s.kernel(f"layout{number}: tl.constexpr = {layout}")
    buffer = f"b{number}"
    s.kernel(f"{buffer} = tlx.local_alloc({shape}, {tl_name}, {slots}{f', layout=layout{number}' if layout else ''})")
    mask, where = _mask(s, draws, way, shape, there)
    other = draws.integer(0, 2) if mask and draws.chance(50) else None
    first = f"(pid * {tiles} + {{t}}) * {each}"
    moved = draws.chance(50)
    base, place = (f"({x} + {first})", at) if moved else (x, f"({first} + {at})")
    s.reads(
        f"def tiles_{x}(t):\n"
        f"    whole = np.resize({x}[(pid * {tiles} + t) * {each}:][:{each}], {(*shape[:-1], width)})[..., :{shape[-1]}]\n"
        f"    return np.where({where}, whole.astype(np.float64), {other or 0})"
    )
    return Source(x, base, place, mask, other, buffer, draws.chance(60), there)


def _mask(s: Sketch, draws: Draws, way: str, shape, there: int) -> tuple[str, str]:
    """A mask of tile `t`, in a kernel and in numpy: none; rows or columns below a number, which may cut a lane's piece; all of a
    tile or nothing; elements below one."""
    if way == "none":
        return "", "True"
    if way == "tile":
        limit = s.number(there)
        return f"({places(shape)} >= 0) & ({{t}} < {limit})", f"t < {limit}"
    extent = {"columns": shape[-1], "rows": shape[0], "all": prod(shape)}[way]
    limit = draws.integer(0, extent)
    limit = limit // 16 * 16 if draws.chance(50) else limit
    name = s.number(limit) if draws.chance(60) else str(limit)
    if way == "all":
        return f"{places(shape)} < {name}", f"np.arange({extent}).reshape({shape}) < {name}"
    if len(shape) == 1:
        return f"tl.arange(0, {extent}) < {name}", f"np.arange({extent}) < {name}"
    spread = "[None, :]" if way == "columns" else "[:, None]"
    return f"tl.arange(0, {extent}){spread} < {name}", f"np.arange({extent}){spread} < {name}"
