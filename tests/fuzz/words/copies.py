"""Copies by the asynchronous engines, with the waits that they need: cp.async groups, bulk copies, TMA both ways."""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .tiles import SMALL, input_array, numbers, offsets

WITHOUT_PREFETCH = ("gfx942", "gfx950")


def store_by_copy(
    make: Maker, way: str, value: Value, array: str, at: str, pointer: str, index: str, reading: str
) -> None:
    """Out through a buffer: a TMA store, a bulk store or tle.gpu.copy. The buffer's bytes have been taken."""
    element, shape, stage = ELEMENTS[value.element], value.shape, make.name("g")
    state = (*value.states, stage)
    if way == "copy":
        make.head.append(f"{stage} = tle.gpu.alloc({list(shape)}, {element.tl})")
        make.captured.append(stage)
        to = (
            f"{make.descriptor(array, shape)}, {list(shape)}, {at}"
            if make.draws.chance(50)
            else f"{pointer}, {list(shape)}"
        )
        make.step(
            [f"tl.store(tle.gpu.local_ptr({stage}), {value.kernel})", f"tle.gpu.copy({stage}, {to})"],
            [reading],
            value.uses,
            state,
        )
        return
    make.head.append(f"{stage} = tlx.local_alloc({shape if way == 'tma' else (value.size,)}, {element.tl}, 1)")
    make.captured.append(stage)
    fence = Line(
        make.draws.pick(["tlx.fence('async_shared')", "tlx.fence_async_shared()"]),
        Mark("fence of a store", f"s{stage}"),
    )
    wait = Line("tlx.async_descriptor_store_wait(0)", Mark("wait of a store", f"s{stage}"))
    if way == "bulk":
        flat = value.kernel if len(shape) == 1 else f"tl.reshape({value.kernel}, ({value.size},))"
        copy = [
            f"tlx.local_store({stage}[0], {flat})",
            fence,
            f"tlx.async_store({array} + __{array}__{index} * {value.size}, {stage}[0], {value.bytes})",
            wait,
        ]
    else:
        policy = ", eviction_policy='evict_first'" if make.draws.chance(20) else ""
        copy = [
            f"tlx.local_store({stage}[0], {value.kernel})",
            fence,
            Line(
                f"tlx.async_descriptor_store({make.descriptor(array, shape)}, {stage}[0], {at}{policy})",
                Mark("corner of a store", f"s{stage}"),
            ),
            wait,
        ]
    make.step(copy, [f"seen('s{stage}')", reading], value.uses, state)


@word("copies", 2)
@word("cp_async", 1)
def cp_async(make: Maker):
    """Groups of asynchronous loads, some waited for late, with masks and other values."""
    element = make.draws.pick(["f32", "i32", "f16"])
    shape = make.shape()
    size = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if size * ELEMENTS[element].bytes < 512 and element == "f16" or not make.shared(2 * size * ELEMENTS[element].bytes):
        return False
    buffer, count = make.name("b"), make.draws.integer(1, 2)
    make.head.append(f"{buffer} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 2)")
    make.captured.append(buffer)
    lines, readings = [], []
    limit = make.draws.integer(0, size) if element != "f16" and make.draws.chance(40) else None
    for slot in range(count):
        array = input_array(make, element, shape)
        mask = "" if limit is None else f", mask={offsets(shape)} < {limit}, other={3}"
        token = make.name("k")
        lines += [
            f"{token} = tlx.async_load({array} + {make.instance()} * {size} + {offsets(shape)}, {buffer}[{slot}]{mask})",
            f"tlx.async_load_commit_group([{token}])",
        ]
        whole = f"take({array}, {make.instance()}, {shape})"
        readings.append(
            whole
            if limit is None
            else f"np.where({numbers(shape)} < {limit}, wide({whole}), 3).astype({ELEMENTS[element].reading})"
        )
    channel = f"a{len(make.counts)}{buffer}"
    wait = Line(f"tlx.async_load_wait_group({count - 1})", Mark("wait of a load", channel))
    value = Value(f"tlx.local_load({buffer}[0])", readings[0], element, shape, SMALL, states=frozenset({buffer}))
    make.step([*lines, wait], [f"seen('{channel}')"], states=(buffer,))
    make.let(value)
    if count == 2:
        make.step([Line("tlx.async_load_wait_group(0)", Mark("wait of a load", channel))], [], states=(buffer,))
        make.let(Value(f"tlx.local_load({buffer}[1])", readings[1], element, shape, SMALL, states=frozenset({buffer})))


