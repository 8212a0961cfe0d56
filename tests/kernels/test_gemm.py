"""The persistent GEMM: types, schedules, and shapes that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import gemm
from mimw.kernels.gemm import Configuration

TYPES = {  # inputs, output, error against fp32 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 5e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 5e-3),
}
SCHEDULES = {
    "cooperative": Configuration(),
    "tall": Configuration(bm=256, bn=128, staging=1),
    "ping_pong": Configuration(bm=128, bn=128, stages=5, ping_pong=True),
    "ping_pong_wide": Configuration(bm=64, bn=256, ping_pong=True),
}


def product(machine, dtype: str, shape, chosen, programs=3, transposed=False, a_transposed=False):
    """(what the kernel computes, what fp32 computes, the allowed error) for small integers and halves."""
    inputs, output, allowed = TYPES[dtype]
    m, n, k = shape
    random = np.random.default_rng(0)
    a = random.standard_normal((k, m) if a_transposed else (m, k)).astype(inputs)
    a = a.T if a_transposed else a
    b = random.standard_normal((n, k) if transposed else (k, n)).astype(inputs)
    b = b.T if transposed else b
    c = np.full((m, n), np.nan, output)
    grid, args, meta = gemm.arguments(a, b, c, programs, chosen)
    machine.launch(gemm.kernel, grid, *args, **meta)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    return c.astype(np.float32), expected, allowed * np.abs(expected).max()


@pytest.mark.long(but=[
    "bf16-cooperative", "bf16-ping_pong", "bf16-ping_pong_wide", "fp16-ping_pong", "fp16-ping_pong_wide", "tf32-cooperative",
    "fp8-tall", "fp8-ping_pong"], everywhere=True)
@pytest.mark.parametrize("dtype, schedule", [      # on the simulator, two schedules of a type and two types of a schedule
    pytest.param(dtype, schedule, marks=[pytest.mark.gpu] * ((a + b) % 2), id=f"{dtype}-{schedule}")
    for a, dtype in enumerate(TYPES) for b, schedule in enumerate(SCHEDULES)])
def test_types_and_schedules(machine, dtype, schedule):
    actual, expected, allowed = product(machine, dtype, (264, 272, 208), SCHEDULES[schedule],
                                        transposed=dtype in ("tf32", "fp8"))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.long(but=["cooperative-shape[035]", "ping_pong-shape[124]"], everywhere=True)
@pytest.mark.parametrize("shape", [(1, 8, 8), (64, 256, 64), (128, 256, 1000), (257, 8, 72), (1000, 24, 16), (130, 520, 136)])
@pytest.mark.parametrize("schedule", ["cooperative", "ping_pong"])
def test_shapes(machine, shape, schedule):
    actual, expected, allowed = product(machine, "fp16", shape, SCHEDULES[schedule])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("programs", [1, 2, 7, 132])
def test_any_number_of_programs(machine, programs):
    actual, expected, allowed = product(machine, "bf16", (520, 600, 64), SCHEDULES["ping_pong"], programs)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


def test_columns_contiguous_in_16_bit(machine):
    actual, expected, allowed = product(machine, "bf16", (192, 264, 104), SCHEDULES["cooperative"], transposed=True)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("schedule, transposed", [("cooperative", False), ("tall", True), ("ping_pong", False)])
def test_a_by_columns_in_16_bit(machine, schedule, transposed):
    """As the gradient of a weight has it; two consumers have 64 or 128 of a tile's columns each."""
    actual, expected, allowed = product(machine, "bf16", (264, 136, 200), SCHEDULES[schedule], transposed=transposed,
                                        a_transposed=True)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed)


# ---- stolen tiles -----------------------------------------------------------------------------------------------------------

STOLEN = {"cooperative": Configuration(bm=128, bn=64, stages=3, staging=1),
          "ping_pong": Configuration(bm=64, bn=64, stages=3, staging=1, ping_pong=True)}


