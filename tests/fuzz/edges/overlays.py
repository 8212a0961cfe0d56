"""Two buffers in one piece of memory, filled and read in turn by two tasks: by a storage alias spec, by `reuse=`, or as the same
bytes of another type and shape.

    load    a full ─> read ─> b may come        each hand-over has its barrier: nothing of `a` is alive when `b` is filled
"""

from __future__ import annotations

from math import prod

from ..draws import Draws
from ..elements import ELEMENTS
from . import family
from .sketch import Sketch, places


@family(2)
def overlays(draws: Draws):
    """Rounds of `a` through the memory, then `b`; or the bytes of `a` read as `b`, where they are the same memory by intent."""
    s = Sketch(draws)
    rounds = draws.integer(1, 4)
    one, two = draws.pick(["f32", "f16", "i32", "i8"]), draws.pick(["i32", "f16", "f32", "u8"])
    shape_one = draws.pick([(64,), (128,), (16, 16), (32, 8)])
    how = draws.pick(["spec", "reuse", "reinterpret", "distinct", "bits"])
    if how in ("reinterpret", "bits"):
        size = prod(shape_one) * ELEMENTS[one].bytes // ELEMENTS[two].bytes
        shape_two = draws.pick([(size,), (size // 4, 4), (4, size // 4)])
    else:
        shape_two = draws.pick([(64,), (128,), (8, 16), (32, 8)])
    slots = draws.integer(1, 2)
    declare(s, how, one, two, shape_one, shape_two, slots)
    if how == "bits":
        return seen_as(s, draws, rounds, one, two, shape_one, shape_two)
    n = s.number(rounds)
    s.kernel(
        "full_a, read_a = tlx.alloc_barriers(1), tlx.alloc_barriers(1)",
        "full_b, read_b = tlx.alloc_barriers(1), tlx.alloc_barriers(1)",
    )
    apart = how == "distinct"
    lines = {
        "read_b": "tlx.barrier_wait(read_b[0], (i & 1) ^ 1)",
        "full_a": "tlx.barrier_wait(full_a[0], i & 1)",
        "read_a": "tlx.barrier_wait(read_a[0], i & 1)",
        "full_b": "tlx.barrier_wait(full_b[0], i & 1)",
    }
    lines = {name: line + s.mark() for name, line in lines.items()}
    s.mistake(lines["full_a"], "pass", "a is read before it is filled")
    s.mistake(lines["full_b"], "pass", "b is read before it is filled")
    if not apart:
        s.mistake(lines["read_a"], "pass", "b is filled over a, which is still read")
    if rounds > 1 and slots == 1 and not apart:
        s.mistake(lines["read_b"], "pass", "the next a is filled over what is still read")
    texts, slot = {}, f"i % {slots}"
    for name, element, shape in (("a", one, shape_one), ("b", two, shape_two)):
        size = prod(shape)
        x, y = s.array(element, (rounds, *shape)), s.output(element, (rounds, *shape))
        at = f"i * {size} + {places(shape)}"
        texts[f"put {name}"] = (
            f"tlx.local_store({name}[{slot}], tl.load({x} + {at}))\n    tlx.barrier_arrive(full_{name}[0])"
        )
        texts[f"get {name}"] = (
            f"{lines[f'full_{name}']}\n    v = tlx.local_load({name}[{slot}])\n    tlx.barrier_arrive(read_{name}[0])\n"
            f"    tl.store({y} + {at}, v)"
        )
        s.reads(f"{y}[...] = {x}")
    sender = f"for i in range({n}):\n    {lines['read_b']}\n    {texts['put a']}\n    {lines['read_a']}\n    {texts['put b']}"
    receiver = f"for i in range({n}):\n    {texts['get a']}\n    {texts['get b']}"
    s.tasks(sender, receiver)
    return s


def declare(s: Sketch, how: str, one: str, two: str, shape_one, shape_two, slots: int) -> None:
    """`a` and `b`, arrays of `slots` buffers."""
    first = f"tlx.local_alloc({shape_one}, {ELEMENTS[one].tl}, {slots}"
    second = f"tlx.local_alloc({shape_two}, {ELEMENTS[two].tl}, {slots}"
    if how in ("spec", "distinct"):
        kind = "" if how == "spec" else ", group_type=tlx.reuse_group_type.distinct"
        s.kernel(
            "spec = tlx.storage_alias_spec()",
            f"a = {first}, reuse=spec)",
            f"b = {second}, reuse=spec)",
            f"spec.set_buffer_overlap(tlx.reuse_group(a, b{kind}))",
        )
    elif how == "reuse":
        s.kernel(f"a = {first})", f"b = {second}, reuse=a)")
        if (
            prod(shape_two) * ELEMENTS[two].bytes > prod(shape_one) * ELEMENTS[one].bytes
        ):  # the larger one is the memory
            s.lines[-2:] = [f"b = {second})", f"a = {first}, reuse=b)"]
    else:
        s.kernel(f"a = {first})", f"b = tlx.local_reinterpret(a, {ELEMENTS[two].tl}, {shape_two})")


def seen_as(s: Sketch, draws: Draws, rounds: int, one: str, two: str, shape_one, shape_two):
    """What is stored as `a` is read as `b`, bit for bit, and the other way round; a task stores, another reads."""
    n = s.number(rounds)
    x, z = s.array(one, (rounds, *shape_one), ("edges", s.seed(), ("nan",))), s.output(one, (rounds, *shape_one))
    bits = {1: "u8", 2: "i16", 4: "i32"}[ELEMENTS[two].bytes]
    y = s.output(bits, (rounds, *shape_two))
    as_bits = "" if bits == two else f".to({ELEMENTS[bits].tl}, bitcast=True)"
    s.kernel("full, read = tlx.alloc_barriers(1), tlx.alloc_barriers(1)")
    wait, full = "tlx.barrier_wait(read[0], (i & 1) ^ 1)" + s.mark(), "tlx.barrier_wait(full[0], i & 1)" + s.mark()
    s.mistake(full, "pass", "the bytes are read before they are there")
    if rounds > 1:
        s.mistake(wait, "pass", "the bytes are stored over while they are read")
    sender = (
        f"for i in range({n}):\n    {wait}\n    tlx.local_store(a[0], tl.load({x} + i * {prod(shape_one)} + {places(shape_one)}))\n"
        "    tlx.barrier_arrive(full[0])"
    )
    receiver = (
        f"for i in range({n}):\n    {full}\n    v = tlx.local_load(b[0])\n    w = tlx.local_load(a[0])\n"
        f"    tlx.barrier_arrive(read[0])\n    tl.store({y} + i * {prod(shape_two)} + {places(shape_two)}, v{as_bits})\n"
        f"    tl.store({z} + i * {prod(shape_one)} + {places(shape_one)}, w)"
    )
    s.tasks(sender, receiver)
    s.reads(
        f"{z}[...] = {x}",
        f"{y}[...] = np.ascontiguousarray({x}).reshape({rounds}, -1).view({ELEMENTS[bits].reading}).reshape({y}.shape)",
    )
    return s
