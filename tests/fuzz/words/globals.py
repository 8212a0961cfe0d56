"""What goes out to global memory, and what is done there: stores of all kinds, atomics, reductions by descriptor.

A store writes the tile of its own instance (CTA and loop counts), so no two stores meet and nothing need be ordered. The tokens
`__y0__` and `__y0r__` in kernel texts are where a replica adds the start of its own copy, in elements and in rows.
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import ROUNDED, Value
from . import word
from .tiles import SMALL, cast, input_array, kind, numbers, offsets, within


def output(make: Maker, value: Value, tolerance: float = 0.0, ways: tuple[str, ...] = ()) -> None:
    """Store the tile into an output of its own, by one of the ways."""
    shape, draws = value.shape, make.draws
    if len(shape) > 2:
        value = Value(
            f"tl.reshape({value.kernel}, {[value.size]})",
            f"({value.reading}).reshape({value.size})",
            value.element,
            (value.size,),
            value.bound,
            value.uses,
            value.states,
        )
        shape = value.shape
    ways = ways or (("plain", "masked") if make.limits.portable else ())
    rows = make.instances() * shape[0]
    size = (rows, shape[1]) if len(shape) == 2 else (rows,)
    weights = {"plain": 8, "masked": 2, "policy": 1, "descriptor": 2, "made": 1, "tma": 2, "bulk": 1, "copy": 0.7}
    if make.amd:
        del weights["bulk"]
    way = draws.pick(list(ways) or list(weights), None if ways else list(weights.values()))
    wide = shape[-1] * ELEMENTS[value.element].bytes >= 16 and value.size <= 16384 and max(shape) <= 256
    if way in ("descriptor", "made", "tma", "copy") and not wide or way == "bulk" and value.bytes % 16:
        way = "plain"
    if way in ("tma", "bulk", "copy") and (not make.shared(value.bytes) or make.limits.words.get("tma", 1) == 0):
        way = "plain"
    if way == "copy" and not make.limits.pointers:
        way = "tma"
    array = make.array(value.element, size, ("zeros",), output=True, tolerance=tolerance)
    index, where = make.instance(), offsets(shape)
    pointer = f"{array} + __{array}__{index} * {value.size} + {where}"
    at = f"[__{array}r__{index} * {shape[0]}, 0]" if len(shape) == 2 else f"[__{array}__{index} * {shape[0]}]"
    uses, states, reading = value.uses, value.states, f"put({array}, {index}, {value.reading})"
    if way == "masked":
        limit = make.number(draws.integer(0, value.size), "m")
        make.step(
            [f"tl.store({pointer}, {value.kernel}, mask={where} < {limit})"],
            [f"put({array}, {index}, {value.reading}, {numbers(shape)} < {limit})"],
            uses,
            states,
        )
    elif way == "descriptor":
        make.step([f"{make.descriptor(array, shape)}.store({at}, {value.kernel})"], [reading], uses, states)
    elif way == "made":
        name, strides = make.name("t"), f"[{size[1]}, 1]" if len(size) == 2 else "[1]"
        make.step(
            [
                f"{name} = tl.make_tensor_descriptor({array}, __{array}s__, {strides}, {list(shape)})",
                f"{name}.store({at}, {value.kernel})",
            ],
            [reading],
            uses,
            states,
        )
    elif way in ("tma", "bulk", "copy"):
        from .copies import store_by_copy

        store_by_copy(make, way, value, array, at, pointer, index, reading)
    else:
        more = (
            ""
            if way == "plain"
            else draws.pick([", cache_modifier='.cs'", ", eviction_policy='evict_last'", ", cache_modifier='.wb'"])
        )
        make.step([f"tl.store({pointer}, {value.kernel}{more})"], [reading], uses, states)


@word("stores", 3)
def stores(make: Maker):
    output(make, make.operand())


@word("globals", 2)
def atomic_sums(make: Maker):
    """Atomics of all CTAs and loop rounds into one tile, by operations that do not care for their order."""
    how = make.draws.pick(["add", "max", "min", "or", "xor", "and"])
    element = "f32" if how == "add" and make.draws.chance(40) else "i32"
    one = within(make.operand(element, bound=None), 1 << 10)
    array = make.array(element, (one.size,), ("zeros",), output=True)
    where = offsets(one.shape)
    more = make.draws.pick(["", ", sem='relaxed'", ", sem='relaxed', scope='gpu'", ", sem='release'"])
    reading = {
        "add": "old + new",
        "max": "np.maximum(old, new)",
        "min": "np.minimum(old, new)",
        "or": "old | new",
        "xor": "old ^ new",
        "and": "old & new",
    }[how]
    lines = [
        f"old, new = wide({array}), wide({one.reading}).reshape(-1)",
        f"{array}[...] = cast({reading}, {array}.dtype)",
    ]
    mask = ""
    if make.draws.chance(30):
        limit = make.draws.integer(0, one.size)
        mask = f", mask={where} < {limit}"
        lines[1] = f"{array}[:{limit}] = cast({reading}, {array}.dtype)[:{limit}]"
    make.step(
        [f"tl.atomic_{how}({array} + {where}, {one.kernel}{mask}{more})"], lines, one.uses, one.states, private=True
    )


@word("globals", 1)
def swaps(make: Maker):
    """Exchange and compare-and-swap of a word of the instance's own, whose old value is a tile afterwards."""
    array = make.array("i32", (make.instances(),), ("ints", 0, 1), output=True)
    old, index, line = make.name("h"), make.instance(), make.shape(1)
    new = make.draws.integer(2, 9)
    if make.draws.chance(50):
        kernel, reading = f"{old} = tl.atomic_xchg({array} + {index}, {new})", f"{new}"
    else:
        kernel, reading = f"{old} = tl.atomic_cas({array} + {index}, 0, {new})", f"{new} if {old} == 0 else {old}"
    make.step(
        [kernel],
        [f"{old} = int({array}[{index}])", f"{array}[{index}] = {reading}"],
        states=(f"word of {array}",),
        private=True,
    )
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + {old}",
            f"np.full({line}, {old}).astype(np.int32)",
            "i32",
            line,
            9,
            states=frozenset({f"word of {array}"}),
        ),
        private=True,
    )


