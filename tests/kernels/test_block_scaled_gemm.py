"""The block-scaled GEMM for Blackwell: simulated against numpy, checked over many seeds, compiled with its resources."""

import re

import numpy as np
import pytest

import mimw
from mimw.compile import compile_kernel
from tests.words.test_tensor_memory_scaled import elements, reference, scales

from .block_scaled_gemm import block_scaled_gemm, launch, packed

CASES = {"mxfp8": ("e4m3", 32, 128), "mxfp4": ("e2m1", 32, 256), "nvfp4": ("e2m1", 16, 256)}
KINDS = {"mxfp8": "kind::mxf8f6f4.block_scale.block32", "mxfp4": "kind::mxf4.block_scale.block32",
         "nvfp4": "kind::mxf4nvf4.block_scale.block16"}


def case(name, m=256, n=256, steps=2, **meta):
    """A launch of so many steps along K, its result and the reference."""
    format_, block, step = CASES[name]
    k = steps * step
    (a, a_wide), (b, b_wide) = elements((m, k), format_, 1), elements((n, k), format_, 2)
    (sa, sa_wide), (sb, sb_wide) = scales(m, k // block, block, 3), scales(n, k // block, block, 4)
    c = np.full((m, n), np.nan, np.float32)
    made = launch(format_, block, a, packed(sa), b, packed(sb), c, BK=step, **meta)
    return made, c, reference(a_wide, sa_wide, b_wide, sb_wide, block)


@pytest.mark.parametrize("name", CASES)
def test_the_product(name):
    """Sums of so few powers of two are exact."""
    (grid, args, meta), c, wanted = case(name)
    mimw.simulate(block_scaled_gemm, grid, *args, target="sm_100a", races=True, **meta)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_nothing_is_found_over_many_seeds(name):
    (grid, args, meta), _, _ = case(name, m=128, steps=4, programs=1, STAGES=2, PARTS=2)
    report = mimw.check(block_scaled_gemm, grid, *args, seeds=200, target="sm_100a", **meta)
    assert not report.findings, report


@pytest.mark.parametrize("name", CASES)
def test_it_compiles(name):
    """No spills; tensor memory holds two accumulators and, beside them, a table for each operand: 512 columns are taken."""
    (_, _, meta), _, _ = case(name)
    format_, block, step = CASES[name]
    width, element = (step // 2, "u8") if format_ == "e2m1" else (step, "fp8e4nv")
    scale = f"tensordesc<u8[1,1,{step // block // 4},2,256]>"
    signature = {"a_desc": f"tensordesc<{element}[128,{width}]>", "b_desc": f"tensordesc<{element}[128,{width}]>", "sa_desc": scale,
                 "sb_desc": scale, "c_desc": "tensordesc<fp32[128,32]>", "M": "i32", "N": "i32", "K": "i32"}
    found = compile_kernel(block_scaled_gemm, signature, meta, "sm_100a")
    ptx = found.stage("ptx")
    assert KINDS[name] in ptx and "tcgen05.cp.cta_group::1.warpx4.32x128b" in ptx
    assert re.search(r"tcgen05\.alloc\S+ \[%r\d+\], 512;", ptx)
    assert "STL" not in found.stage("sass") and "LDL" not in found.stage("sass"), "registers are spilled"
