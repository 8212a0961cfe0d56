"""Programs of several CTAs for Blackwell, as Gluon compiles them: products with block scales, rows that are picked."""

import numpy as np
import pytest
import torch
from triton.experimental.gluon import language as gl

import mimw
from tests.kernels import several_ctas_blackwell as kernels
from tests.ttgir.checked import QUICK, described, right, told
from tests.ttgir.modules import ran

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


@pytest.mark.parametrize("ctas", [1, 2])
def test_tables_of_scales_in_a_pool(ctas):
    """Tensor memory that is seen as tables, one of more rows than the memory has."""
    m, rows = 128 * ctas, [[1, 0]] * (ctas - 1)
    (a, a_scales), (b, b_scales) = (scaled(size, 128) for size in (m, 256))
    args = (described(a, [m, 128], rows, gl.float8e4nv), described(b, [256, 128], rows, gl.float8e4nv),
            described(packed(a_scales), [1, ctas, 1, 2, 256], [[0, 1, 0, 0, 0]] * (ctas - 1), **SCALES),
            described(packed(b_scales), [1, 2, 1, 2, 256], [[0] * 5] * (ctas - 1), **SCALES),
            described(torch.zeros(m, 256), [m, 256], rows, gl.float32))
    how = dict(PAIR=ctas > 1, num_ctas=ctas, target="sm_100a", tolerance=1e-3,
               expected={"c": (unscaled(a, a_scales) @ unscaled(b, b_scales).T).numpy()})
    right(kernels.tables_in_a_pool, (1, ), *args, RIGHT=True, **how)
    assert not mimw.check_compiled(kernels.tables_in_a_pool, (1, ), *args, RIGHT=False, **QUICK, **how).ok


def test_scaled_products_in_registers():
    """tt.dot_scaled, which stands for no tensor core; a CTA has rows of the sums."""
    x = np.zeros((64, 32), np.float32)
    ran(DOT_SCALED, x, target="sm_120a")
    assert (x == 64 * 2. ** (np.arange(64) % 8)[:, None] * (1 + np.arange(32) % 2)).all()


DOT_SCALED = """#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0],
                   CGALayout = [[1, 0]]}>
#t = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0], CGALayout = [[0, 0]]}>
#l = #ttg.dot_op<{opIdx = 0, parent = #b}>
#r = #ttg.dot_op<{opIdx = 1, parent = #b}>
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:120",
                   "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @k(%x: !tt.ptr<f32>) {
    %a = arith.constant dense<1.0> : tensor<64x64xf8E4M3FN, #l>
    %w = arith.constant dense<1.0> : tensor<64x32xf8E4M3FN, #r>
    %c = arith.constant dense<0.0> : tensor<64x32xf32, #b>
    %i = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #b}>>
    %j = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #b}>>
    %i1 = tt.expand_dims %i {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #b}>> -> tensor<64x1xi32, #b>
    %j1 = tt.expand_dims %j {axis = 0 : i32} : tensor<32xi32, #ttg.slice<{dim = 0, parent = #b}>> -> tensor<1x32xi32, #b>
    %seven = arith.constant dense<7> : tensor<64x1xi32, #b>
    %base = arith.constant dense<127> : tensor<64x1xi32, #b>
    %low = arith.andi %i1, %seven : tensor<64x1xi32, #b>
    %exponent = arith.addi %low, %base : tensor<64x1xi32, #b>
    %narrow = arith.trunci %exponent : tensor<64x1xi32, #b> to tensor<64x1xi8, #b>
    %sa = tt.broadcast %narrow : tensor<64x1xi8, #b> -> tensor<64x2xi8, #b>
    %k = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #t}>>
    %k1 = tt.expand_dims %k {axis = 1 : i32} : tensor<32xi32, #ttg.slice<{dim = 1, parent = #t}>> -> tensor<32x1xi32, #t>
    %one = arith.constant dense<1> : tensor<32x1xi32, #t>
    %other = arith.constant dense<127> : tensor<32x1xi32, #t>
    %odd = arith.andi %k1, %one : tensor<32x1xi32, #t>
    %twice = arith.addi %odd, %other : tensor<32x1xi32, #t>
    %short = arith.trunci %twice : tensor<32x1xi32, #t> to tensor<32x1xi8, #t>
    %sb = tt.broadcast %short : tensor<32x1xi8, #t> -> tensor<32x2xi8, #t>
    %d = tt.dot_scaled %a scale %sa, %w scale %sb, %c lhs = e4m3 rhs = e4m3 {fastMath = false} : tensor<64x64xf8E4M3FN, #l>,
        tensor<64x2xi8, #b> * tensor<64x32xf8E4M3FN, #r>, tensor<32x2xi8, #t> -> tensor<64x32xf32, #b>
    %i2 = tt.broadcast %i1 : tensor<64x1xi32, #b> -> tensor<64x32xi32, #b>
    %j2 = tt.broadcast %j1 : tensor<1x32xi32, #b> -> tensor<64x32xi32, #b>
    %n = arith.constant dense<32> : tensor<64x32xi32, #b>
    %m = arith.muli %i2, %n : tensor<64x32xi32, #b>
    %o = arith.addi %m, %j2 : tensor<64x32xi32, #b>
    %p = tt.splat %x : !tt.ptr<f32> -> tensor<64x32x!tt.ptr<f32>, #b>
    %q = tt.addptr %p, %o : tensor<64x32x!tt.ptr<f32>, #b>, tensor<64x32xi32, #b>
    tt.store %q, %d : tensor<64x32x!tt.ptr<f32>, #b>
    tt.return
  }
}
"""


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
