"""Raw bodies: Python functions that say what one thread does, with arithmetic that wraps, branches and loops that threads take in
ways of their own, and barriers between one thread's store and another's load; called on tiles, on buffers, and in tasks.

    for i in scf.for_(gpu.thread_id("x"), memref.dim(x, 0), gpu.block_dim("x")):
        memref.store(arith.addi(memref.load(x, [i]), 3), y, [i])
"""

from __future__ import annotations

from ..draws import Draws
from . import family
from .numbers import TURNED
from .sketch import Sketch

IMPORTS = """
from typing import Literal as L

from mimw.tle.raw import InOut, Input, arith, dialect, gpu, ir, memref, nvvm, scf

I32, INDEX = ir.IntegerType.get_signless(32), ir.IndexType.get()
"""
OPERATIONS = {
    "addi": "+",
    "subi": "-",
    "muli": "*",
    "andi": "&",
    "ori": "|",
    "xori": "^",
    "maxsi": "max",
    "minsi": "min",
    "shli": "<<",
    "shrsi": ">>",
    "divsi": "//",
    "remsi": "%",
}
EACH = 'for i in scf.for_(gpu.thread_id("x"), memref.dim(x, 0), gpu.block_dim("x")):'


@family(2)
def bodies(draws: Draws):
    """A body of one or two parts with a barrier between them, called once or in a loop."""
    s = Sketch(draws, grid=(draws.integer(1, 2),))
    size, rounds = draws.pick([32, 64, 128, 256]), draws.integer(1, 2)
    s.function(IMPORTS)
    s.helper(TURNED)
    s.helper("def turn(one, how, other):\n    return turned(one, how, other, -(1 << 31), (1 << 31) - 1)")
    body, meaning = part(draws, size, "x", "y")
    if draws.chance(60):  # another part reads what other threads have stored
        second, after = part(draws, size, "y", "z", draws.integer(0, size - 1))
        body, meaning = body + ["nvvm.barrier0()", *second], meaning + after
    else:
        body.append(f"{EACH}\n    memref.store(memref.load(y, [i]), z, [i])")
        meaning.append(f"for i in range({size}):\n    z[i] = y[i]")
    text = "\n".join("    " + line for one in body for line in one.split("\n"))
    memory = 'L["memref<?xi32, 3>"]'
    s.function(f'@dialect(name="mlir")\ndef body(x: Input[{memory}], y: InOut[{memory}], z: InOut[{memory}]):\n{text}')
    read = "\n".join("    " + line for one in meaning for line in one.split("\n"))
    s.helper(f"def body(x, y, z):\n{read}")
    x = s.array("i32", (s.programs, size), ("edges", s.seed()) if draws.chance(30) else ("ints", -30, 30, s.seed()))
    outputs = s.output("i32", (s.programs, size)), s.output("i32", (s.programs, size))
    draws.pick([on_tiles, on_buffers, in_tasks])(s, draws, size, rounds, x, *outputs)
    y, z = outputs
    s.reads(
        f"x, y, z = {x}[pid].tolist(), [0] * {size}, [0] * {size}",
        f"for r in range({rounds}):\n    body(x, y, z)\n    x = z[:]",
        f"{y}[pid], {z}[pid] = y, z",
    )
    return s


