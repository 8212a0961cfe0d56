"""fp8 with scales of blocks: one matrix and groups in both layouts, sizes that no block divides."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.kernels import block_scaled_gemm
from mimw.kernels.block_scaled_gemm import Configuration
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

ONE = Configuration(stages=3, together=1)
TALL = Configuration(bm=256, rows=128, stages=2, staging=1, together=1, apart=2, narrow=True)
OVERLAPPING = Configuration(stages=3, together=2, apart=1, narrow=True, early=True)
FP8, RANDOM = ml_dtypes.float8_e4m3fn, np.random.default_rng


def scales(shape, lying_across=False):
    found = (RANDOM(1).random(shape) + 0.5).astype(np.float32)
    return np.ascontiguousarray(found.swapaxes(-1, -2)).swapaxes(-1, -2) if lying_across else found


def problem(a_shape, n, groups=None, output=ml_dtypes.bfloat16):
    """(a, b, c, scale_a, scale_b)."""
    *_, k = a_shape
    front, blocks, random = (() if groups is None else (groups, )), -(-k // 128), RANDOM(0)
    a, b = random.standard_normal(a_shape).astype(FP8), random.standard_normal((*front, n, k)).astype(FP8)
    return (a, b, np.full((*a_shape[:-1], n), 7, output), scales((*a_shape[:-1], blocks), True),
            scales((*front, -(-n // 128), blocks)))


def exact(a, b, scale_a, scale_b):
    """In fp64."""
    (n, k) = b.shape
    spread = np.repeat(np.repeat(scale_b, 128, 0)[:n], 128, 1)[:, :k]
    return (a.astype(np.float64) * np.repeat(scale_a, 128, 1)[:, :k]) @ (b.astype(np.float64) * spread).T


def holds(machine, arrays, wanted, programs=2, chosen=ONE, ends=None, allowed=4e-3):
    grid, args, meta = block_scaled_gemm.arguments(*arrays, programs, ends, chosen)
    machine.launch(block_scaled_gemm.kernel, grid, *args, **meta)
    np.testing.assert_allclose(arrays[2].astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.long(but=["shape0-chosen0", "shape1-chosen3", "shape2-chosen[12]"])
@pytest.mark.parametrize("chosen", [ONE, TALL, OVERLAPPING, Configuration(bm=64, stages=2, staging=1)])
@pytest.mark.parametrize("shape", [(200, 272, 400), (8, 16, 16), (540, 208, 144)])
def test_one_matrix(machine, shape, chosen):
    """Of 272 columns 16 are left over, which makes tiles of 64, of 208 more."""
    m, n, k = shape
    a, b, c, *both = problem((m, k), n)
    holds(machine, (a, b, c, *both), exact(a, b, *both), chosen=chosen)


def test_results_in_fp32(machine):
    """Of 128 products the tensor cores keep 14 bits of the sum; sums of these are fp32."""
    a, b, c, *both = problem((40, 272), 136, output=np.float32)
    holds(machine, (a, b, c, *both), exact(a, b, *both), allowed=1e-3)


@pytest.mark.parametrize("sizes, programs", [((70, 0, 130, 1), 3), ((0, 0), 1), ((128, 128), 132)])
def test_contiguous_groups(machine, sizes, programs):
    ends = np.cumsum(sizes).astype(np.int32)
    a, b, c, scale_a, scale_b = problem((ends[-1] + 7, 144), 136, len(sizes))
    lying = np.zeros((2, -(-len(a) // 4) * 4), np.float32)
    lying[:, :len(a)] = scale_a.T
    scale_a, wanted = lying.T[:len(a)], c.astype(np.float64)
    for group, (start, end) in enumerate(zip([0, *ends], ends)):
        wanted[start:end] = exact(a[start:end], b[group], scale_a[start:end], scale_b[group])
    holds(machine, (a, b, c, scale_a, scale_b), wanted, programs, ends=ends)


@pytest.mark.parametrize("counts, chosen", [((70, 0, 136), ONE), ((1, 130, 5), TALL)])
def test_masked_groups(machine, counts, chosen):
    a, b, c, scale_a, scale_b = problem((len(counts), 136, 144), 264, len(counts))
    wanted = c.astype(np.float64)
    for group, count in enumerate(counts):
        wanted[group, :count] = exact(a[group, :count], b[group], scale_a[group, :count], scale_b[group])
    holds(machine, (a, b, c, scale_a, scale_b), wanted, 3, chosen, np.array(counts, np.int32))


@pytest.mark.parametrize("chosen", [ONE, TALL, OVERLAPPING])
def test_no_interleaving_is_wrong(chosen):
    arrays = problem((200, 272), 136, 2)
    grid, args, meta = block_scaled_gemm.arguments(*arrays, 2, np.array([70, 190], np.int32), chosen)
    assert mimw.check(block_scaled_gemm.kernel, grid, *args, seeds=3, **meta).ok


def test_tall_tiles_where_they_take_no_more_rounds():
    """Of 4096 x 2112 they would take three rounds of 132, as long as six; five of short tiles are enough. One tile is short."""
    for m, n, layout, rows in ((4096, 7168, "plain", 128), (4096, 2112, "plain", 64), (4096, 7168, "contiguous", 64),
                               (64, 64, "plain", 64)):
        assert block_scaled_gemm.configuration(m, n, layout, 132).rows == rows


@pytest.mark.parametrize("change, text", [
    (dict(a=np.zeros((64, 128), np.float16)), "a is float16; it may be float8_e4m3fn"),
    (dict(b=np.zeros((64, 144), FP8)), "b is 64 x 144; for a 64 x 128 it must be 64 x 128, .N, K."),
    (dict(scale_a=np.zeros((64, 2), np.float32)), "scale_a is 64 x 2; for a 64 x 128 it must be 64 x 1, .M, cdiv.K,"),
    (dict(scale_b=np.zeros((2, 1), np.float32)), "scale_b is 2 x 1; for a 64 x 128 and b 64 x 128 it must be 1 x 1,"),
    (dict(scale_a=np.zeros((64, 4), np.float32)[:, :1]), "scale_a, as it lies in memory, must be contiguous along its last"),
    (dict(ends=np.zeros(1, np.int64), b=np.zeros((1, 64, 128), FP8), scale_b=np.zeros((1, 1, 1), np.float32)), "ends is int64"),
])
def test_refusals(change, text):
    arrays = dict(a=np.zeros((64, 128), FP8), b=np.zeros((64, 128), FP8), c=np.zeros((64, 64), np.float16),
                  scale_a=np.zeros((64, 1), np.float32), scale_b=np.zeros((1, 1), np.float32)) | change
    with pytest.raises(ValueError, match=text):
        block_scaled_gemm.arguments(**arrays, programs=1)


@pytest.mark.parametrize("n, chosen", [(512, Configuration()), (544, replace(TALL, stages=4))])
def test_nothing_spills(n, chosen, tmp_path):
    _, args, meta = block_scaled_gemm.arguments(*problem((512, 512), n), 132, None, chosen)
    said = assembled(ptx_of(block_scaled_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
