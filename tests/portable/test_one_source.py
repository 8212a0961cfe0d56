"""One source for chips of several vendors: simulated with the rules of each, equal to numpy on all, and compiled.

Nothing here has run on a chip of AMD: a binary comes out, and what stands in its assembly is looked at.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import mimw
from mimw import TensorDescriptor
from mimw.testing import compare
from tests.compiling import stopping
from tests.kernels import portable

AMD = ("gfx942", "gfx950", "gfx1250")
CHIPS = ("sm_90a", "sm_100a", *AMD)
PRODUCT = {"gfx942": "v_mfma_f32_32x32x8_f16", "gfx950": "v_mfma_f32_32x32x16_f16", "gfx1250": "v_wmma_f32_16x16x32_f16"}
COPY = {"gfx942": r"global_load_lds_dword .*", "gfx950": r"global_load_lds_dwordx4", "gfx1250": r"global_load_async_to_lds_b128"}
ARRIVE = {"gfx942": "ds_sub_rtn_u32", "gfx950": "ds_sub_rtn_u32", "gfx1250": "ds_atomic_barrier_arrive_rtn_b64"}


def random(*shape):
    return (np.random.default_rng(0).standard_normal(shape) * 0.3).astype(np.float16)


def described(array, *block):
    return TensorDescriptor.from_tensor(array, list(block))


def softmax(chip):
    x = np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)
    y, powers = np.zeros_like(x), np.exp(x)
    return portable.softmax, (2, ), (described(x, 1, 256), described(y, 1, 256), 3), dict(N=256), [(
        y, powers / powers.sum(1, keepdims=True), 1e-5)], ()


def pipelined_gemm(chip):
    a, b, c = random(72, 144), random(64, 144), np.zeros((72, 64), np.float16)
    return portable.pipelined_gemm, (2, 1), (a, b, c, 72, 64, 144), dict(BM=64, BN=64, BK=64, STAGES=2), [(
        c, a.astype(np.float32) @ b.astype(np.float32).T, 2e-2)], (PRODUCT, COPY)


def producer_consumer_gemm(chip):
    a, b, c = random(136, 136), random(64, 136), np.zeros((136, 64), np.float16)
    args = described(a, 64, 64), described(b, 64, 64), described(c, 64, 64), 136
    return portable.producer_consumer_gemm, (2, 1), args, dict(BM=128, BN=64, BK=64, STAGES=1, WGMMA=chip != "sm_100a"), [(
        c, a.astype(np.float32) @ b.astype(np.float32).T, 2e-2)], (PRODUCT, COPY, ARRIVE)


def attention(chip):
    q, k, v, o = random(64, 64), random(192, 64), random(192, 64), np.zeros((64, 64), np.float16)
    args = *(described(one, 64, 64) for one in (q, k, v, o)), 192, 0.125
    weights = np.exp(0.125 * q.astype(np.float32) @ k.astype(np.float32).T)
    return portable.attention, (1, ), args, dict(BM=64, BN=64, D=64, WGMMA=chip != "sm_100a"), [(
        o, weights / weights.sum(1, keepdims=True) @ v.astype(np.float32), 2e-3)], (PRODUCT, COPY, ARRIVE)


def two_readers(chip):
    x = np.random.default_rng(0).standard_normal((160, 32)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    return portable.two_readers, (1, ), (described(x, 32, 32), y, z, 5), dict(N=32), [(y, x + 1, 0), (z, 2 * x, 0)], (ARRIVE, )


def compaction(chip):
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    y, count = np.zeros_like(x), np.zeros(1, np.int32)
    kept = x[x > 0.25]
    return portable.compaction, (1, ), (x, y, count, 0.25), dict(N=512), [
        (y, np.concatenate((kept, np.zeros(512 - len(kept), np.float32))), 0), (count, np.array([len(kept)]), 0)], ()


CASES = (softmax, pipelined_gemm, producer_consumer_gemm, attention, two_readers, compaction)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("case", CASES)
def test_simulated_with_the_rules_of_each_chip(case, chip):
    kernel, grid, args, meta, wanted, _ = case(chip)
    mimw.simulate(kernel, grid, *args, target=chip, races=True, **meta)
    for found, expected, tolerance in wanted:
        compare(found, expected.astype(found.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.long(but=[f"{case.__name__}-{AMD[(number + offset) % 3]}" for number, case in enumerate(CASES)
                       for offset in range(3 if case is pipelined_gemm else 1)], everywhere=True)
@pytest.mark.parametrize("chip", AMD)
@pytest.mark.parametrize("case", CASES)
def test_compiled_to_a_binary_of_amd(case, chip):
    kernel, grid, args, meta, _, told = case(chip)
    compiled = mimw.compile(kernel, grid, *args, target=chip, **meta)
    assert compiled.hsaco[:4] == b"\x7fELF" and compiled.stack_bytes == 0
    for instruction in told:
        assert re.search(instruction[chip], compiled.amdgcn), instruction[chip]


@pytest.mark.long(but=["*-sm_90a", "softmax-*", "two_readers-*", "compaction-*"], everywhere=True)
@pytest.mark.parametrize("chip", ("sm_90a", "sm_100a"))
@pytest.mark.parametrize("case", CASES)
def test_compiled_for_nvidia(case, chip):
    kernel, grid, args, meta, _, _ = case(chip)
    with stopping():
        compiled = mimw.compile(kernel, grid, *args, target=chip, **meta)
    assert f".target {chip}" in compiled.ptx
