"""What the CTAs of a cluster do for each other: tiles sent by stores, copies and multicast, arrivals, reads by tle.remote.

In the numpy side a CTA puts its tile where its peers see it, and stops (`yield`) until all have; so the CTAs of a cluster run from
meeting to meeting. In a loop a sender waits until what it sent before has been read: by an arrival from the reader, or because all
meet once more.
"""

from __future__ import annotations

from ..elements import ELEMENTS
from ..maker import Maker
from ..tree import Line, Mark, Value
from . import word
from .copies import round_of
from .tiles import SMALL, input_array, offsets, within

MEETING = "tlx.cluster_barrier()"


def neighbour(make: Maker) -> tuple[int, str, str]:
    """(distance, rank that is sent to, rank that sends), the ranks in both languages."""
    size = make.cluster
    step = make.draws.integer(1, size - 1)
    return step, f"(rank + {step}) % {size}", f"(rank + {size - step}) % {size}"


def sent(make: Maker) -> Value:
    """A tile that can be sent: of 4 or 2 bytes an element, of 16 bytes at least."""
    element = make.draws.pick(["f32", "i32", "f16", "i16"])
    return make.operand(element, make.shape())


def received(make: Maker, name: str, value: Value, source: str, kernel: str, before: list, states) -> None:
    """The numpy side of an exchange, and the tile that came."""
    post = (f"peers[rank]['{name}'] = {value.reading}", "yield")
    make.let(
        Value(
            kernel,
            f"peers[{source}]['{name}'].copy()",
            value.element,
            value.shape,
            value.bound,
            value.uses,
            frozenset({*value.states, *states}),
        ),
        before=before,
        private=True,
    )
    step = make.nodes.pop()
    make.nodes.append(type(step)(**{**step.__dict__, "reading": (f"seen('{name}')", *post, *step.reading, "yield")}))


def buffer_of(make: Maker, value: Value, count: int = 1) -> str | None:
    if not make.shared(value.bytes * count):
        return None
    name = make.name("b")
    make.head.append(f"{name} = tlx.local_alloc({value.shape}, {ELEMENTS[value.element].tl}, {count})")
    make.captured.append(name)
    return name


def barriers_of(make: Maker, *arrivals: int) -> list[str]:
    names = [make.name("bar") for _ in arrivals]
    make.head += [
        f"{name} = tlx.alloc_barriers(1{f', {count}' if count > 1 else ''})" for name, count in zip(names, arrivals)
    ]
    make.captured += names
    return names


@word("exchange", 4)
def stores_with_bytes(make: Maker):
    """async_remote_shmem_store, or a bulk copy from the sender's buffer; the reader gives the slot back by a remote arrival."""
    value = sent(make)
    copied = make.draws.chance(40)
    buffer = buffer_of(make, value, 2 if copied else 1)
    if buffer is None:
        return False
    loops = bool(make.around) and make.trips() > 1
    full, free = barriers_of(make, 2 if copied and loops else 1, 1)
    _, to, source = neighbour(make)
    phase, counted = round_of(make, full)
    name = f"x{buffer}"
    wait = [Line(f"tlx.barrier_wait({free}[0], ({phase}) ^ 1)", Mark("peer free wait", name))] if loops else []
    give = (
        [Line(f"tlx.barrier_arrive({free}[0], 1, remote_cta_rank={source})", Mark("peer free arrive", name))]
        if loops
        else []
    )
    if copied:
        # The copy is one thread's: an arrival tells the receiver that all threads are past their wait.
        past = (
            [Line(f"tlx.barrier_arrive({full}[0], 1, remote_cta_rank={to})", Mark("peer arrive", name))]
            if loops
            else []
        )
        send = [
            *past,
            f"tlx.local_store({buffer}[1], {value.kernel})",
            Line("tlx.fence('async_shared')", Mark("peer fence", name)),
            f"tlx.async_remote_shmem_copy({buffer}[0], {buffer}[1], {to}, {full}[0])",
        ]
    else:
        send = [f"tlx.async_remote_shmem_store({buffer}[0], {value.kernel}, {to}, {full}[0])"]
    tile = make.name("h")
    before = [
        Line(f"tlx.barrier_expect_bytes({full}[0], {value.bytes})", Mark("peer expect", name)),
        *wait,
        *send,
        Line(f"tlx.barrier_wait({full}[0], {phase})", Mark("peer wait", name)),
        f"{tile} = tlx.local_load({buffer}[0])",
        *give,
        *counted,
    ]
    received(make, name, value, source, tile, before, [buffer])


