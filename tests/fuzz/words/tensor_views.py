"""Tensor memory seen in other ways: as another type, by several arrays in the same columns, and filled from shared memory.

Two arrays in the same columns are never both alive: what one holds is read before the other is written.
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .copies import round_of
from .shared import HOLDS, held, slot_index
from .tensor import WARPS, a_tensor, columns, new_tensor, store, whole
from .tiles import load_tile


@word("tensor", 2)
def reinterprets(make: Maker):
    """The bits of floats as integers, of one buffer or of the array; and floats kept in an array of integers."""
    array = a_tensor(make, ("f32", "i32"))
    if array is None:
        return False
    index = slot_index(make, array)
    other = {"f32": "i32", "i32": "f32"}[array.element]
    tl_name, reading = ELEMENTS[other].tl, ELEMENTS[other].reading
    view = make.draws.pick(
        [f"tlx.local_reinterpret({array.slot(index)}, {tl_name})", f"tlx.local_reinterpret({array.name}, {tl_name})[{index}]"]
    )
    if array.element == "f32":
        bits = f"{array.slot(index)}.view({reading}).copy()"
        exact = ELEMENTS["i32"].exact
        make.let(Value(f"tlx.local_load({view})", bits, "i32", array.shape, exact, states=frozenset({array.name})), warps=WARPS)
        return None
    value, kept = held(make.operand(shape=array.shape), other), make.name("q")
    make.step(
        [f"tlx.local_store({view}, {value.kernel})"],
        [f"{kept} = {value.reading}"],
        value.uses,
        (*value.states, array.name),
        warps=WARPS,
    )
    back = Value(f"tlx.local_load({view})", kept, other, array.shape, HOLDS, states=frozenset({array.name}))
    made = make.let(back, warps=WARPS)
    zero = f"np.zeros({array.shape}, np.int32)"
    store(make, array, index, Value(f"tl.zeros({list(array.shape)}, tl.int32)", zero, "i32", array.shape, 0))
    return made


def written_and_read(make: Maker, name: str, slot: str, element: str, shape, storage: str) -> None:
    """Fill a buffer, read it, and give the tile a name."""
    value, kept = held(make.operand(shape=shape), element), make.name("q")
    make.step(
        [f"tlx.local_store({name}[{slot}], {value.kernel})"],
        [f"{kept} = {value.reading}"],
        value.uses,
        (*value.states, storage),
        warps=WARPS,
    )
    back = Value(f"tlx.local_load({name}[{slot}])", kept, element, shape, HOLDS, states=frozenset({storage}))
    make.let(back, warps=WARPS)


@word("tensor", 2)
def aliases(make: Maker):
    """S, and over it P of half its width with a column of factors behind, as attention has them; or all beside each other."""
    draws = make.draws
    rows, width, count = draws.pick([128, 64]), draws.pick([32, 64, 16]), draws.integer(1, 2)
    half = draws.pick(["f16", "bf16"])
    shapes = {"one": ("f32", (rows, width)), "two": (half, (rows, width)), "three": ("f32", (rows, draws.pick([1, 8])))}
    kind = draws.pick(["nested", "shared", "distinct", "none", "reuse"])
    total = columns("f32", (rows, width))
    if not make.tensor(count * (3 * total if kind == "distinct" else 2 * total)):
        return False
    names = {key: make.name("bt") for key in shapes}
    spec = make.name("spec")
    reuse = names["one"] if kind == "reuse" else spec
    head = [] if kind == "reuse" else [f"{spec} = tlx.storage_alias_spec(tlx.storage_kind.tmem)"]
    for key, (element, shape) in shapes.items():
        more = "" if kind == "reuse" and key == "one" else f", reuse={reuse}"
        head.append(
            f"{names[key]} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, {count}, tlx.storage_kind.tmem{more})"
        )
    one, two, three = names.values()
    group = {
        "nested": f"tlx.reuse_group({one}, tlx.reuse_group({two}, {three}, group_type=tlx.reuse_group_type.distinct))",
        "shared": f"tlx.reuse_group({one}, {two}, {three})",
        "distinct": f"tlx.reuse_group({one}, {two}, {three}, group_type=tlx.reuse_group_type.distinct)",
    }.get(kind)
    if group:
        head.append(f"{spec}.set_buffer_overlap({group})")
    make.head += head
    make.captured += list(names.values())
    slot, storage = str(draws.integer(0, count - 1)), f"s{one}"
    written_and_read(make, one, slot, *shapes["one"], storage)
    if kind in ("shared", "none", "reuse"):
        written_and_read(make, two, slot, *shapes["two"], storage)
        written_and_read(make, three, slot, *shapes["three"], storage)
        return
    pair = [(two, *shapes["two"]), (three, *shapes["three"])]  # both are alive at once: write both, then read both
    values = [held(make.operand(shape=shape), element) for _, element, shape in pair]
    make.step(
        [f"tlx.local_store({name}[{slot}], {value.kernel})" for (name, _, _), value in zip(pair, values)],
        [f"q_{name} = {value.reading}" for (name, _, _), value in zip(pair, values)],
        frozenset().union(*(value.uses for value in values)),
        (*(state for value in values for state in value.states), storage),
        warps=WARPS,
    )
    for name, element, shape in pair:
        back = Value(f"tlx.local_load({name}[{slot}])", f"q_{name}", element, shape, HOLDS, states=frozenset({storage}))
        make.let(back, warps=WARPS)


@word("tensor", 1.5)
def copies_a_tile(make: Maker):
    """From shared memory to tensor memory by the tensor core's own copy, which a commit ends."""
    element, width = make.draws.pick(["f32", "f16", "bf16"]), make.draws.pick([32, 64, 16])
    shape = (128, width)
    array = new_tensor(make, element, shape, make.draws.integer(1, 2))
    if array is None or not make.shared(128 * width * ELEMENTS[element].bytes):
        return False
    source, bars, index = make.name("b"), make.name("bar"), slot_index(make, array)
    make.head += [
        f"{source} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)",
        f"{bars} = tlx.alloc_barriers(1)",
    ]
    make.captured += [source, bars]
    tile = load_tile(make, element, shape)
    phase, counted = round_of(make, bars)
    value = whole(array, index)
    make.let(
        Value(**{**vars(value), "uses": tile.uses, "states": frozenset({array.name, source, bars})}),
        before=[
            f"tlx.local_store({source}[0], {tile.kernel})",
            f"tlx.tmem_copy({source}[0], {array.slot(index)})",
            Line(f"tlx.tcgen05_commit({bars}[0])", Mark("product commit", f"p{bars}")),
            Line(f"tlx.barrier_wait({bars}[0], {phase})", Mark("product wait", f"p{bars}")),
            *counted,
        ],
        warps=WARPS,
        private=True,
    )
    node = make.nodes.pop()
    reading = (f"seen('p{bars}')", f"{array.slot(index)} = {tile.reading}", *node.reading)
    make.nodes.append(type(node)(**{**vars(node), "reading": reading}))
