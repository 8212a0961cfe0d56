"""Matrix products in the form in which authors publish them for AMD: simulated against numpy, and compiled to a binary."""

import re

import numpy as np
import pytest
import triton

import mimw
import mimw.tlx as tlx
from mimw.testing import compare
from tests.programs_amd import gemm

PADDED, SWIZZLED = tlx.padded_shared_layout_encoding, tlx.swizzled_shared_layout_encoding
CDNA, AMD = ("gfx942", "gfx950"), ("gfx942", "gfx950", "gfx1250")


def rows_apart(rows, columns, every=16):
    """A padded layout in which rows `every` apart follow each other in LDS, 512 elements from padding to padding."""
    low = [[0, 1 << bit] for bit in range(columns.bit_length() - 1)]
    high = [bit for bit in range(rows.bit_length() - 1) if 1 << bit >= every]
    order = high + [bit for bit in range(rows.bit_length() - 1) if 1 << bit < every]
    return PADDED.with_bases([[512, 16]], [*low, *([1 << bit, 0] for bit in order)], [rows, columns])


def operands(m, n, k, turned, dtype=np.float16):
    """A, B with its K in rows or, turned, along them, C, and numbers of the launch."""
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float16) for seed, shape in enumerate(((m, k), (k, n))))
    c = np.zeros((m, n), dtype)
    stored = np.ascontiguousarray(b.T).T if turned else b
    strides = [stride // array.itemsize for array in (a, stored, c) for stride in array.strides]
    flat = np.ascontiguousarray(stored.T) if turned else b
    return (a, flat, c, m, n, k, *strides), c, a.astype(np.float32) @ b.astype(np.float32)


def launch(kernel, grid, args, chip, options, **meta):
    mimw.simulate(kernel, grid, *args, target=chip, races=True, **options, **meta)
    return mimw.compile(kernel, grid, *args, target=chip, **options, **meta)


OPTIONS = dict(num_warps=4, num_stages=2, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=1)


def gemm_case(kernel, chip, shape, tile, options, programs=None, turned=False, dtype=np.float16, **meta):
    args, c, wanted = operands(*shape, turned, dtype)
    grid = programs or (triton.cdiv(shape[0], tile[0]) * triton.cdiv(shape[1], tile[1]), )
    compiled = launch(kernel, grid, args, chip, options, **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile)), **meta)
    compare(c, wanted.astype(dtype), rtol=2e-2, atol=2e-2)
    assert compiled.hsaco[:4] == b"\x7fELF" and compiled.stack_bytes == 0
    return compiled.amdgcn


LAYOUTS = {
    "own": (None, None),
    "padded": (PADDED.with_identity_for([[512, 16]], [64, 64]), PADDED.with_identity_for([[512, 16]], [64, 64])),
    "bases": (rows_apart(64, 64), rows_apart(64, 64)),
    "swizzled": (SWIZZLED(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0]), SWIZZLED(8, 1, 8, [1, 0], [1, 1], [1, 1], [1, 1], [1, 0])),
    "swizzled_bits": (tlx.swizzled_layout(3, 3, 3), tlx.swizzled_layout(3, 3, 3)),
}


@pytest.mark.parametrize("chip", AMD)
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_pipelined(chip, layouts):
    left, right = LAYOUTS[layouts]
    code = gemm_case(gemm.pipelined, chip, (96, 64, 200), (64, 64, 64), OPTIONS, GROUP_M=4, NUM_BUFFERS=2, LAYOUT_A=left, LAYOUT_B=right,
                     EVEN_K=False)
    print(re.findall(r"\S*lds\S* .*lds|global_load_lds\w*|global_load_async\w*|ds_write\w*|global_load_dword\w*|v_mfma\w*", code))


@pytest.mark.parametrize("chip", AMD)
def test_through_registers(chip):
    gemm_case(gemm.through_registers, chip, (96, 64, 200), (64, 64, 64), OPTIONS, GROUP_M=4, LAYOUT_A=None, LAYOUT_B=None)


@pytest.mark.parametrize("chip", CDNA)
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_buffered(chip, layouts):
    left, right = LAYOUTS[layouts]
    mfma = tlx.amd_mfma_layout(3 if chip == "gfx942" else 4, [16, 16, 16 if chip == "gfx942" else 32], True, [2, 2])
    gemm_case(gemm.buffered, chip, (128, 64, 256), (64, 64, 64), OPTIONS, turned=True, NUM_BUFFERS=2, LAYOUT_A=left, LAYOUT_B=right, MFMA=mfma,
              K_WIDTH=8)


@pytest.mark.parametrize("chip", CDNA)
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_eight_waves(chip, layouts):
    left, right = LAYOUTS[layouts]
    gemm_case(gemm.eight_waves, chip, (64, 128, 256), (64, 64, 64), OPTIONS | dict(num_warps=8), turned=True, LAYOUT_A=left, LAYOUT_B=right)


@pytest.mark.parametrize("chip", CDNA)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_split_k(chip, dtype):
    gemm_case(gemm.split_k, chip, (80, 64, 200), (64, 64, 32), OPTIONS, programs=(2, 3), dtype=dtype, SPLIT_K=3)


@pytest.mark.parametrize("chip", AMD)
def test_persistent(chip):
    gemm_case(gemm.persistent, chip, (80, 128, 192), (64, 64, 32), OPTIONS, programs=(6, ), dtype=np.float32, NUM_SMS=6, NUM_XCDS=2)
