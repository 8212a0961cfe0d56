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

SQUARE = Configuration(stages=3)
TALL = Configuration(bm=256, rows=128, stages=2, staging=1, together=1)
WIDE = Configuration(bn=192, stages=3, together=1)
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


def holds(machine, arrays, wanted, programs=2, chosen=SQUARE, ends=None, allowed=4e-3):
    grid, args, meta = block_scaled_gemm.arguments(*arrays, programs, ends, chosen)
    machine.launch(block_scaled_gemm.kernel, grid, *args, **meta)
    np.testing.assert_allclose(arrays[2].astype(np.float64), wanted, rtol=0, atol=allowed * np.abs(wanted).max())


@pytest.mark.long(but=["shape0-chosen0", "shape1-chosen[23]", "shape2-chosen[12]"], everywhere=True)
@pytest.mark.parametrize("chosen", [SQUARE, TALL, WIDE, Configuration(bm=64, stages=2, staging=1)])
@pytest.mark.parametrize("shape", [(200, 272, 400), (8, 16, 16), (540, 528, 144)])
def test_one_matrix(machine, shape, chosen):
    """Of 528 columns tiles of 192 begin at 192 and 384, in the middle of a block of scales and with one, and the last is cut."""
    m, n, k = shape
    a, b, c, *both = problem((m, k), n)
    holds(machine, (a, b, c, *both), exact(a, b, *both), chosen=chosen)


@pytest.mark.long(everywhere=["chosen0"])
@pytest.mark.parametrize("chosen", [SQUARE, WIDE])
def test_results_in_fp32(machine, chosen):
    """Of 128 products the tensor cores keep 14 bits of the sum; sums of these are fp32."""
    a, b, c, *both = problem((40, 272), 136, output=np.float32)
    holds(machine, (a, b, c, *both), exact(a, b, *both), chosen=chosen, allowed=1e-3)


@pytest.mark.long(everywhere=["sizes4-2-chosen4", "sizes0-3-chosen0", "sizes2-132-chosen2", "sizes1-1-chosen1"])
@pytest.mark.parametrize("sizes, programs, chosen", [((70, 0, 130, 1), 3, SQUARE), ((0, 0), 1, SQUARE), ((128, 128), 132, SQUARE),
                                                     ((70, 0, 300, 1), 2, TALL), ((70, 0, 130, 1), 2, WIDE)])
def test_contiguous_groups(machine, sizes, programs, chosen):
    ends = np.cumsum(sizes).astype(np.int32)
    a, b, c, scale_a, scale_b = problem((ends[-1] + 7, 144), 136, len(sizes))
    lying = np.zeros((2, -(-len(a) // 4) * 4), np.float32)
    lying[:, :len(a)] = scale_a.T
    scale_a, wanted = lying.T[:len(a)], c.astype(np.float64)
    for group, (start, end) in enumerate(zip([0, *ends], ends)):
        wanted[start:end] = exact(a[start:end], b[group], scale_a[start:end], scale_b[group])
    holds(machine, (a, b, c, scale_a, scale_b), wanted, programs, chosen, ends)


@pytest.mark.parametrize("counts, chosen", [((70, 0, 136), SQUARE), ((1, 130, 5), TALL), ((136, 130, 5), WIDE)])
def test_masked_groups(machine, counts, chosen):
    a, b, c, scale_a, scale_b = problem((len(counts), 136, 144), 264, len(counts))
    wanted = c.astype(np.float64)
    for group, count in enumerate(counts):
        wanted[group, :count] = exact(a[group, :count], b[group], scale_a[group, :count], scale_b[group])
    holds(machine, (a, b, c, scale_a, scale_b), wanted, 3, chosen, np.array(counts, np.int32))


@pytest.mark.long(but=["chosen0"], everywhere=True)
@pytest.mark.parametrize("chosen", [SQUARE, TALL, WIDE])
def test_no_interleaving_is_wrong(chosen):
    arrays = problem((200, 272), 136, 2)
    grid, args, meta = block_scaled_gemm.arguments(*arrays, 2, np.array([70, 190], np.int32), chosen)
    assert mimw.check(block_scaled_gemm.kernel, grid, *args, seeds=3, **meta).ok


@pytest.mark.parametrize("m, n, layout, tile", [
    (4096, 7168, "plain", (256, 128)),              # 7 rounds of 132; 14 and 10 of smaller ones take as long and longer
    (4096, 2112, "plain", (128, 192)),              # 3 rounds, as long as 4.5 of 128 columns, which would be 5
    (4096, 576, "plain", (128, 192)),               # one instead of two
    (4096, 1536, "plain", (128, 128)),              # two, as long as three of 128
    (64, 64, "plain", (128, 128)), (4096, 7168, "contiguous", (128, 128)),
])
def test_the_tiles_that_fill_up_rounds(m, n, layout, tile):
    chosen = block_scaled_gemm.configuration(m, n, layout, 132)
    assert (chosen.bm, chosen.bn) == tile


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


@pytest.mark.long(shown_by="test_skinny_scaled_gemm.py::test_nothing_spills")
@pytest.mark.parametrize("chosen, groups", [(Configuration(), None), (replace(TALL, stages=4), 4),
                                            (replace(WIDE, staging=3, stages=4), 4)])
def test_nothing_spills(chosen, groups, tmp_path):
    """Of groups neither, and their scales, which begin anywhere, go through shared memory once."""
    ends = None if groups is None else np.full(groups, 512, np.int32)
    _, args, meta = block_scaled_gemm.arguments(*problem((512, 512), 544, groups), 132, ends, chosen)
    said = assembled(ptx_of(block_scaled_gemm.kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said
