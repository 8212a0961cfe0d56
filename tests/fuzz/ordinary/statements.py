"""What the loops of an ordinary kernel are made of: loads, products, arithmetic, conditions, stores, and loops again.

Input: a `Frame`, whose draws decide. Output: its lines. For example, of `loops(frame)`:

    acc1 = tl.zeros((R, C), tl.float32)
    for k2 in range(0, K, C):
        x3 = a_desc.load([m, k2])
        y4 = b_desc.load([k2, n])
        acc1 = tl.dot(x3, y4, acc1)

A tile is `RC`, `CC`, `R` or `C` by its shape, and by its kind what arrays hold (an element) or what products give (a sum).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .arrays import TL, Array
from .draw import Frame, cast


@dataclass
class Loop:
    """A loop while its body is drawn: its variable's position along K; sums that go round; what is yet to stand in front of it
    and at the
    end of its body."""

    position: str
    sums: list[str] = field(default_factory=list)
    count: str = ""
    front: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    conditions: int = 0


# ---- frames ----------------------------------------------------------------------------------------------------------------


def outside(frame: Frame) -> None:
    """Tiles that are loaded in front of all loops."""
    draws = frame.draws
    if draws.chance(30):
        _load_rows(frame, Loop("0"), "q", "0")
    if draws.chance(10):
        frame.let("w", _array(frame, "w", ("C", "N"), ("C", "C"), frame.element).load("0", "n", _masks(frame, ("N", ))), "CC",
            frame.element)
    if draws.chance(20):
        frame.let("f", f"tl.load({frame.vector('scale')} + ri)", "R", "fp32")


def loops(frame: Frame) -> list[str]:
    """One loop or two, one behind the other; the sums that they leave."""
    left = []
    for _ in range(frame.draws.pick([1, 2], [4, 1])):
        with frame.draws.span():
            left += loop(frame)
    return left


def epilogue(frame: Frame, sums: list[str]) -> None:
    """Each sum goes out, through some arithmetic."""
    draws = frame.draws
    for at, name in enumerate(dict.fromkeys(sums)):
        with frame.draws.span():
            for _ in range(draws.integer(0, 2)):
                name = _after(frame, name)
            element = draws.pick(["i32", "i8"] if frame.sum == "i32" else ["fp16", "fp32", "bf16", frame.element])
            out = _array(frame, f"c{at}", ("M", "N"), ("R", "C"), element, turned=5)
            frame.put(out.store("m", "n", name, _masks(frame, ("M", "N"), 80)))
            if frame.sum == "fp32" and draws.chance(10):
                frame.put(f"tl.store({frame.vector('peaks')} + own + ri, tl.max({name}, 1))")


def _after(frame: Frame, name: str) -> str:
    draws, whole = frame.draws, frame.sum == "i32"
    what = draws.pick(["scale", "relu", "bias", "residual"])
    if what == "residual":
        x = _array(frame, "x", ("M", "N"), ("R", "C"), frame.element).load("m", "n", _masks(frame, ("M", "N")), _other(frame))
        return frame.let("e", f"{name} + {cast(x, frame.sum)}", "RC", frame.sum)
    if what == "bias" and not whole:
        return frame.let("e", f"{name} + tl.load({frame.vector('bias')} + n + ci)[None, :]", "RC", frame.sum)
    if what == "relu" or whole:
        return frame.let("e", f"tl.maximum({name}, {'0' if whole else '0.0'})", "RC", frame.sum)
    return frame.let("e", frame.times(name, "0.5"), "RC", frame.sum)


# ---- loops -----------------------------------------------------------------------------------------------------------------


def loop(frame: Frame, outer: Loop | None = None) -> list[str]:
    """A loop along K with sums that go round; their names."""
    draws = frame.draws
    style = draws.pick(["step", "count", "carried", "while", "staged", "short"], [5, 3, 1, 1, 1, 1])
    name = frame.new("k")
    made = Loop({"count": f"{name} * C", "carried": f"at_{name}"}.get(style, name))
    for _ in range(draws.pick([1, 2], [3, 1])):
        made.sums.append(frame.new("acc"))
        starts = frame.some("RC", frame.sum)
        first = draws.pick(starts) if starts and draws.chance(15) else f"tl.zeros((R, C), {TL[frame.sum]})"
        made.front.append(f"{made.sums[-1]} = {first}")
    if draws.chance(25):
        made.count = frame.new("n")
        made.front.append(f"{made.count} = 0")
    if style == "carried":
        made.front.append(f"{made.position} = 0")
        made.last.append(f"{made.position} += C")
    if style == "while":
        made.front.append(f"{name} = 0")
        made.last.append(f"{name} += C")
    head = {"step": f"for {name} in range(0, K, C):", "count": f"for {name} in range(tl.cdiv(K, C)):",
            "carried": f"for {name} in range(tl.cdiv(K, C)):", "while": f"while {name} < K:",
            "staged": f"for {name} in tl.range(0, K, C, num_stages=3):", "short": f"for {name} in range(C, K, C):"}[style]
    before, lines = frame.lines, []
    frame.lines = lines
    with frame.inside(head):
        frame.tiles += [(one, "RC", frame.sum) for one in made.sums]
        _body(frame, made, outer)
        for line in made.last:
            frame.put(line)
    frame.lines = before
    for line in made.front:
        frame.put(line)
    frame.lines += lines
    frame.tiles += [(one, "RC", frame.sum) for one in made.sums]
    return made.sums


def _body(frame: Frame, made: Loop, outer: Loop | None) -> None:
    draws = frame.draws
    if not draws.chance(4):
        with draws.span():
            _softmax(frame, made) if frame.sum == "fp32" and draws.chance(25) else product(frame, made)
    for _ in range(draws.integer(0, 4)):
        with draws.span():
            statement(frame, made, outer)
    if made.count:
        frame.put(f"{made.count} += 1")


def statement(frame: Frame, made: Loop, outer: Loop | None = None) -> None:
    """One statement of a body."""
    options = {product: 3, _arithmetic: 4, _rows: 2, _store: 1.5, _in_place: 0.7, _condition: 1.5, _added: 1.5, _softmax: 0.7,
        _scaled: 1}
    if outer is None and frame.depth < 3:
        options[_nested] = 0.5
    frame.draws.pick(list(options), list(options.values()))(frame, made)


def _nested(frame: Frame, made: Loop) -> None:
    if made.conditions:
        return
    sums = loop(frame, made)
    frame.put(f"{made.sums[0]} += {sums[0]}")


def _condition(frame: Frame, made: Loop) -> None:
    """`if` around some statements, by the trip, an argument, a table, or a number that is computed from tiles."""
    draws = frame.draws
    if made.conditions > 1:
        return
    what = draws.pick(["trip", "flag", "table", "count", "tile", "program"], [4, 3, 2, 1, 1, 1])
    sums = frame.some("RC", "fp32")
    text = {"trip": f"{made.position} % (2 * C) == 0", "flag": "flag > 0", "table": f"tl.load({'{}'} + {made.position} // C) > 0",
            "count": f"{made.count} % 2 == 0" if made.count else "K > C", "program": "pid > 0",
            "tile": f"tl.sum(tl.sum({sums[-1]}, 1), 0) > 0.0" if sums else "K > C"}[what]
    if what == "table":
        text = text.format(frame.vector("table"))
    made.conditions += 1
    with frame.inside(f"if {text}:"):
        for _ in range(draws.integer(1, 2)):
            with draws.span():
                statement(frame, made, made)
    if draws.chance(30):
        with frame.inside("else:"):
            statement(frame, made, made)
    made.conditions -= 1


# ---- loads -----------------------------------------------------------------------------------------------------------------


def _array(frame: Frame, name: str, axes, tile, element: str, turned: int = 20) -> Array:
    if name not in frame.arrays:
        draws = frame.draws
        mode = draws.pick(["host", "pointers", "kernel"], [4, 4, 2])
        made = frame.arrays[name] = Array(name, axes, tile, element, mode, draws.chance(turned), wide=draws.chance(10))
        if name in "abqv" and mode == "pointers" and frame.besides(name, 25):
            made.named = bool(frame.vector(f"{name}_at"))
    return frame.arrays[name]


def _masks(frame: Frame, axes: tuple[str, ...], percent: int = 60) -> tuple[str, ...]:
    return tuple(axis for axis in axes if frame.draws.chance(percent))


def _other(frame: Frame) -> str:
    return "0" if frame.element == "i8" else frame.draws.pick(["0.0", "1.0"], [30, 1])


def _load_rows(frame: Frame, made: Loop, name: str, col: str) -> str:
    axes = ("M", "C") if name == "q" else ("M", "K")
    array = _array(frame, name, axes, ("R", "C"), frame.element)
    return frame.let("x", array.load("m", col, _masks(frame, axes if name != "q" else ("M", )), _other(frame)), "RC", frame.element)


def _load_square(frame: Frame, made: Loop) -> str:
    name = frame.draws.pick(["b", "v"])
    array = _array(frame, name, ("K", "N"), ("C", "C"), frame.element)
    masks = _masks(frame, ("K", "N"))
    if array.mode == "pointers" and not array.named and made.sums and not made.conditions and frame.draws.chance(35):
        return _carried(frame, made, array, masks)
    return frame.let("y", array.load(made.position, "n", masks, _other(frame)), "CC", frame.element)


def _carried(frame: Frame, made: Loop, array: Array, masks) -> str:
    """A pointer that goes round the loop."""
    at = frame.new("at")
    start = "C" if "range(C, K" in made.position else "0"
    made.front.append(f"{at} = {array.address(start, 'n')}")
    array.loaded = True
    found = []
    if "K" in masks:
        found.append(f"(ci[:, None] < K - {made.position})")
    if "N" in masks:
        found.append("((n + ci)[None, :] < N)")
    mask = f", mask={' & '.join(found)}, other=0.0" if found else ""
    if frame.element == "i8":
        mask = mask.replace("0.0", "0")
    name = frame.let("y", f"tl.load({at}{mask})", "CC", frame.element)
    made.last.append(f"{at} += C{'' if array.turned else f' * {array.name}_s'}")
    return name


# ---- products --------------------------------------------------------------------------------------------------------------


def product(frame: Frame, made: Loop) -> None:
    """A product of what is there or loaded now, added or for itself."""
    draws = frame.draws
    frame.has_dot = True
    rows, squares = frame.some("RC", frame.element), frame.some("CC", frame.element)
    left = draws.pick(rows) if rows and draws.chance(40) else _load_rows(frame, made, "a", made.position)
    if draws.chance(15) and frame.sum == "fp32" and frame.element != "fp8e4nv":
        left = frame.let("x", f"({left} * {2.0 if frame.whole else 0.5}){cast('', frame.element)}", "RC", frame.element)
    right = draws.pick(squares) if squares and draws.chance(25) else _load_square(frame, made)
    right += ".T" if draws.chance(25) else ""
    acc = draws.pick(made.sums)
    how = draws.pick(["into", "plus", "own", "faded"], [4, 2, 2, 1])
    if how == "into":
        frame.put(f"{acc} = tl.dot({left}, {right}, {acc})")
    elif how == "plus":
        frame.put(f"{acc} += tl.dot({left}, {right})")
    elif how == "own" or frame.sum == "i32":
        frame.let("s", f"tl.dot({left}, {right})", "RC", frame.sum)
    else:
        frame.put(f"{acc} = tl.dot({left}, {right}, {frame.times(acc, '0.75')})")


def _softmax(frame: Frame, made: Loop) -> None:
    """Two products with exponents between them, as attention has them."""
    if frame.sum != "fp32" or made.conditions:
        return
    draws = frame.draws
    frame.has_dot = True
    left = frame.some("RC", frame.element)
    q = draws.pick(left) if left and draws.chance(70) else _load_rows(frame, made, "a", made.position)
    k = _load_square(frame, made)
    s = frame.let("s", f"tl.dot({q}, {k}{draws.pick(['.T', ''])})", "RC", "fp32")
    if draws.chance(30):
        s = frame.let("s", f"tl.where((m + ri)[:, None] >= ({made.position} + ci)[None, :], {s}, -8.0)", "RC", "fp32")
    top, total, acc = frame.new("top"), frame.new("l"), draws.pick(made.sums)
    made.front += [f"{top} = tl.full((R, ), -16.0, tl.float32)", f"{total} = tl.zeros((R, ), tl.float32)"]
    new = frame.let("new", f"tl.maximum({top}, tl.max({s}, 1))", "R", "fp32")
    p = frame.let("p", frame.power(f"{s} - {new}[:, None]", -2.0, 2.0), "RC", "fp32")
    fade = frame.let("fade", frame.power(f"{top} - {new}", -1.0), "R", "fp32")
    frame.put(f"{total} = {frame.times(total, fade)} + tl.sum({p}, 1)")
    v = _load_square(frame, made)
    if draws.chance(50):
        frame.put(f"{acc} = {frame.times(acc, fade + '[:, None]')}")
        frame.put(f"{acc} = tl.dot({cast(p, frame.element)}, {v}, {acc})")
    else:
        frame.put(f"{acc} = {frame.times(acc, fade + '[:, None]')} + tl.dot({cast(p, frame.element)}, {v})")
    if draws.chance(20):
        frame.put(f"tl.store({frame.vector('peaks')} + own + ri, {total})")
    frame.put(f"{top} = {new}")


# ---- arithmetic ------------------------------------------------------------------------------------------------------------


def _sum(frame: Frame, made: Loop) -> str:
    """A tile of the sums' kind, made now if there is none."""
    found = frame.some("RC", frame.sum)
    return frame.draws.pick(found[::-1]) if found else made.sums[0]