def stolen(shape, chosen, programs, **more):
    """(arrays, launch) of an fp8 product whose programs steal tiles."""
    (m, n, k), random = shape, np.random.default_rng(0)
    a, b = (random.standard_normal(extents).astype(ml_dtypes.float8_e4m3fn) for extents in ((m, k), (n, k)))
    c, counter = np.full((m, n), np.nan, ml_dtypes.bfloat16), np.zeros(1, np.int32)
    return (a, b.T, c, counter), gemm.arguments(a, b.T, c, programs, chosen, flags=counter, **more)


@pytest.mark.long(everywhere=["1-ping_pong", "2-cooperative"])
@pytest.mark.parametrize("schedule", STOLEN)
@pytest.mark.parametrize("programs", [1, 2])
def test_stolen_tiles(machine, schedule, programs):
    """An odd number of tiles, so that the last draw of two consumers has one alone, with a bias; twice, by one counter."""
    bias = np.arange(80, dtype=np.float32)
    (a, b, c, counter), (grid, args, meta) = stolen((2100, 80, 144), STOLEN[schedule], programs, bias=bias)
    assert grid == (programs, ) and any(one is counter for one in args)
    expected = a.astype(np.float32) @ b.astype(np.float32) + bias
    for _ in range(2):
        c[:] = np.nan
        machine.launch(gemm.kernel, grid, *args, **meta)
        np.testing.assert_allclose(c.astype(np.float32), expected, rtol=0, atol=5e-3 * np.abs(expected).max())
        assert counter[0] == 0


@pytest.mark.long(but=["ping_pong"], everywhere=True)
@pytest.mark.parametrize("schedule", STOLEN)
def test_no_interleaving_of_stolen_tiles_is_wrong(schedule):
    _, (grid, args, meta) = stolen((2100, 80, 144), STOLEN[schedule], 2)
    assert mimw.check(gemm.kernel, grid, *args, seeds=3, **meta).ok


def test_which_products_steal():
    """8-bit ones of few chunks and many tiles; with a residual, promoted or without a counter tiles are in equal shares."""
    turns = SCHEDULES["ping_pong_wide"]
    assert turns.steals(2285568, 256, 256, 1, 132) and gemm.room_for(2285568, 256, 256, 1, 132, turns) == (0, 1)
    assert not any(turns.steals(*shape, 132) for shape in ((2285568, 256, 256, 2), (2285568, 256, 512, 1), (65536, 256, 256, 1)))
    (a, b, c, counter), _ = stolen((2100, 80, 144), STOLEN["cooperative"], 2)
    for more in (dict(residual=c, flags=counter), dict(promoted=True, flags=counter), {}):
        _, args, _ = gemm.arguments(a, b, c, 2, STOLEN["cooperative"], **more)
        assert not any(one is counter for one in args)


# ---- the last round's tiles, cut along K -----------------------------------------------------------------------------------

CUT = pytest.mark.skipif(not gemm.configs.PARTS, reason="with Triton 3.8 a last round is not cut")

def shared(shape, chosen, programs, **more):
    """(arrays, launch) of a product whose last round is cut, if it is worth it."""
    (m, n, k), random = shape, np.random.default_rng(0)
    a, b = (random.standard_normal(extents).astype(np.float16) for extents in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float16)
    numbers, count = gemm.room_for(m, n, k, 2, programs, chosen)
    room, flags = np.full(numbers, np.nan, np.float32), np.zeros(count, np.int32)
    return (a, b, c, flags), gemm.arguments(a, b, c, programs, chosen, room=room, flags=flags, **more)


@CUT
@pytest.mark.long(but=["shape0-4-cooperative", "shape1-7-ping_pong", "shape2-3-ping_pong"], everywhere=[
    "shape1-7-ping_pong", "shape2-3-ping_pong"])
