"""Readers of products: what Triton makes of small kernels against numpy, and the ops that none of these has, by hand."""

from functools import lru_cache

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from benchmarks.ttgir_edit_kernels import CASES
from mimw.errors import AsyncDotReadEarly, MissingFence
from mimw.runtime.ttgir import compiled_launch
from mimw.simulator import run
from mimw.target import asking, wanted
from tests.ttgir.modules import kernel, ran

OPS = {
    "GEMM by cp.async, sm_80": ("tt.dot", "ttg.async_wait", "ttg.memdesc_subslice"),
    "GEMM by TMA, sm_90": ("ttng.warp_group_dot", "ttng.warp_group_dot_wait", "ttg.memdesc_trans"),
    "GEMM, own descriptors, sm_90": ("ttg.global_scratch_alloc", "ttng.tensormap_create", "ttng.tensormap_fenceproxy_acquire",
                                     "ttng.reinterpret_tensor_descriptor"),
    "GEMM, warps specialised, sm_100": ("ttng.tc_gen5_mma", "ttng.tc_gen5_commit", "ttng.tmem_alloc", "ttng.tmem_load",
                                        "ttng.tmem_store", "ttg.warp_specialize"),
}


@lru_cache
def made(name: str):
    return CASES[name].made()


@pytest.mark.parametrize("name", OPS)
def test_kernels_of_stock_triton(name):
    """The results are numpy's, and nothing is found in the barriers and fences that Triton put in."""
    one = made(name)
    assert [op for op in OPS[name] if op not in one.text] == []
    for given in one.launches:
        report = mimw.check_ttgir(one.text, one.grid, *given.args, seeds=2, rounds=False, jobs=1, expected=given.expected,
                                  late_fences=False)
        assert report.ok, report


_LANES = "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>\n"
TENSOR = ("#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>\n"
          f"#held = #ttg.linear<{{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], {_LANES}"
          f"#part = #ttg.linear<{{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], {_LANES}"
          "#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>\n"
          "#line_held = #ttg.slice<{dim = 0, parent = #held}>\n#line_part = #ttg.slice<{dim = 0, parent = #part}>\n")
WHOLE = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
HALF = "!ttg.memdesc<128x32xf32, #tmem, #ttng.tensor_memory, mutable, 128x64>"


NUMBERED = f"""%j = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, #line_held>
    %e = tt.expand_dims %j {{axis = 0 : i32}} : tensor<64xi32, #line_held> -> tensor<1x64xi32, #held>
    %b = tt.broadcast %e : tensor<1x64xi32, #held> -> tensor<128x64xi32, #held>
    %f = arith.sitofp %b : tensor<128x64xi32, #held> to tensor<128x64xf32, #held>
    %t = ttng.tmem_alloc : () -> {WHOLE}
    %true = arith.constant true
    %c0 = arith.constant 0 : i32
    """
RIGHT = f"""%h = ttng.tmem_subslice %t {{offset = 32 : i32}} : {WHOLE} -> {HALF}
    %v = ttng.tmem_load %h : {HALF} -> tensor<128x32xf32, #part>
    %s = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
    ^bb0(%p: f32, %q: f32):
      %m = arith.maxnumf %p, %q : f32
      tt.reduce.return %m : f32
    }}) : (tensor<128x32xf32, #part>) -> tensor<32xf32, #line_part>
    %i = tt.make_range {{start = 0 : i32, end = 32 : i32}} : tensor<32xi32, #line_part>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<32x!tt.ptr<f32>, #line_part>
    %qo = tt.addptr %po, %i : tensor<32x!tt.ptr<f32>, #line_part>, tensor<32xi32, #line_part>
    tt.store %qo, %s : tensor<32x!tt.ptr<f32>, #line_part>"""


def right_half(fill: str) -> np.ndarray:
    """The right half of the columns 0, 1, .. 63 of `%f`, by way of the tensor memory `%t`."""
    out = np.zeros(32, np.float32)
    ran(kernel("%o: !tt.ptr<f32>", NUMBERED + fill + "\n" + RIGHT, target="cuda:100", layouts=TENSOR), out, target="sm_100a")
    return out


def test_columns_of_tensor_memory():
    found = right_half(f"ttng.tmem_store %f, %t, %true : tensor<128x64xf32, #held> -> {WHOLE}")
    assert (found == np.arange(32, 64)).all()