def _arithmetic(frame: Frame, made: Loop) -> None:
    draws, t = frame.draws, _sum(frame, made)
    if frame.sum == "i32":
        text = draws.pick([f"tl.maximum({t}, 0)", f"{t} + {_sum(frame, made)}", f"{t} >> 1", f"({t} & 7).to(tl.int8)"])
        frame.let("t", text, "RC", "i8" if "int8" in text else "i32")
        return
    vectors = frame.some("R", "fp32")
    texts = [frame.times(t, "0.5"), f"tl.maximum({t}, 0.0)", frame.power(f"tl.minimum({t}, 0.0)", -2.0, 2.0),
             f"{t} - {_sum(frame, made)}", f"tl.abs({t})",
             f"tl.where((m + ri)[:, None] >= ({made.position} + ci)[None, :], {t}, 0.0)"]
    if vectors:
        texts.append(frame.times(t, frame.power(f"-tl.abs({draws.pick(vectors)})", -3.0) + "[:, None]"))
    if draws.chance(40):
        frame.let("h", cast(f"tl.maximum(tl.minimum({t}, 4.0), -4.0)", frame.element), "RC", frame.element)
    else:
        frame.let("t", draws.pick(texts), "RC", "fp32")


def _rows(frame: Frame, made: Loop) -> None:
    """A number a row: reduced from a tile, or loaded."""
    draws = frame.draws
    if frame.sum == "i32":
        return
    t = _sum(frame, made)
    what = draws.pick(["max", "sum", "load", "columns"], [3, 2, 2, 0.5])
    if what == "columns":
        c = frame.let("u", f"tl.sum({t}, 0)", "C", "fp32")
        frame.let("t", f"{t} + {frame.times(c + '[None, :]', '0.0625' if frame.whole else '0.01')}", "RC", "fp32")
    elif what == "load":
        frame.let("r", f"tl.load({frame.vector('scale')} + {made.position} + ri)", "R", "fp32")
    else:
        frame.let("r", f"tl.{what}({t}, 1)", "R", "fp32")


