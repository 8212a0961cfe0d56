"""A GEMM in which two halves of eight waves take turns: one multiplies while the other reads from LDS and starts copies.

Compiled for gfx950 as tiles of 256 x 256 x 64, and its loop read; simulated against numpy; wrong in three ways, each of which
`mimw.check` finds. Nothing of it has run on a chip.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly

ALIGNED = {(index, ): [["tt.divisibility", 16]] for index in range(6)}
SIGNATURE = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp16", "M": "i32", "N": "i32", "K": "i32"}


@mimw.jit
def ping_pong(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WAIT: tl.constexpr,
              SLOTS: tl.constexpr, COPY: tl.constexpr):
    """C = A B^T, A (M, K) and B (N, K). Right with WAIT="read", two SLOTS and COPY="read"."""
    a, b = tlx.local_alloc((BM, BK), tl.float16, SLOTS), tlx.local_alloc((BN, BK), tl.float16, SLOTS)
    tile = tl.program_id(0)
    m = tile // (N // BN) * BM + tl.arange(0, BM)
    n = tile % (N // BN) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_at, b_at = a_ptr + m[:, None] * K + k[None, :], b_ptr + n[:, None] * K + k[None, :]
    tlx.async_load(a_at, a[0])
    tlx.async_load(b_at, b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    sums = tl.zeros((BM, BN), tl.float32)
    last = K // BK - 1
    for i in range(last):
        with tlx.warp_pipeline_stage("read", priority=0):
            x, y = tlx.local_load(a[i % SLOTS]), tlx.local_load(tlx.local_trans(b[i % SLOTS]))
            if COPY == "read":
                tlx.async_load(a_at + (i + 1) * BK, a[(i + 1) % SLOTS])
                tlx.async_load(b_at + (i + 1) * BK, b[(i + 1) % SLOTS])
                tlx.async_load_commit_group()
        if WAIT == "read":
            tlx.async_load_wait_group(0)
        with tlx.warp_pipeline_stage("multiply", priority=1):
            if COPY == "multiply":
                tlx.async_load(a_at + (i + 1) * BK, a[(i + 1) % SLOTS])
                tlx.async_load(b_at + (i + 1) * BK, b[(i + 1) % SLOTS])
                tlx.async_load_commit_group()
            sums = tl.dot(x, y, sums)
        if WAIT == "multiply":
            tlx.async_load_wait_group(0)
    sums = tl.dot(tlx.local_load(a[last % SLOTS]), tlx.local_load(tlx.local_trans(b[last % SLOTS])), sums)
    tl.store(c_ptr + m[:, None] * N + n[None, :], sums.to(tl.float16))


def launch(m, n, k, tile=(64, 64, 32), wait="read", slots=2, copy="read"):
    a, b = (np.random.default_rng(seed).standard_normal((rows, k)).astype(np.float16) for seed, rows in enumerate((m, n)))
    c = np.zeros((m, n), np.float16)
    return (m // tile[0] * (n // tile[1]), ), (a, b, c, m, n, k, *tile, wait, slots, copy)


@pytest.mark.parametrize("chip", ["gfx942", "gfx950", "gfx1250"])
@pytest.mark.parametrize("m, n, k", [(64, 64, 32), (128, 64, 64), (64, 192, 160)])
def test_it_multiplies(chip, m, n, k):
    grid, (a, b, c, *numbers) = launch(m, n, k)
    mimw.simulate(ping_pong, grid, a, b, c, *numbers, num_warps=8, target=chip)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-3, atol=2e-3)


def test_a_tile_of_256_by_256_by_64():
    grid, (a, b, c, *numbers) = launch(256, 256, 128, (256, 256, 64))
    mimw.simulate(ping_pong, grid, a, b, c, *numbers, num_warps=8, target="gfx950")
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("change, kind", [
    (dict(wait="multiply"), "CopyReadEarly"),       # each half waits a stage too late for the other one to know
    (dict(slots=1), "SlotReusedEarly"),             # the next chunk overwrites what the other half reads
    (dict(copy="multiply"), "CopyReadEarly")])      # started behind the wait for it
def test_a_change_that_makes_it_wrong_is_found(change, kind):
    grid, args = launch(64, 64, 128, **change)
    report = mimw.check(ping_pong, grid, *args, num_warps=8, target="gfx950", seeds=2, shrink=False, rounds=False)
    assert [one.kind for one in report.findings] == [kind]


def test_check_finds_nothing_in_the_right_one():
    grid, args = launch(64, 64, 128)
    assert mimw.check(ping_pong, grid, *args, num_warps=8, target="gfx950", seeds=2, shrink=False, rounds=False).ok


def loop(assembly: str) -> list[str]:
    """The instructions of the first loop with products, from its label to the branch back."""
    lines = [line.split(";")[0].strip() for line in assembly.splitlines()]
    lines = [line for line in lines if line and not line.startswith((".loc", ".cfi", ".p2align"))]
    labels = {line[:-1]: index for index, line in enumerate(lines) if line.endswith(":")}
    for index, line in enumerate(lines):
        begin = labels.get(line.split()[-1], index) if line.startswith("s_cbranch") else index
        if begin < index and any("mfma" in one for one in lines[begin:index]):
            return lines[begin:index + 1]
    raise AssertionError("no loop")


def test_the_code_of_a_large_tile_on_gfx950():
    """One stage has all reads and copies, the other one nothing but products, 32 in a row, at the higher priority."""
    code = compile_kernel(ping_pong, SIGNATURE, dict(BM=256, BN=256, BK=64, WAIT="read", SLOTS=2, COPY="read"), "gfx950",
                          {"num_warps": 8}, attrs=ALIGNED)
    assembly = code.stage("amdgcn")
    assert code.stage("hsaco") and re.search(r"\.vgpr_spill_count: +0", assembly) and code.metadata.shared == 131072
    body = loop(assembly)
    names = [line.split()[0] for line in body]
    first, second = (index for index, name in enumerate(names) if name == "s_barrier")
    read, multiply = names[:first], names[first + 1:second]
    assert read.count("ds_read_b128") == 24 and read.count("global_load_lds_dwordx4") == 8
    assert multiply[:32] == ["v_mfma_f32_32x32x16_f16"] * 32 and multiply[32:] == ["s_setprio"]
    assert not any("mfma" in name for name in read)
    priorities = [line for line in body if line.startswith("s_setprio")]
    assert priorities == ["s_setprio 1", "s_setprio 0"] and "s_setprio" in names[first - 3:first]
    assert re.search(r"s_waitcnt vmcnt\(0\)", body[first - 1])


@pytest.mark.long(but=["gfx942-*"], everywhere=True)
@pytest.mark.parametrize("chip, tile", [("gfx942", (256, 128, 32)), ("gfx1250", (128, 128, 64))])
def test_the_code_on_other_chips(chip, tile):
    constants = dict(zip(("BM", "BN", "BK"), tile), WAIT="read", SLOTS=2, COPY="read")
    assembly = to_assembly(ping_pong, SIGNATURE, constants, chip, {"num_warps": 8}, attrs=ALIGNED).stage("amdgcn")
    assert re.search(r"\.vgpr_spill_count: +0", assembly) and "s_setprio 1" in assembly
    assert re.search(r"v_mfma_f32_32x32x8_f16" if chip == "gfx942" else r"v_wmma_f32_16x16x32_f16", assembly)


def test_explain_names_the_stages():
    grid, args = launch(64, 64, 128)
    text = str(mimw.explain(ping_pong, grid, *args, num_warps=8, target="gfx950"))
    assert "2 stages, 'read', 'multiply': one half of the waves is a stage ahead of the other half" in text
