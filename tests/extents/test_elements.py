"""Masked stores into buffers in pieces, and single elements of them: simulated, searched for races, compiled, and on a GPU."""


import numpy as np
import pytest

import mimw
from mimw.testing.machines import Gpu
from tests.kernels import odd_elements

TILES = {"odd rows": (176, 64), "odd columns": (64, 176), "both": (56, 96), "bytes": (104, 32, np.int8),
         "wide elements": (72, 48, np.float32)}
CASES = {
    **{f"tail, {name}": ("tail", tile, {}) for name, tile in TILES.items()},
    **{f"spots, {name}": ("spots", tile, {}) for name, tile in TILES.items()},
    "picked in rows": ("picked", (176, 64), dict(AXIS=1, TURNED=False)),
    "picked in columns": ("picked", (56, 96), dict(AXIS=0, TURNED=False)),
    "picked of a transposed tile": ("picked", (56, 96), dict(AXIS=1, TURNED=True)),
    "picked of bytes": ("picked", (104, 32, np.int8), dict(AXIS=1, TURNED=False)),
    "pointers": ("pointers", (176, 64), {}),
    "pointers, both": ("pointers", (56, 96, np.float32), {}),
    "counted": ("counted", (56, 48, np.int32), {}),
}


def launched(name):
    case, tile, meta = CASES[name]
    return odd_elements.launch(case, *tile, **meta)


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_gives_numpys_numbers_and_finds_no_race(name):
    kernel, args, meta, y, want = launched(name)
    assert mimw.check(kernel, (1, ), *args, seeds=1, target="sm_90a", **meta).ok
    mimw.simulate(kernel, (1, ), *args, target="sm_90a", **meta)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("name", CASES)
def test_there_is_a_binary(name):
    kernel, args, meta, *_ = launched(name)
    compiled = mimw.compile(kernel, (1, ), *args, target="sm_90a", **meta)
    assert "cp.async.bulk" in compiled.ptx and not compiled.stack_bytes


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_the_gpu_agrees(name):
    kernel, args, meta, y, want = launched(name)
    Gpu().launch(kernel, (1, ), *args, **meta)
    np.testing.assert_array_equal(y, want)
