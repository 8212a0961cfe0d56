"""What a public fuzzer of another language found there, said in our words: right on the simulator and on a GPU, or refused alike by
`simulate` and by the compiler. docs/FUZZING.md has the list with the numbers of the threads, by which the tests are named."""

import re

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl
from triton.language.extra import libdevice

import mimw
import mimw.tlx as tlx
from mimw.errors import causes

EYE = np.eye(64, dtype=np.float16)


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def grid(rows: tl.constexpr, columns: tl.constexpr):
    return tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]


@mimw.jit
def scan_of_a_slice(x, y):
    tile = tlx.local_alloc((32, 64), tl.float32, 1)
    tlx.local_store(tile[0], tl.load(x + grid(32, 64)))
    tl.store(y + grid(32, 32), tl.cumsum(tlx.local_load(tlx.local_slice(tile[0], [0, 32], [32, 32])), 1))


def test_2523_a_scan_of_a_part_of_a_buffer(machine):
    x, y = (np.arange(2048).reshape(32, 64) % 9).astype(np.float32), np.zeros((32, 32), np.float32)
    machine.launch(scan_of_a_slice, (1, ), x, y)
    assert (y == np.cumsum(x[:, 32:], 1)).all()


@mimw.jit
def part_of_a_line(y, size):
    line = tlx.local_alloc((256, ), tl.float16, 1)
    tlx.local_store(line[0], tl.full((256, ), 1, tl.float16))
    tlx.fence("async_shared")
    tlx.async_store(y, line[0], size)
    tlx.async_descriptor_store_wait(0)


def test_2529_a_part_of_a_line_is_stored(machine):
    y = np.zeros(256, np.float16)
    machine.launch(part_of_a_line, (1, ), y, 240)
    assert y.tolist() == [1.0] * 120 + [0.0] * 136


@mimw.jit
def conditions(a, b, y, n):
    """A condition that the first branch changes; then two conditions of one form in a loop."""
    tl.store(y, 0)
    if tl.load(a) == 0:
        tl.store(a, 7)
    if tl.load(a) == 0:
        tl.store(y, 1)
    one, other, first, second = tl.load(a), tl.load(b), 0, 0
    for _ in range(n):
        if one < 2:
            first += 1
        if other < 2:
            second += 1
    tl.store(y + 1, first)
    tl.store(y + 2, second)


def test_2538_2539_each_condition_is_asked_where_it_stands(machine):
    a, b, y = np.zeros(1, np.int32), np.ones(1, np.int32), np.full(3, -1, np.int32)
    machine.launch(conditions, (1, ), a, b, y, 4)
    assert a[0] == 7 and y.tolist() == [0, 0, 4]


@mimw.jit
def filled_up(x, y, n):
    tile, i = tlx.local_alloc((64, ), tl.int32, 1), tl.arange(0, 64)
    tlx.async_load_commit_group([tlx.async_load(x + i, tile[0], mask=i < n, other=-99)])
    tlx.async_load_wait_group(0)
    tl.store(y + i, tlx.local_load(tile[0]))


def test_2543_what_is_outside_is_what_was_asked_for(machine):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    machine.launch(filled_up, (1, ), x, y, 60)
    assert y.tolist() == [*range(60), -99, -99, -99, -99]


@mimw.jit
def products(x, y, n):
    """Two products into one sum; a pipelined loop in a `while`; eight columns."""
    tiles = tlx.local_alloc((64, 64), tl.float16, 2)
    narrow = tlx.local_alloc((64, 8), tl.float16, 1)
    tile = tl.load(x + grid(64, 64))
    tlx.local_store(tiles[0], tile)
    tlx.local_store(tiles[1], tile)
    tlx.local_store(narrow[0], grid(64, 8).to(tl.float16))
    acc = tlx.async_dot(tiles[0], tiles[1])
    acc = tlx.async_dot(tiles[1], tiles[0], acc)
    tl.store(y + grid(64, 64), tlx.async_dot_wait(0, acc))
    eight = tlx.async_dot_wait(0, tlx.async_dot(tiles[0], narrow[0]))
    tl.store(y + 8192 + grid(64, 8), eight)
    total, k = tl.zeros((64, 64), tl.float32), 0
    while k < n:
        for _ in tl.range(0, 2, num_stages=3):
            loaded = tl.load(x + grid(64, 64))
            total = tl.dot(loaded, loaded, total)
        k += 1
    tl.store(y + 4096 + grid(64, 64), total)


