"""Other CTAs' shared memory: every kind of access, index form and shard id, alone and in helpers, loops and branches."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.errors import KernelError
from mimw.runtime.compile_kernel import compile_kernel
from tests.tle.compiling import refused

FOUR = tle.device_mesh({"block_cluster": 4})
SQUARE = tle.device_mesh({"cluster": [("row", 2), ("column", 2)]})


@mimw.jit
def exchange(x, y, mesh: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    """y of each shard is x of the shard STEP ahead."""
    me = tle.shard_id(mesh, 0)
    tile = tle.gpu.alloc([N], x.dtype.element_ty)
    at = tl.arange(0, N)
    base = tl.program_id(0) * N
    tl.store(tle.gpu.local_ptr(tile), tl.load(x + base + at))
    tle.distributed_barrier(mesh)
    there = tle.remote(tile, (me + STEP) % 4, mesh)
    tl.store(y + base + at, tl.load(tle.gpu.local_ptr(there)))


TYPES = [np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 16, 128, 2048])
def test_whole_buffers(machine, dtype, n):
    x = np.arange(8 * n).astype(dtype).reshape(2, 4, n)
    y = np.zeros_like(x)
    machine.launch(exchange, (2, ), x, y, FOUR, n, 1)
    assert (y == np.roll(x, -1, axis=1)).all()


def test_the_own_shard(machine):
    x = np.arange(4 * 64, dtype=np.int32).reshape(1, 4, 64)
    y = np.zeros_like(x)
    machine.launch(exchange, (1, ), x, y, FOUR, 64, 0)
    assert (y == x).all()


@mimw.jit
def shifted(pointers, step):
    return pointers + step


@mimw.jit
def forms(out, mesh: tl.constexpr, FORM: tl.constexpr):
    """Each CTA reads 4 x 8 numbers of the CTA across, in one of the ways to say it."""
    row, column = tle.shard_id(mesh, "row"), tle.shard_id(mesh, "column")
    tile = tle.gpu.alloc([4, 8], tl.int32)
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    place = tle.gpu.local_ptr(tile)
    tl.store(place, 1000 * tl.program_id(0) + 8 * r + c)
    tle.distributed_barrier()
    across = (1 - row) * 2 + column
    rows, columns = tl.broadcast_to(r, (4, 8)), tl.broadcast_to(c, (4, 8))
    if FORM == "buffer":
        found = tl.load(tle.gpu.local_ptr(tle.remote(tile, across)))
    elif FORM == "coordinates":
        found = tl.load(tle.gpu.local_ptr(tle.remote(tile, (1 - row, column), mesh)))
    elif FORM == "pointers":
        found = tl.load(tle.remote(place, across, scope=mesh))
    elif FORM == "indices":
        found = tl.load(tle.gpu.local_ptr(tle.remote(tile, across), [rows, columns]))
    elif FORM == "arithmetic":
        first = tle.remote(tle.gpu.local_ptr(tile, [0, 0]), across)
        found = tl.load(first + 8 * r + c)
    elif FORM == "helper":
        first = tle.remote(tle.gpu.local_ptr(tile, [3, 0]), across)
        found = tl.load(shifted(shifted(first, 8 * rows), columns) - 24)
    elif FORM == "slots":
        found = tl.zeros((4, 8), tl.int32)
        for number in range(4):
            line = tl.load(tle.gpu.local_ptr(tle.remote(tile.slot(number), across)))
            found = tl.where(rows == number, line[None, :], found)
    elif FORM == "masked":
        found = tl.load(tle.gpu.local_ptr(tle.remote(tile, across)), mask=c < 5, other=-1)
    elif FORM == "branch":
        pointer = tle.remote(place, across)
        if column == 0:
            pointer = tle.remote(place, 2 * row)
        found = tl.load(pointer)
    elif FORM == "scalars":
        found = tl.zeros((4, 8), tl.int32)
        for i in range(4):
            for j in range(8):
                one = tl.load(tle.gpu.local_ptr(tle.remote(tile, across), [i, j]))
                found = tl.where((rows == i) & (columns == j), one, found)
    tl.store(out + tl.program_id(0) * 32 + 8 * r + c, found)
    tle.distributed_barrier(mesh)


FORMS = ["buffer", "coordinates", "pointers", "indices", "arithmetic", "helper", "slots", "masked", "branch", "scalars"]


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_say_it(machine, form):
    out = np.zeros((4, 4, 8), np.int32)
    machine.launch(forms, (1, ), out, SQUARE, form)
    me = np.arange(4)
    owner = np.where(me % 2 == 0, me, me ^ 2) if form == "branch" else me ^ 2
    expected = 1000 * owner[:, None, None] + np.arange(32).reshape(4, 8)
    if form == "masked":
        expected = np.where(np.arange(8) < 5, expected, -1)
    assert (out == expected).all()


@mimw.jit
def odd(out, mesh: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    """A stack of matrices whose extents are no powers of two, element by element, and a row of it at once."""
    me = tle.shard_id(mesh, 0)
    stack = tle.gpu.alloc([A, B, C], tl.int16)
    at = tl.arange(0, 128)
    inside = at < A * B * C
    first, second, third = at // (B * C) % A, at // C % B, at % C
    tl.store(tle.gpu.local_ptr(stack, [first, second, third]), (1000 * me + at).to(tl.int16), mask=inside)
    tle.distributed_barrier(mesh)
    there = tle.remote(stack, (me + 1) % 4)
    found = tl.load(tle.gpu.local_ptr(there, [first, second, third]), mask=inside)
    tl.store(out + me * 132 + at, found, mask=inside)
    row = tl.load(tle.gpu.local_ptr(there, [A - 1, B - 1, 0]) + tl.arange(0, 4))
    tl.store(out + me * 132 + 128 + tl.arange(0, 4), row)


@pytest.mark.parametrize("shape", [(4, 4, 8), (3, 5, 7), (1, 3, 6)])
def test_extents_that_are_no_powers_of_two(machine, shape):
    out, size = np.zeros((4, 132), np.int16), int(np.prod(shape))
    machine.launch(odd, (1, ), out, FOUR, *shape)
    owner = (np.arange(4)[:, None] + 1) % 4 * 1000
    assert (out[:, :size] == owner + np.arange(size)).all()
    assert (out[:, 128:] == owner + size - shape[2] + np.arange(4)).all()


@mimw.jit
def push(x, y, mesh: tl.constexpr, N: tl.constexpr, KEEP: tl.constexpr):
    """Each shard stores its tile into the next one, without the lanes from KEEP on."""
    me = tle.shard_id(mesh, 0)
    tile = tle.gpu.alloc([N], x.dtype.element_ty)
    at = tl.arange(0, N)
    tl.store(tle.gpu.local_ptr(tile), tl.full([N], 3, x.dtype.element_ty))
    tle.distributed_barrier(mesh)
    there = tle.gpu.local_ptr(tle.remote(tile, (me + 1) % 4))
    value = tl.load(x + tl.program_id(0) * N + at)
    if KEEP < N:
        tl.store(there, value, mask=at < KEEP)
    else:
        tl.store(there, value)
    tle.distributed_barrier(mesh)
    tl.store(y + tl.program_id(0) * N + at, tl.load(tle.gpu.local_ptr(tile)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n, keep", [(4, 4), (4, 3), (64, 64), (512, 512), (512, 131), (4096, 4096)])
def test_stores(machine, dtype, n, keep):
    x = (np.arange(4 * n) + 1).astype(dtype).reshape(4, n)
    y = np.zeros_like(x)
    machine.launch(push, (1, ), x, y, FOUR, n, keep)
    assert (y == np.where(np.arange(n) < keep, np.roll(x, 1, axis=0), dtype(3))).all()


@mimw.jit
def count(out, mesh: tl.constexpr, KIND: tl.constexpr, DTYPE: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    """All CTAs update the bins of shard 1; CTA 1 through pointers of its own."""
    me = tle.shard_id(mesh, 0)
    bins = tle.gpu.alloc([BINS], DTYPE)
    at, where = tl.arange(0, N), tl.arange(0, BINS)
    tl.store(tle.gpu.local_ptr(bins), tl.full([BINS], 7, DTYPE))
    tle.distributed_barrier(mesh)
    first = tle.remote(tle.gpu.local_ptr(bins, [0]), 1)
    value = (at + N * me + 1).to(DTYPE)
    place = first + at % BINS
    if KIND == "add":
        tl.atomic_add(place, value)
    elif KIND == "max":
        tl.atomic_max(place, value, sem="relaxed", scope="cta")
    elif KIND == "min":
        tl.atomic_min(place, value)
    elif KIND == "or":
        tl.atomic_or(place, value)
    elif KIND == "xor":
        tl.atomic_xor(place, value)
    elif KIND == "and":
        tl.atomic_and(place, value, mask=at < N)
    tle.distributed_barrier(mesh)
    if me == 1:
        tl.store(out + where, tl.load(tle.gpu.local_ptr(bins)))


@pytest.mark.parametrize("kind, dtype", [("add", tl.int32), ("add", tl.uint32), ("add", tl.int64), ("add", tl.uint64),
                                         ("add", tl.float32), ("max", tl.int32), ("min", tl.int64), ("max", tl.uint32),
                                         ("min", tl.uint64), ("or", tl.int32), ("xor", tl.int64), ("and", tl.int32),
                                         ("add", tl.float64), ("max", tl.int64), ("max", tl.uint64), ("or", tl.int64),
                                         ("and", tl.uint64), ("add", tl.float16), ("max", tl.float32)])
@pytest.mark.parametrize("n", [8, 512])
def test_each_atomic_is_applied_once(machine, kind, dtype, n):
    """A tile of 8 elements has copies in all threads of the CTA."""
    size = 4
    function = {"add": np.add, "max": np.maximum, "min": np.minimum, "or": np.bitwise_or, "xor": np.bitwise_xor,
                "and": np.bitwise_and}[kind]
    kind_of = np.dtype({"fp16": "float16", "fp32": "float32", "fp64": "float64"}.get(dtype.name, dtype.name))
    expected = np.full(size, 7, kind_of)
    values = np.arange(1, 4 * n + 1).astype(kind_of).reshape(4, n // size, size)
    with np.errstate(over="ignore"):
        for row in values.reshape(-1, size):
            expected = function(expected, row)
    out = np.zeros(size, kind_of)
    machine.launch(count, (1, ), out, FOUR, kind, dtype, n, size)
    assert (out == expected).all()


@mimw.jit
def tickets(order, claims, mesh: tl.constexpr, N: tl.constexpr):
    """Every element of every shard draws a number of shard 0; one of them wins a claim by compare-and-swap."""
    counter, claim = tle.gpu.alloc([1], tl.int32), tle.gpu.alloc([1], tl.int32)
    tl.store(tle.gpu.local_ptr(counter, [0]), 0)
    tl.store(tle.gpu.local_ptr(claim, [0]), -1)
    tle.distributed_barrier(mesh)
    at = tl.arange(0, N)
    one = tle.remote(tle.gpu.local_ptr(counter, [0]), 0)
    drawn = tl.atomic_add(one + tl.zeros([N], tl.int32), 1)
    tl.store(order + tl.program_id(0) * N + at, drawn)
    before = tl.atomic_add(one, N)
    tl.store(claims + 2 * tl.program_id(0), before)
    won = tl.atomic_cas(tle.remote(tle.gpu.local_ptr(claim, [0]), 0), -1, tl.program_id(0))
    tl.store(claims + 2 * tl.program_id(0) + 1, won)
    tle.distributed_barrier(mesh)


@pytest.mark.parametrize("n", [4, 32, 256])
def test_atomics_give_what_was_there(machine, n):
    order, claims = np.zeros(4 * n, np.int32), np.zeros((4, 2), np.int32)
    machine.launch(tickets, (1, ), order, claims, FOUR, n)
    steps = sorted([(int(number), 1) for number in order] + [(int(number), n) for number in claims[:, 0]])
    total = 0
    for number, step in steps:
        assert number == total, "tickets of scalars count n, those of elements count 1; none is drawn twice"
        total += step
    assert total == 8 * n
    winners = [rank for rank in range(4) if claims[rank, 1] == -1]
    assert len(winners) == 1 and set(claims[:, 1]) == {-1, winners[0]}


@mimw.jit
def passed_on(start, olds, out, mesh: tl.constexpr, N: tl.constexpr, SWAP: tl.constexpr):
    """All CTAs exchange one number of shard 2, or count it up by compare-and-swap: those who win have seen all numbers."""
    me = tle.shard_id(mesh, 0)
    at = tl.arange(0, N)
    tile = tle.gpu.alloc([1], start.dtype.element_ty)
    first = tle.gpu.local_ptr(tile, [0])
    tl.store(first, tl.load(start))
    tle.distributed_barrier(mesh)
    there = tle.remote(first, 2) + tl.zeros([N], tl.int32)
    if SWAP:
        number = (N * me + at).to(start.dtype.element_ty)
        seen = tl.atomic_cas(there, number, number + 1)
    else:
        seen = tl.atomic_xchg(there, (N * me + at + 1).to(start.dtype.element_ty))
    tl.store(olds + N * me + at, seen)
    tle.distributed_barrier(mesh)
    if me == 2:
        tl.store(out, tl.load(first))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n", [4, 256])
def test_exchanges_lose_nothing(machine, dtype, n):
    start, olds, out = np.array([1 << (8 * dtype().itemsize - 2)], dtype), np.zeros(4 * n, dtype), np.zeros(1, dtype)
    machine.launch(passed_on, (1, ), start, olds, out, FOUR, n, False)
    assert sorted([*olds, *out]) == sorted([*start, *range(1, 4 * n + 1)])


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("n", [4, 256])
def test_swaps_happen_where_the_number_is_as_said(machine, dtype, n):
    start, olds, out = np.zeros(1, dtype), np.full(4 * n, -1, dtype), np.zeros(1, dtype)
    machine.launch(passed_on, (1, ), start, olds, out, FOUR, n, True)
    won = olds == np.arange(4 * n)
    assert won[0] and out[0] == won.sum() and won[:out[0]].all()


@mimw.jit
def own(out, mesh: tl.constexpr, DTYPE: tl.constexpr):
    """Every CTA swaps and stores some elements of its own buffer, by the addresses that assembly computes."""
    me = tle.shard_id(mesh, 0)
    at = tl.arange(0, 64)
    tile = tle.gpu.alloc([64], DTYPE)
    place = tle.gpu.local_ptr(tile)
    tl.store(place, (at % 8).to(DTYPE))
    tl.atomic_cas(place, tl.full([64], 3, DTYPE), (100 + me).to(DTYPE) + tl.zeros([64], DTYPE))
    tl.store(place, tl.full([64], 50, DTYPE), mask=at >= 48)
    tle.distributed_barrier(mesh)
    tl.store(out + 64 * me + at, tl.load(tle.gpu.local_ptr(tle.remote(tile, (me + 1) % 4))))


@pytest.mark.parametrize("dtype", [tl.int16, tl.int32, tl.int64])
def test_computed_addresses_are_of_the_own_cta(machine, dtype):
    out = np.zeros((4, 64), dtype.name)
    machine.launch(own, (1, ), out, FOUR, dtype)
    at, owner = np.arange(64), (np.arange(4)[:, None] + 1) % 4
    assert (out == np.where(at >= 48, 50, np.where(at % 8 == 3, 100 + owner, at % 8))).all()


@mimw.jit
def relay(x, y, mesh: tl.constexpr, N: tl.constexpr, ROUNDS: tl.constexpr):
    """Round after round each CTA hands its tile on, and adds up what it has been handed: a read at one place, time and again."""
    me = tle.shard_id(mesh, 0)
    at = tl.arange(0, N)
    tile = tle.gpu.alloc([N], tl.int32)
    total = tl.zeros([N], tl.int32)
    value = tl.load(x + tl.program_id(0) * N + at)
    tle.distributed_barrier(mesh)
    for _ in range(ROUNDS):
        tl.store(tle.gpu.local_ptr(tle.remote(tile, (me + 1) % 4)), value)
        tle.distributed_barrier(mesh)
        value = tl.load(tle.gpu.local_ptr(tile))
        total += value
        tle.distributed_barrier(mesh)
    tl.store(y + tl.program_id(0) * N + at, total)


@pytest.mark.parametrize("n", [1, 64, 1024])
def test_what_others_write_is_read_anew(machine, n):
    x = np.arange(8 * n, dtype=np.int32).reshape(2, 4, n)
    y = np.zeros_like(x)
    machine.launch(relay, (2, ), x, y, FOUR, n, 6)
    assert (y == sum(np.roll(x, step, axis=1) for step in range(1, 7))).all()


@mimw.jit
def shards(x, out, mesh: tl.constexpr):
    """The tile of the shard across, from a tensor in global memory and from one in shared memory."""
    row, column = tle.shard_id(mesh, "row"), tle.shard_id(mesh, "column")
    spec = tle.sharding(mesh, split=["row", "column"])
    whole = tle.make_sharded_tensor(x, spec, shape=[8, 16])
    r, c = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
    mine = tl.load(tle.remote(whole, (row, column)))
    tile = tle.gpu.alloc([4, 8], tl.float32)
    tl.store(tle.gpu.local_ptr(tile), mine)
    tle.distributed_barrier(mesh)
    there = tle.remote(tle.make_sharded_tensor(tile, spec, [8, 16]), (1 - row, 1 - column), mesh)
    base = out + tl.program_id(0) * 64 + 8 * r + c
    tl.store(base, tl.load(tle.gpu.local_ptr(there)))
    tl.store(base + 32, tl.load(tle.remote(whole, 2 * (1 - row) + 1 - column)))
    tle.distributed_barrier(mesh)


def test_shards(machine):
    x, out = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((4, 2, 4, 8), np.float32)
    machine.launch(shards, (1, ), x, out, SQUARE)
    tiles = x.reshape(2, 4, 2, 8).transpose(0, 2, 1, 3).reshape(4, 4, 8)
    assert (out == tiles[::-1, None]).all()


@mimw.jit
def wrong(out, mesh: tl.constexpr, CASE: tl.constexpr):
    tile = tle.gpu.alloc([4, 8], tl.int32)
    at = tl.arange(0, 8)
    me = tl.program_id(0)
    if CASE == "register":
        tle.remote(at, 0)
    elif CASE == "global":
        tle.remote(out, 0)
    elif CASE == "scope":
        tle.remote(tile, 0, scope=3)
    elif CASE == "float":
        tle.remote(tile, 1.0)
    elif CASE == "int64":
        tle.remote(tile, me.to(tl.int64))
    elif CASE == "negative":
        tle.remote(tile, -1)
    elif CASE == "empty":
        tle.remote(tile, (), mesh)
    elif CASE == "no scope":
        tle.remote(tile, (0, 0))
    elif CASE == "rank":
        tle.remote(tile, (0, ), mesh)
    elif CASE == "range":
        tle.remote(tile, (0, 2), mesh)
    elif CASE == "beyond":
        tle.remote(tile, 4, mesh)
    elif CASE == "tile":
        tle.remote(tile, at)
    elif CASE == "twice":
        tle.remote(tle.remote(tile, 0), 1)
    elif CASE == "pointer twice":
        tle.remote(tle.remote(tle.gpu.local_ptr(tile), 0), 1)
    elif CASE == "register shard":
        tle.remote(tle.make_sharded_tensor(at, tle.sharding(mesh)), 0)


@pytest.mark.parametrize("error, case", [
    (TypeError, "register"), (TypeError, "global"), (TypeError, "scope"), (TypeError, "float"), (TypeError, "int64"),
    (TypeError, "register shard"), (ValueError, "negative"), (ValueError, "empty"), (ValueError, "no scope"), (ValueError, "rank"),
    (ValueError, "range"), (ValueError, "beyond"), (ValueError, "tile"), (ValueError, "twice"), (ValueError, "pointer twice")])
def test_wrong_uses(error, case):
    refused(error, "tle.remote", wrong, {"out": "*i32"}, mesh=SQUARE, CASE=case)


@mimw.jit
def unlaunched(out, RANK: tl.constexpr, SHARE: tl.constexpr):
    tile = tle.gpu.alloc([8], tl.int32)
    pointers = tle.remote(tle.gpu.local_ptr(tile), RANK)
    if SHARE:
        pointers = tle.remote(pointers, 0)
    tl.store(out + tl.arange(0, 8), tl.load(pointers))


def test_ranks_that_the_launch_has_not():
    for rank, options in ((1, {}), (2, {"ctas_per_cga": (2, 1, 1)})):
        with pytest.raises(Exception, match=r"shard 2|rank 1") as found:
            compile_kernel(unlaunched, {"out": "*i32"}, {"RANK": rank, "SHARE": False}, options=options)
        cause = found.value.__cause__
        assert isinstance(cause if not cause.__cause__ else cause.__cause__, (KernelError, ValueError))


def test_instructions():
    """16 bytes at a time where neighbours are, once for each element where they are not; a pointer twice is the same pointer."""
    signature = {"x": "*fp16", "y": "*fp16"}
    ptx = compile_kernel(exchange, signature, {"mesh": FOUR, "N": 1024, "STEP": 1}).stages["ptx"]
    assert ptx.count("ld.shared::cluster.v4.b32") == 1 and ptx.count("ld.shared::cluster") == 1
    ptx = compile_kernel(push, signature, {"mesh": FOUR, "N": 1024, "KEEP": 1024}).stages["ptx"]
    assert ptx.count("st.shared::cluster.v4.b32") == 1 and ptx.count("st.shared::cluster") == 1
    constants = {"mesh": FOUR, "KIND": "add", "DTYPE": tl.int32, "N": 512, "BINS": 64}
    ptx = compile_kernel(count, {"out": "*i32"}, constants).stages["ptx"]
    assert ptx.count("atom.acq_rel.gpu.shared::cluster.add.u32") == 4
    ptx = compile_kernel(count, {"out": "*i64"}, {**constants, "KIND": "xor", "DTYPE": tl.int64}).stages["ptx"]
    assert ptx.count("atom.acq_rel.gpu.shared::cluster.cas.b64") == 4 and "shared::cluster.xor" not in ptx
    ptx = compile_kernel(odd, {"out": "*i16"}, {"mesh": FOUR, "A": 4, "B": 4, "C": 8}).stages["ptx"]
    (own_place, ) = re.findall(r"mapa.shared::cluster.u32 (%r\d+), %r\d+, me;", ptx)
    assert f"add.u32 at, {own_place}, " in ptx and "st.shared.b16 [at]" in ptx, "a masked store at this CTA's place in the cluster"
    pair = compile_kernel(unlaunched, {"out": "*i32"}, {"RANK": 1, "SHARE": True}, options={"ctas_per_cga": (2, 1, 1)})
    assert pair.stages["ptx"].count("ld.shared::cluster") == 1


@mimw.jit
def told_by_a_barrier(out, mesh: tl.constexpr):
    """The owner says on the reader's barrier that its tile is there."""
    tile = tle.gpu.alloc([64], tl.int32)
    ready = tlx.alloc_barriers(1)
    at = tl.arange(0, 64)
    me = tle.shard_id(mesh, 0)
    tl.store(tle.gpu.local_ptr(tile), 100 * me + at)
    tlx.barrier_arrive(ready[0], remote_cta_rank=(me + 3) % 4)
    tlx.barrier_wait(ready[0], 0)
    found = tl.load(tle.gpu.local_ptr(tle.remote(tile, (me + 1) % 4)))
    tl.store(out + me * 64 + at, found)