@pytest.mark.parametrize("schedule", ["cooperative", "ping_pong"])
@pytest.mark.parametrize("shape, programs", [
    ((520, 264, 264), 4),       # shares that cut tiles, and span two, behind a whole one
    ((100, 264, 456), 7),       # fewer tiles than programs
    ((256, 256, 192), 3),       # a tile whose chunks are three programs'
])
def test_last_round(machine, monkeypatch, schedule, shape, programs):
    monkeypatch.setattr(gemm.configs, "CHUNK", 1000.0)
    chosen = SCHEDULES[schedule]
    (a, b, c, flags), (grid, args, meta) = shared(shape, chosen, programs)
    assert grid == (programs, ) and meta["sharers"] == chosen.sharers(*shape, 2, programs) > 0
    results = []
    for _ in range(2):
        machine.launch(gemm.kernel, grid, *args, **meta)
        results.append(c.copy())
        c[:] = np.nan
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(results[0].astype(np.float32), expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    assert (results[0] == results[1]).all() and not flags.any()


@pytest.mark.long(shown_by="test_gemm_any_columns.py::test_no_interleaving_is_wrong")
@CUT
def test_no_interleaving_of_a_last_round_is_wrong(monkeypatch):
    monkeypatch.setattr(gemm.configs, "CHUNK", 1000.0)
    _, (grid, args, meta) = shared((520, 136, 264), Configuration(bm=128, bn=128, stages=2, ping_pong=True), 4)
    assert mimw.check(gemm.kernel, grid, *args, seeds=3, **meta).ok


@CUT
@pytest.mark.parametrize("room, text", [(np.zeros(8, np.float16), "room is float16"),
                                        (np.zeros(8, np.float32), "room has 8 elements; the launch needs 32768")])
def test_refusals_of_rooms(monkeypatch, room, text):
    monkeypatch.setattr(gemm.configs, "CHUNK", 1000.0)
    a = np.zeros((128, 128), np.float16)
    with pytest.raises(ValueError, match=text):
        gemm.arguments(a, a, a, 2, SCHEDULES["ping_pong"], room=room, flags=np.zeros(4, np.int32))


@CUT
def test_which_rounds_are_cut():
    """Where few tiles are left, or K is long; not where the sums' way costs as much as it saves."""
    turns, wide = SCHEDULES["ping_pong"], SCHEDULES["cooperative"]
    assert [turns.sharers(8192, 8192, k, 2, 132) for k in (256, 2048, 4096, 32768)] == [None, None, 8, 24]
    assert turns.sharers(512, 512, 8192, 2, 132) == 48 and turns.sharers(8448, 8192, 8192, 2, 132) is None
    assert wide.sharers(2304, 12800, 32768, 2, 132) == 132 and wide.sharers(1 << 20, 264, 1 << 24, 2, 131) is None
    assert gemm.room_for(8192, 8192, 4096, 2, 132, turns) == (132 * 128 * 128, 264)
    assert gemm.room_for(8192, 8192, 4096, 2, 132, turns, residual=True) == (0, 0)
    assert gemm.room_for(8192, 8192, 4096, 1, 132, wide, promoted=True) == (0, 0)


@pytest.mark.parametrize("change, text", [
    (dict(b=np.zeros((65, 64), np.float16)), "b is 65 x 64; for a 64 x 64 it must be 64 x N, .K, N."),
    (dict(c=np.zeros((64, 65), np.float16)), "c is 64 x 65"),
    (dict(b=np.zeros((64, 64), np.float32)), "a is float16 and b float32; both must be of one type, or both fp8"),
    (dict(a=np.zeros((64, 128), np.float16)[:, ::2]), "strides are 256 and 4 bytes"),
    (dict(a=np.zeros((64, 65), np.float16).T[:64]), "a, as it lies in memory, must be .*; its strides are 130"),
])
def test_refusals(change, text):
    matrices = {name: np.zeros((64, 64), np.float16) for name in "abc"} | change
    with pytest.raises(ValueError, match=text):
        gemm.arguments(**matrices, programs=1)


def test_eight_bit_rows_are_refused():
    a = np.zeros((64, 64), ml_dtypes.float8_e5m2)
    with pytest.raises(ValueError, match="must be contiguous along K"):
        gemm.arguments(a, a, np.zeros((64, 64), ml_dtypes.bfloat16), 1)