def test_a_copy_from_shared_to_tensor_memory():
    shared = "!ttg.memdesc<128x64xf32, #wide, #smem, mutable>"
    fence = "ttng.fence_async_shared {bCluster = false}\n"
    fill = f"""%x = ttg.local_alloc : () -> {shared}
        ttg.local_store %f, %x : tensor<128x64xf32, #held> -> {shared}
        {fence}%done = ttg.local_alloc : () -> BARRIER
        ttng.init_barrier %done, 1 : BARRIER
        ttng.tmem_copy %x, %t : {shared}, {WHOLE}
        ttng.tc_gen5_commit %done : BARRIER
        ttng.wait_barrier %done, %c0 : BARRIER"""
    assert (right_half(fill) == np.arange(32, 64)).all()
    with pytest.raises(MissingFence):
        right_half(fill.replace(fence, ""))


@triton.jit
def scaled_blocks(a, b, of_a, of_b, o, SIZE: tl.constexpr):
    i, j, g = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, SIZE // 32)
    x = tl.load(a + i[:, None] * SIZE + j[None, :])
    y = tl.load(b + i[:, None] * SIZE + j[None, :])
    sx = tl.load(of_a + i[:, None] * (SIZE // 32) + g[None, :])
    sy = tl.load(of_b + i[:, None] * (SIZE // 32) + g[None, :])
    tl.store(o + i[:, None] * SIZE + j[None, :], tl.dot_scaled(x, sx, "e4m3", y, sy, "e4m3"))


@pytest.mark.parametrize("target, op", [("sm_100a", "ttng.tc_gen5_mma_scaled"), ("gfx950", "tt.dot_scaled")])
def test_products_in_microscaling_formats(target, op):
    """Every 32 elements along K have a scale, a power of two."""
    random = np.random.default_rng(6)
    a, b = (random.standard_normal((128, 128)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    of_a, of_b = (random.integers(125, 130, (128, 4)).astype(np.uint8) for _ in range(2))
    out = np.zeros((128, 128), np.float32)
    launch, reading = compiled_launch(scaled_blocks, (1, ), (a, b, of_a, of_b, out), {"SIZE": 128}, target)
    assert op in reading.text
    with asking(wanted(target)):
        run(launch.program, launch.grid, launch.values, seed=0, races=True)
    x = a.astype(np.float32) * np.repeat(np.exp2(of_a.astype(np.float32) - 127), 32, 1)
    y = b.astype(np.float32) * np.repeat(np.exp2(of_b.astype(np.float32) - 127), 32, 1).T
    assert np.allclose(out, x @ y, rtol=1e-3, atol=1e-2)


WGMMA = """%zero = arith.constant dense<0.0> : tensor<64x64xf32, #wgmma>
    %half = arith.constant dense<5.000000e-01> : BLOCK
    %two = arith.constant dense<2.000000e+00> : BLOCK
    %a = ttg.local_alloc : () -> SLOT
    %b = ttg.local_alloc : () -> SLOT
    ttg.local_store %half, %a : BLOCK -> SLOT
    ttg.local_store %two, %b : BLOCK -> SLOT
    FENCE
    %d = ttng.warp_group_dot %a, %b, %zero {inputPrecision = 0 : i32, isAsync = ASYNC} : SLOT * SLOT -> tensor<64x64xf32, #wgmma>
    WAIT
    %s = "tt.reduce"(RESULT) <{axis = 1 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %m = arith.addf %p, %q : f32
      tt.reduce.return %m : f32
    }) : (tensor<64x64xf32, #wgmma>) -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #wgmma}>>
    %t = "tt.reduce"(%s) <{axis = 0 : i32}> ({
    ^bb0(%p: f32, %q: f32):
      %m = arith.addf %p, %q : f32
      tt.reduce.return %m : f32
    }) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #wgmma}>>) -> f32
    tt.store %o, %t : !tt.ptr<f32>"""


def product(fence: bool = True, wait: bool = True, is_async: bool = True) -> float:
    """The sum of all elements of a product of tiles of 0.5 and of 2."""
    body = WGMMA.replace("FENCE", "ttng.fence_async_shared {bCluster = false}" if fence else "")
    body = body.replace("WAIT", "%w = ttng.warp_group_dot_wait %d {pendings = 0 : i32} : tensor<64x64xf32, #wgmma>" if wait else "")
    out = np.zeros(1, np.float32)
    ran(kernel("%o: !tt.ptr<f32>", body.replace("RESULT", "%w" if wait else "%d").replace("ASYNC", str(is_async).lower())), out)
    return float(out[0])


def test_a_product_of_a_warp_group():
    assert product() == product(wait=False, is_async=False) == 64 ** 3
    with pytest.raises(AsyncDotReadEarly):
        product(wait=False)


def test_operands_that_the_task_wrote_itself_need_the_fence():
    """Another compiler has put in what fences there are: in our own programs the fence would be put in."""
    with pytest.raises(MissingFence):
        product(fence=False)