def _scaled(frame: Frame, made: Loop) -> None:
    """The sum fades."""
    if frame.sum == "fp32":
        acc = frame.draws.pick(made.sums)
        vectors = frame.some("R", "fp32")
        factor = frame.power(f"-tl.abs({frame.draws.pick(vectors)})", -3.0) + "[:, None]" if vectors else "0.5"
        frame.put(f"{acc} = {frame.times(acc, factor)}")


def _added(frame: Frame, made: Loop) -> None:
    frame.put(f"{frame.draws.pick(made.sums)} += {_sum(frame, made)}")


# ---- stores ----------------------------------------------------------------------------------------------------------------


def _store(frame: Frame, made: Loop) -> None:
    """A tile of this program's own goes out, each trip, or a number a row."""
    draws, t = frame.draws, _sum(frame, made)
    if frame.sum == "fp32" and (rows := frame.some("R", "fp32")) and draws.chance(40):
        frame.put(f"tl.store({frame.vector('peaks')} + {frame.own} + ri, {draws.pick(rows)})")
        return
    out = _array(frame, "o", ("T", "K"), ("R", "C"), "i32" if frame.sum == "i32" else draws.pick(["fp16", "fp32"]))
    col = made.position if draws.chance(80) else "0"
    frame.put(out.store(frame.own, col, t, ()))


def _in_place(frame: Frame, made: Loop) -> None:
    """A tile of this program's own is loaded, changed and stored again."""
    name = frame.draws.pick(["u", "a"], [6, 1])
    if name == "a" and "a" in frame.arrays and frame.arrays["a"].mode == "pointers" and frame.sum == "fp32":
        array = frame.arrays["a"]       # rows of `m` that other programs load as well: only without them
        t = _sum(frame, made)
        frame.put("if tl.num_programs(0) * tl.num_programs(1) * tl.cdiv(N, C) == 1:")
        frame.put(f"    {array.store('m', made.position, t, ())}")
        return
    array = _array(frame, "u", ("T", "K"), ("R", "C"), "i32" if frame.sum == "i32" else "fp32")
    at = made.position if frame.draws.chance(80) else "0"
    y = frame.new("y")
    frame.put(f"{y} = {array.load(frame.own, at, (), '0')}")
    frame.put(array.store(frame.own, at, f"({y} + {_sum(frame, made)})", ()))