@word("exchange", 2)
def stores_and_meetings(make: Maker):
    """remote_shmem_store, seen after a cluster barrier; a second one, before the place is written again."""
    if not make.serial:
        return False
    value = sent(make)
    buffer = buffer_of(make, value)
    if buffer is None:
        return False
    _, to, source = neighbour(make)
    name, tile = f"x{buffer}", make.name("h")
    again = [Line(MEETING, Mark("second meeting", name, (("loops", int(make.trips() > 1)),)))]
    received(
        make,
        name,
        value,
        source,
        tile,
        [
            f"tlx.remote_shmem_store({buffer}[0], {value.kernel}, {to})",
            Line(MEETING, Mark("meeting", name)),
            f"{tile} = tlx.local_load({buffer}[0])",
            *again,
        ],
        [buffer, "meetings"],
    )


@word("exchange", 2)
def multicasts(make: Maker):
    """One CTA loads for all of the cluster; all meet before it loads again."""
    if not make.serial:
        return False
    element, shape = make.draws.pick(["f32", "f16", "i32"]), make.shape()
    if shape[-1] * ELEMENTS[element].bytes < 16 or max(shape) > 256:
        return False
    array = input_array(make, element, shape)
    value = Value("", f"take({array}, {make.instance()}, {shape})", element, shape, SMALL)
    buffer = buffer_of(make, value)
    if buffer is None:
        return False
    (full,) = barriers_of(make, 1)
    phase, counted = round_of(make, full)
    size, root = make.cluster, make.draws.integer(0, make.cluster - 1)
    at = f"[{make.instance()} * {shape[0]}, 0]" if len(shape) == 2 else f"[{make.instance()} * {shape[0]}]"
    name, tile = f"x{buffer}", make.name("h")
    targets = list(range(size))
    before = [
        Line(f"tlx.barrier_expect_bytes({full}[0], {value.bytes})", Mark("peer expect", name)),
        f"if rank == {root}:",
        f"    tlx.async_descriptor_load({make.descriptor(array, shape)}, {buffer}[0], {at}, {full}[0], "
        f"multicast_targets={targets})",
        Line(f"tlx.barrier_wait({full}[0], {phase})", Mark("peer wait", name)),
        f"{tile} = tlx.local_load({buffer}[0])",
        Line(MEETING, Mark("second meeting", name, (("loops", int(make.trips() > 1)),))),
        *counted,
    ]
    received(make, name, value, str(root), tile, before, [buffer, "meetings"])


@word("exchange", 1)
def arrivals(make: Maker):
    """Each CTA arrives at its neighbour's barrier and waits for its own: no data. In a loop all meet, lest a phase be missed."""
    loops = bool(make.around) and make.trips() > 1
    if loops and not make.serial:
        return False
    (bars,) = barriers_of(make, 1)
    phase, counted = round_of(make, bars)
    _, to, _ = neighbour(make)
    name = f"x{bars}"
    make.step(
        [
            Line(f"tlx.barrier_arrive({bars}[0], 1, remote_cta_rank={to})", Mark("peer arrive", name)),
            f"tlx.barrier_wait({bars}[0], {phase})",
            *([MEETING] if loops else []),
            *counted,
        ],
        [f"seen('{name}')"],
        states=(bars, "meetings"),
        private=True,
    )


