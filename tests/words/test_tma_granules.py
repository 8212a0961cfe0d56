"""TMA writes whole 16 bytes of a row, also where the tensor's row ends within them; it reads none of what is behind."""

import numpy as np
import pytest
import triton.language as tl

import mimw


@mimw.jit
def store(x, y, N: tl.constexpr, HOW: tl.constexpr):
    value = tl.load(x + tl.arange(0, 32))
    desc = tl.make_tensor_descriptor(y, [N], [1], [32])
    if HOW == "store":
        desc.store([0], value)
    else:
        desc.atomic_add([0], value)


@mimw.jit
def load(x, y, N: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, [N], [1], [32])
    tl.store(y + tl.arange(0, 32), desc.load([0]))


@pytest.mark.parametrize("dtype, extent, reached, how", [(np.uint8, 13, 16, "store"), (np.int32, 6, 8, "store"),
                                                         (np.int32, 5, 8, "add"), (np.float16, 24, 24, "store")])
def test_what_lies_behind_a_row_is_overwritten_up_to_16_bytes(machine, dtype, extent, reached, how):
    x, y = np.arange(1, 33).astype(dtype), np.full(64, 100, dtype)
    machine.launch(store, (1, ), x, y, extent, how)
    expected = np.full(64, 100, dtype)
    expected[:reached] = x[:reached] if how == "store" else 100 + x[:reached]
    assert y.tolist() == expected.tolist()


def test_no_array_is_written_behind_its_end():
    x, y = np.arange(1, 33, dtype=np.uint8), np.zeros(13, np.uint8)
    mimw.simulate(store, (1, ), x, y, 13, "store")
    assert y.tolist() == list(range(1, 14))


def test_a_chip_without_tma_writes_no_more_than_the_row():
    x, y = np.arange(1, 33, dtype=np.uint8), np.full(64, 100, np.uint8)
    mimw.simulate(store, (1, ), x, y, 13, "store", target="gfx942")
    assert y.tolist() == [*range(1, 14), *[100] * 51]


def test_what_is_read_ends_with_the_row(machine):
    x, y = np.arange(1, 65, dtype=np.uint8), np.zeros(32, np.uint8)
    machine.launch(load, (1, ), x, y, 13)
    assert y.tolist() == [*range(1, 14), *[0] * 19]