@word("globals", 1)
def atomic_words(make: Maker):
    """tl.atomic_load, atomic_store on the instance's own elements."""
    shape = make.shape(1)
    array = make.array("i32", (make.instances() * shape[0],), ("zeros",), output=True)
    one = make.operand("i32", shape)
    pointer = f"{array} + {make.instance()} * {shape[0]} + {offsets(shape)}"
    make.step(
        [f"tl.atomic_store({pointer}, {one.kernel}, sem='relaxed')"],
        [f"put({array}, {make.instance()}, {one.reading})"],
        one.uses,
        (*one.states, f"words of {array}"),
        private=True,
    )
    make.let(
        Value(
            f"tl.atomic_load({pointer}, sem='relaxed')",
            f"take({array}, {make.instance()}, {shape})",
            "i32",
            shape,
            one.bound,
            states=frozenset({f"words of {array}"}),
        ),
        private=True,
    )


@word("globals", 1)
def polls(make: Maker):
    """tl.atomic_poll for a value that is already there."""
    array = make.array("i32", (make.instances(),), ("ints", 0, 1), output=True)
    line, index = make.shape(1), make.instance()
    name = make.name("h")
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + {name}.to(tl.int32)",
            f"np.full({line}, 1, np.int32)",
            "i32",
            line,
            1,
            states=frozenset({f"word of {array}"}),
        ),
        private=True,
        before=[
            f"tl.atomic_store({array} + {index}, 5, sem='release')",
            f"{name} = tl.atomic_poll({array} + {index}, 5, timeout_ns=1000000, sem='acquire')",
        ],
    )
    # The numpy side of the store: `let` has room for one line only.
    make.step(["pass"], [f"{array}[{index}] = 5"], states=(f"word of {array}",), private=True)


@word("tma", 1)
def descriptor_reductions(make: Maker):
    """desc.atomic_*: TMA reductions of all instances into one tile."""
    element = make.draws.pick(["i32", "f32"])
    one = within(make.operand(element, rank=2), 1 << 10)
    if one.shape[1] * 4 < 16 or max(one.shape) > 256:
        return False
    how = make.draws.pick(["add", "max", "min"] if element == "i32" else ["add"])
    array = make.array(element, one.shape, ("zeros",), output=True)
    reading = {"add": "old + new", "max": "np.maximum(old, new)", "min": "np.minimum(old, new)"}[how]
    make.step(
        [f"{make.descriptor(array, one.shape)}.atomic_{how}([0, 0], {one.kernel})"],
        [f"old, new = wide({array}), wide({one.reading})", f"{array}[...] = cast({reading}, {array}.dtype)"],
        one.uses,
        one.states,
        private=True,
    )


@word("globals", 1)
def scalars(make: Maker):
    """A scalar load and a scalar store."""
    array = input_array(make, "i32", (64,))
    out = make.array("i32", (make.instances(),), ("zeros",), output=True)
    name, index = make.name("h"), make.instance()
    make.step(
        [f"{name} = tl.load({array} + {index} * 64)", f"tl.store({out} + __{out}__{index}, {name} + {index})"],
        [f"{name} = int({array}[{index} * 64])", f"{out}[{index}] = {name} + {index}"],
    )


@word("globals", 1)
def gathered_loads(make: Maker):
    """A load through pointers that come from a tile."""
    shape = make.shape(1)
    index = cast(make.operand("i32", shape), "i32")
    element = make.draws.pick(["f32", "f16", "i32", "i8"])
    low = 0 if kind(element) == "uint" else -SMALL
    array = make.array(element, (32,), ("ints", low, SMALL))
    make.let(
        Value(
            f"tl.load({array} + ({index.kernel} & 31))",
            f"{array}[wide({index.reading}) & 31]",
            element,
            shape,
            SMALL,
            index.uses,
            index.states,
        )
    )


def rounded(value: Value) -> Value:
    return Value(value.kernel, value.reading, value.element, value.shape, ROUNDED, value.uses, value.states)