@word("copies", 2)
def bulk(make: Maker):
    """A bulk copy in, whose bytes complete a barrier; the phase is the number of the round."""
    element = make.draws.pick(["f32", "i32", "f16", "i8"])
    shape = make.shape(1)
    size = shape[0] * ELEMENTS[element].bytes
    if make.amd or size % 16 or not make.shared(size):
        return False
    array, (buffer, bars) = input_array(make, element, shape), one_shot(make, shape, element)
    phase, counted = round_of(make, bars)
    channel = f"t{buffer}"
    token = make.draws.pick(["", f"{make.name('k')} = "])
    make.let(
        Value(
            f"tlx.local_load({buffer}[0])",
            f"take({array}, {make.instance()}, {shape}, seen('{channel}'))",
            element,
            shape,
            SMALL,
            states=frozenset({buffer}),
        ),
        before=[
            Line(f"tlx.barrier_expect_bytes({bars}[0], {size})", Mark("expect", channel)),
            f"{token}tlx.async_load({array} + {make.instance()} * {shape[0]}, {buffer}[0], bulk=True, barrier={bars}[0])",
            Line(f"tlx.barrier_wait({bars}[0], {phase})", Mark("wait of bytes", channel)),
            *counted,
        ],
    )


@word("copies", 3)
def tma_in(make: Maker):
    """A TMA load, with its prefetches, and a predicate that holds; from descriptors of the host, of the kernel and of a slot."""
    element, shape = make.draws.pick(["f32", "i32", "f16", "bf16", "i8", "u8"]), make.shape()
    if shape[-1] * ELEMENTS[element].bytes < 16 or max(shape) > 256:
        return False
    size = shape[0] * (shape[1] if len(shape) == 2 else 1) * ELEMENTS[element].bytes
    if not make.shared(size):
        return False
    array, (buffer, bars) = input_array(make, element, shape), one_shot(make, shape, element)
    phase, counted = round_of(make, bars)
    full, draws, before = make.arguments[array].shape, make.draws, []
    at = f"[{make.instance()} * {shape[0]}, 0]" if len(shape) == 2 else f"[{make.instance()} * {shape[0]}]"
    strides = f"[{full[1]}, 1]" if len(shape) == 2 else "[1]"
    way = draws.pick(["host", "kernel", *([] if make.amd else ["slot"])])
    if way == "host":
        descriptor = make.descriptor(array, shape)
        if draws.chance(25):
            before.append(f"tlx.prefetch({descriptor}, tensormap=True)")
        if draws.chance(25):
            before.append(f"tlx.async_descriptor_prefetch_tensor({descriptor}, {at})")
    else:
        descriptor = make.name("t")
        if way == "kernel":
            before = [f"{descriptor} = tl.make_tensor_descriptor({array}, {list(full)}, {strides}, {list(shape)})"]
        else:
            slots = make.name("z")
            make.head.append(f"{slots} = tlx.allocate_tensor_descriptor(2)")
            make.captured.append(slots)
            before = [
                f"tlx.make_tensor_descriptor({slots}[1], {array}, {list(full)}, {strides}, {list(shape)})",
                f"{descriptor} = tlx.reinterpret_tensor_descriptor({slots}[1], {list(shape)}, {ELEMENTS[element].tl})",
            ]
    more = draws.pick(["", ", pred=flag < 100", ", eviction_policy='evict_first'", ", cache_modifier=''"])
    channel = f"t{buffer}"
    expect = draws.pick(["", ", pred=flag < 100"])
    make.let(
        Value(
            f"tlx.local_load({buffer}[0])",
            f"take({array}, {make.instance()}, {shape}, seen('{channel}'))",
            element,
            shape,
            SMALL,
            states=frozenset({buffer}),
        ),
        before=[
            *before,
            Line(f"tlx.barrier_expect_bytes({bars}[0], {size}{expect})", Mark("expect", channel)),
            Line(
                f"tlx.async_descriptor_load({descriptor}, {buffer}[0], {at}, {bars}[0]{more})",
                Mark("corner of a load", channel),
            ),
            Line(f"tlx.barrier_wait({bars}[0], {phase}{expect})", Mark("wait of bytes", channel)),
            *counted,
        ],
        private=way == "slot",
    )


