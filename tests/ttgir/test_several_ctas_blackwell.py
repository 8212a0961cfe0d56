"""Programs of several CTAs for Blackwell, as Gluon compiles them: products with block scales, rows that are picked."""

import numpy as np
import pytest
import torch
from triton.experimental.gluon import language as gl

import mimw
from tests.kernels import several_ctas_blackwell as kernels
from tests.ttgir.checked import QUICK, described, right, told

RNG = np.random.default_rng(0)
SCALES = dict(element=gl.uint8, swizzle_byte_width=0)


@pytest.mark.parametrize("ctas, by_pairs", [(1, False), (2, False), (2, True), (4, True)])
def test_products_with_block_scales(ctas, by_pairs):
    """Copies of scales into tensor memory, and products that read them; of a pair the even CTA starts both in each."""
    m, bits = 128 * ctas, ctas.bit_length() - 1
    rows, halves = [[1 << bit, 0] for bit in range(bits)], [[int(by_pairs and bit == 0), 0] for bit in range(bits)]
    (a, a_scales), (b, b_scales) = (scaled(size, 256) for size in (m, 128))
    c = torch.zeros(m, 128)
    args = (described(a, [m, 128], rows, gl.float8e4nv), described(b, [128, 128], halves, gl.float8e4nv),
            described(packed(a_scales), [1, ctas, 1, 2, 256], [[0, row, 0, 0, 0] for row, _ in rows], **SCALES),
            described(packed(b_scales), [1, 1, 1, 2, 256], [[0] * 5] * bits, **SCALES),
            described(c, [m, 128], rows, gl.float32))
    how = dict(K=256, PAIR=by_pairs, num_ctas=ctas, target="sm_100a")
    wanted = (unscaled(a, a_scales) @ unscaled(b, b_scales).T).numpy()
    right(kernels.scaled_product, (1, ), *args, RIGHT=True, expected={"c": wanted}, tolerance=1e-3, **how)
    report = mimw.check_compiled(kernels.scaled_product, (1, ), *args, RIGHT=False, **QUICK, **how)
    assert ("CopyReadEarly", "tcgen05_copy(table(of_left, M), left_table)") in told(report, kernels)


def scaled(rows, k):
    """Random elements, and a scale for each 32 of a row."""
    return torch.from_numpy(RNG.standard_normal((rows, k)).astype(np.float32)).to(torch.float8_e4m3fn), torch.from_numpy(
        RNG.integers(120, 132, (rows, k // 32)).astype(np.uint8))


def unscaled(elements, scales):
    return elements.float() * torch.exp2(scales.float() - 127).repeat_interleave(32, 1)


def packed(scales):
    rows, columns = scales.shape
    blocks = scales.reshape(rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return blocks.contiguous().reshape(1, rows // 128, columns // 4, 2, 256)


@pytest.mark.parametrize("tile", [[[1, 0]], [[0, 1]], [[0, 0]]], ids=["rows", "columns", "same"])
def test_rows_that_are_picked(tile):
    """A CTA gathers and scatters its part; of what both have the first gathers for both, and scatters."""
    source, numbers = torch.randn(96, 64).half(), RNG.permutation(96)[:64].astype(np.int32)
    wanted = np.zeros((96, 64), np.float16)
    wanted[numbers] = source.numpy()[numbers]
    args = (*(described(one, [64, 64], tile, rows=True) for one in (source, torch.zeros(96, 64).half())), numbers)
    how = dict(CGA=[[0, tile[0][0]]], num_ctas=2, target="sm_100a")
    right(kernels.rows_moved, (1, ), *args, RIGHT=True, expected={"target": wanted}, **how)
    report = mimw.check_compiled(kernels.rows_moved, (1, ), *args, RIGHT=False, **QUICK, **how)
    assert told(report, kernels) == [("CopyReadEarly", "tma.async_gather(source, rows, 0, full, tile, multicast=True)")]


@pytest.mark.parametrize("ctas", [2, 4])
def test_products_of_rows_that_are_picked(ctas):
    """The mbarrier of a pair hears of the rows that land in both, also of those that another pair has gathered."""
    m, bits = 128 * ctas, ctas.bit_length() - 1
    rows, halves = [[1 << bit, 0] for bit in range(bits)], [[int(bit == 0), 0] for bit in range(bits)]
    a, b, c = torch.randn(m, 128).half(), torch.randn(96, 128).half(), torch.zeros(m, 64).half()
    numbers = RNG.permutation(96)[:64].astype(np.int32)
    args = described(a, [m, 64], rows), described(b, [64, 64], halves, rows=True), numbers, described(c, [m, 64], rows)
    how = dict(K=128, CGA=[[0, half] for half, _ in halves], num_ctas=ctas, target="sm_100a")
    wanted = (a.float() @ b[numbers].float().T).numpy()
    right(kernels.product_of_picked_rows, (1, ), *args, RIGHT=True, expected={"c": wanted}, tolerance=0.05, **how)
    report = mimw.check_compiled(kernels.product_of_picked_rows, (1, ), *args, RIGHT=False, **QUICK, **how)
    assert "BytesNotExpected" in {kind for kind, _ in told(report, kernels)}