@word("exchange", 2)
def ranks(make: Maker):
    line = make.shape(1)
    view = barriers_of(make, 1)[0] if make.draws.chance(60) else ""
    before = [f"{make.name('h')} = tlx.remote_view({view}[0], 0)"] if view else []
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + tlx.cluster_cta_rank() * 10 + tlx.cluster_size_1d()",
            f"np.full({line}, rank * 10 + {make.cluster}, np.int32)",
            "i32",
            line,
            100,
        ),
        before=before,
    )


@word("exchange", 0.7)
def meetings(make: Maker):
    if not make.serial:
        return False
    make.step(
        [make.draws.pick([MEETING, "tlx.fence_mbarrier_init_cluster()"])], ["pass"], states=("meetings",), private=True
    )


# ---- TLE: a mesh makes the clusters --------------------------------------------------------------------------------------


@word("mesh", 4)
def remote_reads(make: Maker):
    """A tile of another shard, read through tle.remote between two meetings of the mesh."""
    value = sent(make)
    if not make.shared(value.bytes):
        return False
    buffer, tile = make.name("b"), make.name("h")
    make.head.append(f"{buffer} = tle.gpu.alloc({list(value.shape)}, {ELEMENTS[value.element].tl})")
    _, to, source = neighbour(make)
    name = f"x{buffer}"
    meet = Line("tle.distributed_barrier(MESH)", Mark("meeting", name))
    again = Line("tle.distributed_barrier(MESH)", Mark("second meeting", name, (("loops", int(make.trips() > 1)),)))
    if make.draws.chance(60):
        before = [
            f"tl.store(tle.gpu.local_ptr({buffer}), {value.kernel})",
            meet,
            f"{tile} = tl.load(tle.gpu.local_ptr(tle.remote({buffer}, {source}, MESH)))",
            again,
        ]
    else:
        before = [
            f"tl.store(tle.remote(tle.gpu.local_ptr({buffer}), {to}, MESH), {value.kernel})",
            meet,
            f"{tile} = tl.load(tle.gpu.local_ptr({buffer}))",
            again,
        ]
    received(make, name, value, source, tile, before, [buffer, "meetings"])


@word("mesh", 2)
def remote_atomics(make: Maker):
    """Every shard adds to one word of each other shard's buffer."""
    one = within(make.operand("i32", make.shape(1)), 1 << 8)
    if not make.shared(one.bytes):
        return False
    buffer, tile, (_, to, source) = make.name("b"), make.name("h"), neighbour(make)
    make.head.append(f"{buffer} = tle.gpu.alloc({list(one.shape)}, tl.int32)")
    before = [
        f"tl.store(tle.gpu.local_ptr({buffer}), tl.full({list(one.shape)}, 5, tl.int32))",
        "tle.distributed_barrier(MESH)",
        f"tl.atomic_add(tle.remote(tle.gpu.local_ptr({buffer}), {to}, MESH), {one.kernel})",
        "tle.distributed_barrier(MESH)",
        f"{tile} = tl.load(tle.gpu.local_ptr({buffer}))",
    ]
    if make.draws.chance(40):
        seen = make.name("h")
        before[3:3] = [
            "tle.distributed_barrier(MESH)",
            f"{seen} = tl.atomic_cas(tle.remote(tle.gpu.local_ptr({buffer}, [0]), {to}, MESH), 7777777, 1)",
        ]
    value = Value(
        "", f"(wide({one.reading}) + 5).astype(np.int32)", "i32", one.shape, one.bound + 5, one.uses, one.states
    )
    received(make, f"x{buffer}", value, source, tile, before, [buffer, "meetings"])


@word("mesh", 1)
def parts_meet(make: Maker):
    """The first two CTAs of the mesh meet without the others."""
    make.step(["if rank < 2:", "    tle.distributed_barrier(MESH[0:2])"], ["pass"], states=("meetings",), private=True)