def part(draws: Draws, size: int, source: str, target: str, turn: int = 0) -> tuple[list[str], list[str]]:
    """(the body's lines, their meaning): each element of `target` from those of `source`."""
    place = f"arith.remui(i + {turn}, arith.constant(INDEX, {size}))" if turn else "i"
    lines, meaning = [f"v = memref.load({source}, [{place}])"], [f"v = {source}[(i + {turn}) % {size}]"]
    for number in range(draws.integer(1, 4)):
        kind = draws.pick(["operation", "operation", "select", "loop", "branch"])
        low = draws.integer(-9, 9)
        if kind == "operation":
            name = draws.pick(list(OPERATIONS))
            by = {
                "shli": draws.integer(0, 31),
                "shrsi": draws.integer(0, 31),
                "divsi": draws.pick([-1, 2, -7, 3, 1]),
                "remsi": draws.pick([-1, 5, -3, 2]),
            }.get(name)
            if by is None and draws.chance(40):
                lines.append(f"v = arith.{name}(v, memref.load({source}, [i]))")
                meaning.append(f"v = turn(v, {OPERATIONS[name]!r}, {source}[i])")
            else:
                by = draws.pick([low, 2147483647, 3]) if by is None else by
                lines.append(f"v = arith.{name}(v, arith.constant(I32, {by}))")
                meaning.append(f"v = turn(v, {OPERATIONS[name]!r}, {by})")
        elif kind == "select":
            compare, sign = draws.pick([("slt", "<"), ("sge", ">="), ("eq", "=="), ("ne", "!=")])
            lines.append(f'chosen = arith.cmpi("{compare}", v, arith.constant(I32, {low}))')
            lines.append("v = arith.select(chosen, arith.addi(v, arith.constant(I32, 1)), v)")
            meaning.append(f"v = turn(v, '+', 1) if v {sign} {low} else v")
        elif kind == "loop":  # as many rounds as the thread's own number says
            most = draws.pick([3, 7])
            lines.append(
                f"far = arith.index_cast(INDEX, arith.andi(v, arith.constant(I32, {most})))\n"
                f"for j, held, v in scf.for_(0, far, 1, [v]):\n    scf.yield_([arith.addi(held, memref.load({source}, [j]))])"
            )
            meaning.append(f"for j in range(v & {most}):\n    v = turn(v, '+', {source}[j])")
        else:
            lines.append(
                f'with scf.if_(arith.cmpi("sgt", v, arith.constant(I32, {low})), [I32]) as fork:\n'
                f"    scf.yield_([arith.subi(v, arith.constant(I32, {number + 1}))])\n"
                "with scf.else_(fork):\n    scf.yield_([arith.xori(v, arith.constant(I32, 5))])\nv = fork.results[0]"
            )
            meaning.append(f"v = turn(v, '-', {number + 1}) if v > {low} else v ^ 5")
    lines.append(f"memref.store(v, {target}, [i])")
    meaning.append(f"{target}[i] = v")
    inside = "\n".join("    " + line for one in lines for line in one.split("\n"))
    read = "\n".join("    " + line for one in meaning for line in one.split("\n"))
    return [f"{EACH}\n{inside}"], [f"for i in range({size}):\n{read}"]


def on_tiles(s: Sketch, draws: Draws, size: int, rounds: int, x: str, y: str, z: str) -> None:
    s.kernel(
        f"at = pid * {size} + tl.arange(0, {size})",
        f"x, y, z = tl.load({x} + at), tl.zeros([{size}], tl.int32), tl.zeros([{size}], tl.int32)",
    )
    with s.block(f"for r in range({rounds}):"):
        s.kernel("y, z = tle.raw.call(body, [x, y, z])", "x = z")
    s.kernel(f"tl.store({y} + at, y)", f"tl.store({z} + at, z)")


def on_buffers(s: Sketch, draws: Draws, size: int, rounds: int, x: str, y: str, z: str) -> None:
    s.kernel(
        f"at = pid * {size} + tl.arange(0, {size})",
        *(f"b{name} = tle.gpu.alloc([{size}], tl.int32)" for name in "xyz"),
        f"tl.store(tle.gpu.local_ptr(bx), tl.load({x} + at))",
        *(f"tl.store(tle.gpu.local_ptr(b{name}), tl.zeros([{size}], tl.int32))" for name in "yz"),
    )
    with s.block(f"for r in range({rounds}):"):
        s.kernel(
            "tle.raw.call(body, [bx, by, bz], output_indices=[])",
            "tl.store(tle.gpu.local_ptr(bx), tl.load(tle.gpu.local_ptr(bz)))",
        )
    s.kernel(
        f"tl.store({y} + at, tl.load(tle.gpu.local_ptr(by)))", f"tl.store({z} + at, tl.load(tle.gpu.local_ptr(bz)))"
    )


def in_tasks(s: Sketch, draws: Draws, size: int, rounds: int, x: str, y: str, z: str) -> None:
    """One task brings the numbers, another calls the body on the buffer where they lie."""
    s.kernel(
        f"buf = tlx.local_alloc(({size},), tl.int32, 1)", "full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)"
    )
    full = "tlx.barrier_wait(full[0], 0)" + s.mark()
    given = "tlx.barrier_arrive(full[0])" + s.mark()
    s.mistake(full, "pass", "the body reads what is not there yet")
    s.mistake(given, "pass", "nobody says that the numbers are there")
    loop = f"for r in range({rounds}):\n    y, z = tle.raw.call(body, [buf[0], y, z])\n    tlx.local_store(buf[0], z)"
    sender = f"tlx.local_store(buf[0], tl.load({x} + pid * {size} + tl.arange(0, {size})))\n{given}"
    receiver = (
        f"{full}\ny, z = tl.zeros([{size}], tl.int32), tl.zeros([{size}], tl.int32)\n{loop}\n"
        f"tl.store({y} + pid * {size} + tl.arange(0, {size}), y)\ntl.store({z} + pid * {size} + tl.arange(0, {size}), z)"
    )
    s.tasks(sender, receiver)