def test_2547_2548_2593_products(machine):
    y = np.zeros(8192 + 512, np.float32)
    machine.launch(products, (1, ), EYE, y, 3)
    assert (y[:4096].reshape(64, 64) == 2 * EYE).all() and (y[4096:8192].reshape(64, 64) == 6 * EYE).all()
    assert y[8192:].tolist() == list(range(512))


@mimw.jit
def far(x, y, AT: tl.constexpr, n):
    """A constant index beyond 32 bits is not cut; of numbers that the author widens products are not."""
    tl.store(y, (x + AT).to(tl.int64) - x.to(tl.int64))
    tl.store(y + 1, (x + n.to(tl.int64) * 65536).to(tl.int64) - x.to(tl.int64))
    tl.store(y + 2, tl.full((), 1, tl.int32) << 31)


def test_2560_an_index_beyond_32_bits(machine):
    y = np.zeros(3, np.int64)
    machine.launch(far, (1, ), np.zeros(1, np.int64), y, 5_000_000_000, 65536)
    assert y.tolist() == [40_000_000_000, 8 << 32, -(1 << 31)]


@mimw.jit
def reversed_halves(x, y):
    i = tl.arange(0, 64)
    tl.store(y + i, tl.gather(tl.load(x + i), 63 - i, 0))


def test_2569_halves_move_between_lanes(machine):
    x, y = np.arange(64).astype(np.float16), np.zeros(64, np.float16)
    machine.launch(reversed_halves, (1, ), x, y)
    assert (y == x[::-1]).all()


@mimw.jit
def of_booleans(x, y):
    truth = tl.load(x + grid(32, 32)) != 0
    rows = tl.arange(0, 32)
    tl.store(y + rows, tl.max(truth, 1))
    tl.store(y + 32 + rows, tl.min(truth, 1))
    tl.store(y + 64 + rows, tl.reduce(truth, 1, both))


def test_2568_reductions_of_booleans(machine):
    x, y = (np.arange(1024).reshape(32, 32) % 37 > 20).astype(np.int32), np.full(96, -1, np.int32)
    x[5], x[9] = 0, 1
    machine.launch(of_booleans, (1, ), x, y)
    assert y.tolist() == [*x.max(1), *x.min(1), *x.min(1)]


@mimw.jit
def logic_of_floats(x, y):
    """Two lanes a place."""
    i = tl.arange(0, 64)
    tl.atomic_and(x + i // 2, tl.load(y + i))


def test_2572_logic_of_floats_is_that_of_their_bits(machine):
    """Our own find beside it: the simulator ended in numpy's TypeError."""
    x, y = np.full(32, 1.5, np.float32), np.where(np.arange(64) % 2, 1.25, -1.75).astype(np.float32)
    machine.launch(logic_of_floats, (1, ), x, y)
    assert x.tolist() == [1.0] * 32


@mimw.jit
def wide_constants(y, A: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.full((16, ), A, tl.uint64) + tl.full((16, ), A, tl.uint64))
    tl.store(y + 16 + i, tl.full((16, ), A, tl.uint64) * tl.full((16, ), 3, tl.uint64))
    tl.store(y + 32, A + A)


def test_2582_constants_of_the_upper_half(machine):
    y = np.zeros(33, np.uint64)
    machine.launch(wide_constants, (1, ), y, 1 << 62)
    assert set(y[:16].tolist()) == {1 << 63} and set(y[16:32].tolist()) == {3 << 62} and y[32] == 1 << 63


@mimw.jit
def one_row_eight_times(desc, y):
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 1024)
    tlx.async_descriptor_gather(desc, tile[0], tl.full((8, ), 3, tl.int32), 0, full[0])
    tlx.barrier_wait(full[0], 0)
    tl.store(y + grid(8, 64), tlx.local_load(tile[0]))