def test_barriers_of_tlx_tell_too(machine):
    out = np.zeros((4, 64), np.int32)
    machine.launch(told_by_a_barrier, (1, ), out, FOUR)
    assert (out == (np.arange(4)[:, None] + 1) % 4 * 100 + np.arange(64)).all()


def test_an_arrival_releases_what_others_will_load():
    ptx = compile_kernel(told_by_a_barrier, {"out": "*i32"}, {"mesh": FOUR}).stages["ptx"]
    assert "mbarrier.arrive.release.cluster.shared::cluster" in ptx


def test_orders_are_understood(check_kernel):
    x = np.arange(4 * 16, dtype=np.int32).reshape(1, 4, 16)
    report = mimw.check(exchange, (1, ), x, np.zeros_like(x), FOUR, 16, 1)
    assert report.ok, report
    report = mimw.check(late, (1, ), np.zeros((4, 16), np.int32), FOUR)
    assert not report.ok and "DataRace" in report.findings[0].kinds


@mimw.jit
def late(y, mesh: tl.constexpr):
    """The owner writes again without waiting for those who read."""
    me = tle.shard_id(mesh, 0)
    tile = tle.gpu.alloc([16], tl.int32)
    at = tl.arange(0, 16)
    tl.store(tle.gpu.local_ptr(tile), at)
    tle.distributed_barrier(mesh)
    tl.store(y + me * 16 + at, tl.load(tle.gpu.local_ptr(tle.remote(tile, (me + 1) % 4))))
    tl.store(tle.gpu.local_ptr(tile), at + 1)
