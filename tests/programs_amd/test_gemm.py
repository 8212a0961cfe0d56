"""Matrix products in the form in which authors publish them for AMD: simulated against numpy, and compiled to a binary."""

import numpy as np
import pytest
import triton

from tests.programs_amd import gemm
from tests.programs_amd.launches import AMD, CDNA, is_product, launch, layouts, matrix_layout, random

OPTIONS = dict(num_warps=4, num_stages=2, waves_per_eu=2, matrix_instr_nonkdim=16, kpack=1)
COPY = {"gfx942": "global_load_lds_dword", "gfx950": "global_load_lds_dwordx4", "gfx1250": "global_load_async_to_lds_b128"}
BUFFER = {"gfx942": "buffer_load_dword", "gfx950": "buffer_load_dwordx4"}
PRODUCT = {"gfx942": "v_mfma_f32_16x16x16_f16", "gfx950": "v_mfma_f32_16x16x32_f16", "gfx1250": "v_wmma_f32_16x16x32_f16"}
SHARED = layouts((64, 64))


def multiplied(kernel, chip, shape, tile, options=OPTIONS, programs=None, turned=False, dtype=np.float16, **meta):
    """The instructions of a launch with (M, N, K), whose product is right; B is (N, K) if `turned`, else (K, N)."""
    m, n, k = shape
    a, b, c = random(m, k), random(n, k, seed=1), np.zeros((m, n), dtype)
    stored = b if turned else np.ascontiguousarray(b.T)
    strides = k, 1, *((1, k) if turned else (n, 1)), n, 1
    grid = programs or (triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]), )
    code = launch(kernel, grid, (a, stored, c, m, n, k, *strides), chip, options,
                  **dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile)), **meta)
    is_product(c, a, b)
    assert code[PRODUCT[chip]]
    return code


def in_turn(chips, first=0):
    """Each layout on one chip: the others are long."""
    return [f"{chips[(first + number) % len(chips)]}-{layout}" for number, layout in enumerate(SHARED)]


@pytest.mark.long(but=["gfx1250-rows", "gfx942-own", "gfx950-bits"], everywhere=True)
@pytest.mark.parametrize("layout", SHARED)
@pytest.mark.parametrize("chip", AMD)
def test_copies_in_flight(chip, layout):
    """The last step of K is a part of one, and so is the last tile of M."""
    code = multiplied(gemm.pipelined, chip, (96, 64, 208), (64, 64, 64), GROUP_M=4, NUM_BUFFERS=2, LAYOUT_A=SHARED[layout],
                      LAYOUT_B=SHARED[layout], EVEN_K=False)
    assert code[COPY[chip]]


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", AMD)
def test_through_registers(chip):
    multiplied(gemm.through_registers, chip, (96, 64, 200), (64, 64, 64), GROUP_M=4, LAYOUT_A=None, LAYOUT_B=None)


@pytest.mark.long(but=["gfx950-swizzled", "gfx942-own", "gfx942-bits"], everywhere=True)
@pytest.mark.parametrize("layout", SHARED)
@pytest.mark.parametrize("chip", CDNA)
def test_scalar_bases(chip, layout):
    code = multiplied(gemm.buffered, chip, (128, 64, 256), (64, 64, 64), turned=True, NUM_BUFFERS=2, LAYOUT_A=SHARED[layout],
                      LAYOUT_B=SHARED[layout], MFMA=matrix_layout(chip, [2, 2]), K_WIDTH=8)
    assert code[BUFFER[chip]] and not code["ds_write_b128"]     # nothing goes through registers, the result neither


@pytest.mark.long(but=["gfx942-swizzled", "gfx950-rows", "gfx950-bits"], everywhere=True)
@pytest.mark.parametrize("layout", SHARED)
@pytest.mark.parametrize("chip", CDNA)
def test_eight_waves(chip, layout):
    code = multiplied(gemm.eight_waves, chip, (64, 128, 256), (64, 64, 64), OPTIONS | dict(num_warps=8), turned=True,
                      LAYOUT_A=SHARED[layout], LAYOUT_B=SHARED[layout])
    assert code[BUFFER[chip]] and code["s_setprio"] >= 2


@pytest.mark.long(but=["gfx942-float16", "gfx950-float32"], everywhere=True)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("chip", CDNA)
def test_split_k(chip, dtype):
    code = multiplied(gemm.split_k, chip, (80, 64, 200), (64, 64, 32), programs=(2, 3), dtype=dtype, SPLIT_K=3)
    assert code["buffer_atomic_add_f32" if dtype == np.float32 else "buffer_atomic_pk_add_f16"]


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", AMD)
def test_a_stream_of_steps(chip):
    """A program's part of the stream begins and ends inside of tiles."""
    multiplied(gemm.persistent, chip, (80, 128, 192), (64, 64, 32), programs=(6, ), dtype=np.float32, NUM_SMS=6, NUM_XCDS=2)
