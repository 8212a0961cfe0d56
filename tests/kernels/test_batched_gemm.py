"""Batches of matrices: one for all, strides of all kinds, sizes that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import batched_gemm
from mimw.kernels.batched_gemm import Configuration
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

SCHEDULES = {
    "cooperative": Configuration(bm=128, bn=128, stages=3),
    "ping-pong": Configuration(bm=64, bn=128, stages=3, staging=1, ping_pong=True),
}
TYPES = {  # inputs, output, error against fp64 relative to the largest value
    "bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 4e-3),
    "fp16": (np.float16, np.float16, 1e-3),
    "tf32": (np.float32, np.float32, 2e-3),
    "fp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16, 4e-3),
}


def problem(batch, shape, dtype="bf16", count_a=None, count_b=None, transposed=True):
    inputs, output, _ = TYPES[dtype]
    (m, n, k), random = shape, np.random.default_rng(0)
    a = random.standard_normal((count_a or batch, m, k)).astype(inputs)
    b = random.standard_normal((count_b or batch, *((n, k) if transposed else (k, n)))).astype(inputs)
    return a, b.swapaxes(1, 2) if transposed else b, np.full((batch, m, n), np.nan, output)


def holds(machine, a, b, c, allowed, chosen, programs=3):
    grid, args, meta = batched_gemm.arguments(a, b, c, programs, chosen)
    machine.launch(batched_gemm.kernel, grid, *args, **meta)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), np.broadcast_to(wanted, c.shape), rtol=0, atol=allowed * np.abs(wanted).max())
    return meta


@pytest.mark.parametrize("dtype, schedule", [("bf16", "cooperative"), ("bf16", "ping-pong"), ("fp16", "cooperative"),
                                             ("tf32", "cooperative"), ("fp8", "ping-pong")])
def test_types_and_schedules(machine, dtype, schedule):
    holds(machine, *problem(3, (72, 136, 80), dtype), TYPES[dtype][2], SCHEDULES[schedule])


@pytest.mark.parametrize("batch, shape", [(1, (64, 64, 64)), (5, (1, 8, 8)), (2, (200, 24, 72))])
@pytest.mark.parametrize("programs", [1, 132])
def test_shapes(machine, batch, shape, programs):
    holds(machine, *problem(batch, shape, "fp16", transposed=False), 1e-3, SCHEDULES["ping-pong"], programs)


@pytest.mark.parametrize("counts, flags", [((1, 3), (True, False)), ((3, 1), (False, True)), ((1, 1), (True, True))])
def test_one_matrix_for_all(machine, counts, flags):
    a, b, c = problem(3, (72, 64, 64), "bf16", *counts)
    meta = holds(machine, a, b, c, 4e-3, SCHEDULES["cooperative"])
    assert (meta["ONE_A"], meta["ONE_B"]) == flags
    b = np.broadcast_to(b, (3, *b.shape[1:]))
    assert batched_gemm.arguments(np.broadcast_to(a, (3, *a.shape[1:])), b, c, 1)[2]["ONE_A"] == flags[0]


def test_strides(machine):
    """Heads of one tensor: (tokens, heads, width) seen as (heads, tokens, width)."""
    a, b, c = (np.ascontiguousarray(one.swapaxes(0, 1)).swapaxes(0, 1) for one in problem(3, (72, 64, 64), transposed=False))
    holds(machine, a, b, c, 4e-3, SCHEDULES["cooperative"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_interleaving_is_wrong(schedule):
    grid, args, meta = batched_gemm.arguments(*problem(2, (72, 136, 72)), 2, SCHEDULES[schedule])
    assert mimw.check(batched_gemm.kernel, grid, *args, seeds=5, **meta).ok


@pytest.mark.parametrize("change, text", [
    (dict(b=np.zeros((2, 65, 64), np.float16)), "a is 2 x 64 x 64; for c 2 x 64 x 64 and b 2 x 65 x 64 it must be"),
    (dict(a=np.zeros((3, 64, 64), np.float16)), "a is 3 x 64 x 64; for c 2 x 64 x 64 and b 2 x 64 x 64 it must be"),
    (dict(c=np.zeros((1, 64, 64), np.float16)), "b is 2 x 64 x 64; for c 1 x 64 x 64 it must be 1 x K x 64, .B.1,"),
    (dict(a=np.zeros((2, 64, 128), np.float16)[:, :, ::2]), "strides are 16384, 256 and 4 bytes"),
])
def test_refusals(change, text):
    matrices = {name: np.zeros((2, 64, 64), np.float16) for name in "abc"} | change
    with pytest.raises(ValueError, match=text):
        batched_gemm.arguments(**matrices, programs=1)


@pytest.mark.long(shown_by="tests/lowering/test_gemm.py::test_products_overlap_and_nothing_spills")
def test_nothing_spills(tmp_path):
    a = np.empty((4, 1024, 1024), ml_dtypes.bfloat16)
    _, args, meta = batched_gemm.arguments(a, a, a, 132)
    said = assembled(ptx_of(batched_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