def test_2601_constant_row_numbers(machine):
    x, y = np.arange(1024).reshape(16, 64).astype(np.float16), np.zeros((8, 64), np.float16)
    machine.launch(one_row_eight_times, (1, ), mimw.TensorDescriptor.from_tensor(x, [1, 64]), y)
    assert (y == x[3]).all()


@mimw.jit
def odd_buffer(x, y, N: tl.constexpr):
    tile = tlx.local_alloc((N, ), tl.float16, 2)
    tlx.local_store(tile[1], tl.load(x + tl.arange(0, N)))
    found = tlx.local_load(tile[1])
    tl.store(y + tl.arange(0, N), found + tl.sum(found).to(tl.float16))


def test_2542_2555_extents_that_are_no_powers_of_two(machine):
    x, y = np.arange(48, dtype=np.float16) % 5, np.zeros(48, np.float16)
    machine.launch(odd_buffer, (1, ), x, y, N=48)
    assert (y == x + x.sum()).all()


# ---- refused: by the simulator and by the compiler, in the same words ------------------------------------------------

@mimw.jit
def elementwise(x, y, HOW: tl.constexpr):
    i = tl.arange(0, 32)
    value = tl.load(x + i)
    if HOW == "exp":
        value = tl.exp(value)
    elif HOW == "pow":
        value = libdevice.pow(value, value)
    elif HOW == "rounded":
        value = libdevice.add_rn(value, value)
    elif HOW == "xor":
        value = tl.full((32, ), tl.xor_sum(value, 0), tl.float32)
    elif HOW == "and":
        value = tl.full((32, ), tl.reduce(value, 0, both), tl.float32)
    elif HOW == "atomic":
        tl.atomic_add(y + i, value)
    tl.store(y + i, value)


@mimw.jit
def orders(x, LOAD: tl.constexpr, STORE: tl.constexpr):
    tl.atomic_store(x, tl.atomic_load(x, sem=LOAD), sem=STORE)


@mimw.jit
def reduced(desc):
    desc.atomic_add([0, 0], tl.full((8, 16), 1, desc.dtype))


def numbers(dtype):
    return np.ones(32, dtype), np.zeros(32, dtype)


REFUSED = {
    "2510": (elementwise, lambda: (*numbers(np.float16), "rounded"), "float16"),
    "2565": (elementwise, lambda: (*numbers(ml_dtypes.bfloat16), "exp"), r"Expected dtype \['fp32', 'fp64'\] but got bf16"),
    "2570": (elementwise, lambda: (*numbers(np.float32), "xor"), "xor_sum only supported for integers"),
    "2571": (elementwise, lambda: (*numbers(ml_dtypes.bfloat16), "pow"), "bfloat16"),
    "2572": (elementwise, lambda: (*numbers(np.int16), "atomic"), "atomic_add does not support int16"),
    "2574, load": (orders, lambda: (np.zeros(1, np.int32), "release", "release"), "atomic_load only supports acquire and relaxed"),
    "2574, store": (orders, lambda: (np.zeros(1, np.int32), "acquire", "acquire"), "atomic_store only supports release"),
    "2583": (reduced, lambda: (mimw.TensorDescriptor.from_tensor(np.zeros((16, 64), np.int16), [8, 16]), ), "Unsupported dtype"),
    "2597": (elementwise, lambda: (*numbers(np.int32), "exp"), r"Expected dtype \['fp32', 'fp64'\] but got int32"),
    "2599": (elementwise, lambda: (*numbers(np.float32), "and"), "invalid operands of type .*fp32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_both(name):
    kernel, arguments, says = REFUSED[name]
    for tool in (mimw.simulate, mimw.compile):
        with pytest.raises(triton.CompilationError) as error:
            tool(kernel, (1, ), *arguments())
        assert re.search(says, "\n".join(map(str, causes(error.value)))), error.value
