"""Buffers that share storage: one after the other in the same bytes, beside each other in one slot, or reusing another buffer.

Two buffers in the same bytes are never both alive: what one holds is read before the other is written.
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Value
from . import word
from .shared import HOLDS, held


def written_and_read(make: Maker, name: str, slot: str, element: str, shape, storage: str) -> None:
    """Fill a slot, read it, and give the tile a name. The numpy side needs no storage: the tile is what was written."""
    value = held(make.operand(shape=shape), element)
    state = (*value.states, storage)
    kept = make.name("q")
    make.step([f"tlx.local_store({name}[{slot}], {value.kernel})"], [f"{kept} = {value.reading}"], value.uses, state)
    make.let(Value(f"tlx.local_load({name}[{slot}])", kept, element, shape, HOLDS, states=frozenset({storage})))


@word("aliases", 3)
def specs(make: Maker):
    """A storage alias spec with a shared group, a distinct one, or both; or none at all."""
    shape, other = make.draws.pick([(32, 32), (64, 32), (128,)]), make.draws.pick(["i32", "f16", "f32"])
    count = make.draws.integer(1, 2)
    one, two, three, spec = make.name("b"), make.name("b"), make.name("b"), make.name("spec")
    size = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if not make.shared(3 * count * size * 4):
        return False
    sized = f"buffer_size_bytes={3 * count * size * 4}" if make.draws.chance(30) else ""
    head = [
        f"{spec} = tlx.storage_alias_spec({sized})",
        f"{one} = tlx.local_alloc({shape}, tl.float32, {count}, reuse={spec})",
        f"{two} = tlx.local_alloc({shape}, {ELEMENTS[other].tl}, {count}, reuse={spec})",
        f"{three} = tlx.local_alloc({shape}, tl.float32, {count}, reuse={spec})",
    ]
    kind = make.draws.pick(["none", "shared", "distinct", "nested"])
    distinct = "group_type=tlx.reuse_group_type.distinct"
    group = {
        "none": "",
        "shared": f"tlx.reuse_group({one}, {two}, {three}, group_type=tlx.reuse_group_type.shared)",
        "distinct": f"tlx.reuse_group({one}, {two}, {three}, {distinct})",
        "nested": f"tlx.reuse_group({one}, tlx.reuse_group({two}, {three}, {distinct}))",
    }[kind]
    if group:
        head.append(f"{spec}.set_buffer_overlap({group})")
    make.head += head
    make.captured += [one, two, three]
    slot = str(make.draws.integer(0, count - 1))
    if kind in ("distinct", "nested"):
        # Both are alive at once: write both, then read both.
        a, b = (one, three) if kind == "distinct" else (two, three)
        element = "f32" if kind == "distinct" else other
        first, second = held(make.operand(shape=shape), element), held(make.operand(shape=shape), "f32")
        make.step(
            [f"tlx.local_store({a}[{slot}], {first.kernel})", f"tlx.local_store({b}[{slot}], {second.kernel})"],
            [f"q_{a}, q_{b} = {first.reading}, {second.reading}"],
            first.uses | second.uses,
            (*first.states, *second.states, spec),
        )
        make.let(Value(f"tlx.local_load({a}[{slot}])", f"q_{a}", element, shape, HOLDS, states=frozenset({spec})))
        make.let(Value(f"tlx.local_load({b}[{slot}])", f"q_{b}", "f32", shape, HOLDS, states=frozenset({spec})))
        return
    written_and_read(make, one, slot, "f32", shape, spec)
    written_and_read(make, two, slot, other, shape, spec)


@word("aliases", 1.5)
def subtiles(make: Maker):
    """group_size 2: two buffers of one array in the slot of one of another."""
    if not make.shared(16384):
        return False
    one, two, spec = make.name("b"), make.name("b"), make.name("spec")
    make.head += [
        f"{spec} = tlx.storage_alias_spec()",
        f"{one} = tlx.local_alloc((32, 32), tl.float32, 2, reuse={spec})",
        f"{two} = tlx.local_alloc((32, 32), tl.float16, 4, reuse={spec})",
        f"{spec}.set_buffer_overlap(tlx.reuse_group({one}, tlx.reuse_group({two}, group_size=2)))",
    ]
    make.captured += [one, two]
    written_and_read(make, one, str(make.draws.integer(0, 1)), "f32", (32, 32), spec)
    written_and_read(make, two, str(make.draws.integer(0, 3)), "f16", (32, 32), spec)


@word("aliases", 1.5)
def reuses(make: Maker):
    """A buffer in the bytes of another array, or of one of its buffers."""
    shape = make.draws.pick([(64,), (128,), (32, 32)])
    if not make.shared(3 * 4 * shape[0] * (shape[1] if len(shape) == 2 else 1)):
        return False
    one, two = make.name("b"), make.name("b")
    whole = make.draws.chance(50)
    make.head += [
        f"{one} = tlx.local_alloc({shape}, tl.float32, 3)",
        f"{two} = tlx.local_alloc({shape}, tl.int32, {2 if whole else 1}, reuse={one if whole else f'{one}[1]'})",
    ]
    make.captured += [one, two]
    written_and_read(make, one, "1", "f32", shape, one)
    written_and_read(make, two, "1" if whole else "0", "i32", shape, one)