def one_shot(make: Maker, shape, element: str) -> tuple[str, str]:
    """(buffer, barrier array) of one each, in the head."""
    buffer, bars = make.name("b"), make.name("bar")
    make.head += [f"{buffer} = tlx.local_alloc({shape}, {ELEMENTS[element].tl}, 1)", f"{bars} = tlx.alloc_barriers(1)"]
    make.captured += [buffer, bars]
    return buffer, bars


def round_of(make: Maker, bars: str) -> tuple[str, list[str]]:
    """(the phase's text, lines that count on): by the loop's variable where that is the number of rounds, else by a counter that
    lies in the head of whoever runs the block."""
    if make.claims:
        return f"r_{bars} & 1", [f"r_{bars} += 1"]
    if not make.around:
        return "0", []
    text = make.around[0].variable
    for loop in make.around[1:]:
        text = f"({text} * {make.extent(loop)} + {loop.variable})"
    if make.conditions or any(loop.trips == 0 for loop in make.around):
        name = f"r_{bars}"
        return f"{name} & 1", [f"{name} += 1"]
    return f"{text} & 1", []


@word("copies", 1.5)
def reductions_out(make: Maker):
    """TMA stores that add, take the larger or mix bits into one tile of all instances."""
    from .tiles import within

    element = make.draws.pick(["i32", "f32"])
    one = within(make.operand(element, rank=2), 1 << 10)
    if one.shape[1] * 4 < 16 or max(one.shape) > 256 or not make.shared(one.bytes):
        return False
    how = make.draws.pick(["add", "max", "min", "or", "xor", "and"] if element == "i32" else ["add"])
    array = make.array(element, one.shape, ("zeros",), output=True)
    stage = make.name("g")
    make.head.append(f"{stage} = tlx.local_alloc({one.shape}, {ELEMENTS[element].tl}, 1)")
    make.captured.append(stage)
    reading = {
        "add": "old + new",
        "max": "np.maximum(old, new)",
        "min": "np.minimum(old, new)",
        "or": "old | new",
        "xor": "old ^ new",
        "and": "old & new",
    }[how]
    channel = f"s{stage}"
    make.step(
        [
            f"tlx.local_store({stage}[0], {one.kernel})",
            Line("tlx.fence('async_shared')", Mark("fence of a store", channel)),
            f"tlx.async_descriptor_store({make.descriptor(array, one.shape)}, {stage}[0], [0, 0], store_reduce='{how}')",
            Line("tlx.async_descriptor_store_wait(0)", Mark("wait of a store", channel)),
        ],
        [
            f"seen('{channel}')",
            f"old, new = wide({array}), wide({one.reading})",
            f"{array}[...] = cast({reading}, {array}.dtype)",
        ],
        one.uses,
        (*one.states, stage),
        private=True,
    )


@word("copies", 1)
def prefetches(make: Maker):
    if make.chip in WITHOUT_PREFETCH:
        return False
    array, shape = input_array(make, "f32", (64,)), (64,)
    level = make.draws.pick(["", ", level='L1'", ", mask=tl.arange(0, 64) < 9"])
    make.step([f"tlx.prefetch({array} + {make.instance()} * 64 + {offsets(shape)}{level})"], ["pass"])