@word("mesh", 1.5)
def shards(make: Maker):
    """This CTA's coordinate, as shard_id gives it."""
    line = make.shape(1)
    make.let(
        Value(
            f"tl.zeros({list(line)}, tl.int32) + tle.shard_id(MESH, 'x')",
            f"np.full({line}, rank, np.int32)",
            "i32",
            line,
            16,
        )
    )


@word("mesh", 2)
def reshards(make: Maker):
    """Rows to the whole, or rows to columns, over all CTAs of the mesh."""
    size = make.cluster
    rows, columns = 32, 32
    element = make.draws.pick(["f32", "i32", "f16"])
    shard = (rows // size, columns)
    value = within(make.operand(element, shard), 1 << 10)
    tile, kept = make.name("h"), make.name("x")
    whole = make.draws.chance(50)
    spec = "WHOLE" if whole else "COLUMNS"
    before = [f"{tile} = tle.reshard(tle.make_sharded_tensor({value.kernel}, ROWS, [{rows}, {columns}]), {spec})"]
    all_rows = f"np.concatenate([peers[one]['{kept}'] for one in range({size})])"
    cut = "" if whole else f"[:, rank * {columns // size}:(rank + 1) * {columns // size}]"
    shape = (rows, columns) if whole else (rows, columns // size)
    make.let(
        Value(
            f"{tile}.handle", f"{all_rows}{cut}", element, shape, value.bound, value.uses, value.states | {"meetings"}
        ),
        before=before,
        private=True,
    )
    step = make.nodes.pop()
    make.nodes.append(
        type(step)(
            **{
                **step.__dict__,
                "reading": (f"peers[rank]['{kept}'] = {value.reading}", "yield", *step.reading, "yield"),
            }
        )
    )


@word("mesh", 1.5)
def products_of_shards(make: Maker):
    """distributed_dot of rows and a whole matrix."""
    size = make.cluster
    m = 16 * size
    a = within(make.operand("f16", (16, 32)), 8)
    b = within(make.operand("f16", (32, 32)), 8)
    make.let(
        Value(
            f"tle.distributed_dot(tle.make_sharded_tensor({a.kernel}, ROWS, [{m}, 32]), "
            f"tle.make_sharded_tensor({b.kernel}, WHOLE, [32, 32])).handle",
            f"cast(wide({a.reading}) @ wide({b.reading}), np.float32)",
            "f32",
            (16, 32),
            64 * 32,
            a.uses | b.uses,
            a.states | b.states | {"meetings"},
        ),
        private=True,
    )


@word("grid", 3)
def through_global_memory(make: Maker):
    """Every program reads what another one stored before all programs of the grid met."""
    value = sent(make)
    size = make.cluster
    scratch = make.array(value.element, (make.instances() * value.size,), ("zeros",), output=True)
    step = make.draws.integer(0, size - 1)
    index = make.instance()
    other = index.replace("pid", f"((pid + {step}) % {size})")
    tile, name = make.name("h"), f"x{scratch}"
    before = [
        f"tl.store({scratch} + {index} * {value.size} + {offsets(value.shape)}, {value.kernel})",
        Line("tle.distributed_barrier(MESH)", Mark("grid meeting", name, (("step", step),))),
        f"{tile} = tl.load({scratch} + {other} * {value.size} + {offsets(value.shape)}, cache_modifier='.cg')",
    ]
    make.let(
        Value(
            tile,
            f"take({scratch}, {other}, {value.shape})",
            value.element,
            value.shape,
            value.bound,
            value.uses,
            value.states | {"meetings"},
        ),
        before=before,
        private=True,
    )
    node = make.nodes.pop()
    make.nodes.append(
        type(node)(
            **{
                **node.__dict__,
                "reading": (f"seen('{name}')", f"put({scratch}, {index}, {value.reading})", "yield", *node.reading),
            }
        )
    )
