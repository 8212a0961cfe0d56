"""Loops as published kernels have them: rows that wrap around, masks along both axes of a batch, differences for remainders.

Each kernel is ours, in the style of those that benchmarks/orchestrate_others.py takes from packages; each shape of loop here
was once refused, raised an exception, or had pipes that did not fit.
"""

from dataclasses import replace

import numpy as np
import pytest
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.remainders import with_remainders
from mimw.ir import verify
from mimw.tools.orchestrate import orchestrate
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written

PLAN = Plan(stages=2)


@mimw.jit
def wrapped(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr):
    """A GEMM of which rows and columns behind the last ones are others."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    if HOW == "remainder":
        in_a, in_b = rows % M, cols % N
    else:
        in_a, in_b = tl.where(rows < M, rows, 0), tl.where((cols < N) & (cols >= 0), cols, 0)
    in_a = tl.max_contiguous(tl.multiple_of(in_a, BM), BM)
    a_at = a + in_a[:, None] * K + ks[None, :]
    b_at = b + ks[:, None] * N + in_b[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a_at, mask=ks[None, :] < K - k * BK, other=0.0)
        y = tl.load(b_at, mask=ks[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(x, y)
        a_at += BK
        b_at += BK * N
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))


@mimw.jit
def chunks(x, b, states, chunk, width, size, batch, length, step_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """states = x^T b of each chunk of a sequence: masks along both axes, in a batch whose number is a difference."""
    pid = tl.program_id(1)
    pid_c = pid // batch
    pid_b = pid - pid_c * batch
    x += pid_b * length * width + pid_c * chunk * width
    b += pid_b * length * size + pid_c * chunk * size
    ms, ns, ks = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    x_at, b_at = x + ms[:, None] + ks[None, :] * width, b + ks[:, None] * size + ns[None, :]
    limit = min(chunk, length - pid_c * chunk)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, limit, BK):
        left = tl.load(x_at, mask=(ms[:, None] < width) & (ks[None, :] < limit - k), other=0.0)
        right = tl.load(b_at, mask=(ks[:, None] < limit - k) & (ns[None, :] < size), other=0.0)
        acc += tl.dot((left.to(tl.float32) * 0.5).to(tl.float16), right)
        x_at += BK * width
        b_at += BK * size
    at = states + pid_b * step_c + pid_c * batch * step_c + ms[:, None] * size + ns[None, :]
    tl.store(at, acc, mask=(ms[:, None] < width) & (ns[None, :] < size))


@mimw.jit
def gathered(a, b, c, ids, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The rows of A are those that an array names."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    named = tl.load(ids + rows)
    cols, ks = tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + named[:, None] * K + k + ks[None, :], mask=named[:, None] < M, other=0.0)  # gathers
        acc += tl.dot(x, tl.load(b + (k + ks)[:, None] * N + (cols % N)[None, :]))
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(tl.float16))


@mimw.jit
def states(k, v, h, T, BT: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    """h = k^T v: the first tile of a round is turned in front of the second one's load."""
    ks, vs, ts = tl.arange(0, BK), tl.arange(0, BV), tl.arange(0, BT)
    acc = tl.zeros((BK, BV), tl.float32)
    for t in range(0, T, BT):
        x = tl.load(k + ks[:, None] + (t + ts)[None, :] * BK)
        acc += tl.dot(x, tl.load(v + (t + ts)[:, None] * BV + vs[None, :]))
    tl.store(h + ks[:, None] * BV + vs[None, :], acc)


def gemm(how, m=128, n=64, k=320):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float16)
    return wrapped, (-(-m // 64), -(-n // 32)), (a, b, c, m, n, k), dict(BM=64, BN=32, BK=64, HOW=how, num_warps=4)


def of_chunks(batch=2, length=512, chunk=256, width=64, size=32):
    rng = np.random.default_rng(0)
    x, b = (rng.standard_normal((batch, length, last)).astype(np.float16) for last in (width, size))
    states = np.zeros((length // chunk, batch, width, size), np.float32)
    args = (x, b, states, chunk, width, size, batch, length, width * size)
    return chunks, (width // 64, batch * length // chunk), args, dict(BM=64, BN=32, BK=64, num_warps=4)


@mimw.jit
def annotated(x, y, out, step: tl.int64, parts: tl.int32, K, B: tl.constexpr):
    """Types at parameters: of a cache in pages, whose strides are 64 bits wide, and of a number that is 1 and no constant."""
    at = tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K * parts, B):
        left = tl.load(x + at[:, None] * step + (k + at)[None, :], mask=(k + at)[None, :] < K, other=0.0)
        acc = tl.dot(left, tl.load(y + (k + at)[:, None] * B + at[None, :], mask=(k + at)[:, None] < K, other=0.0), acc)
    tl.store(out + at[:, None] * B + at[None, :], acc)


def made(case, plan=PLAN):
    kernel, grid, args, meta = case
    return written(plain_of(kernel, grid, args, meta, "sm_90a"), plan)


@pytest.mark.parametrize("how", ["remainder", "where"])
def test_rows_that_do_not_wrap_around_are_boxes(how):
    one = made(gemm(how))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert [len(ring.loads) for ring in one.made.rings.roots] == [2]
    proof = prove(one, seeds=1, limit=5)
    assert proof.ok and {line["sizes"].get("K") for line in proof.compared} >= {64, 128, 192}, proof


def test_a_launch_whose_rows_wrap_around_takes_the_plain_kernel():
    kernel, grid, args, meta = gemm("remainder")
    found = replace(orchestrate(kernel, grid, *args, plan=PLAN, seeds=1, limit=1, **meta), is_used=True)
    m, n, k = 80, 40, 136
    (_, ragged, others, _) = gemm("remainder", m, n, k)
    assert "wrap around" in found.chosen.written.why_plain(ragged, others, meta)
    found[ragged](*others, **meta)
    np.testing.assert_allclose(others[2], others[0].astype(np.float32) @ others[1].astype(np.float32), rtol=1e-2, atol=1e-1)


@pytest.mark.parametrize("how, reason", [("remainder", "its rows or columns wrap around"), ("where", "takes `select`")])
def test_a_kernel_whose_own_launch_wraps_around_is_refused_with_its_lines(how, reason):
    kernel, grid, args, meta = gemm(how, 80, 48, 320)
    found = orchestrate(kernel, grid, *args, plan=Plan(gathers=False), **meta)
    assert not found.is_used and found.kernel is None
    assert sum(reason in line for line in found.refused) == 2, found.refused


def test_masks_that_cut_nothing_off_are_none():
    one = made(of_chunks())
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert sum(len(ring.loads) for ring in one.made.rings.roots) == 2
    proof = prove(one, seeds=1, limit=5)
    assert proof.ok and proof.compared, proof
    kernel, grid, args, meta = of_chunks(length=480)        # the last chunk is shorter
    assert "cuts something off" in one.why_plain((1, 4), args, meta)


def test_a_difference_is_a_remainder():
    kernel, grid, args, meta = of_chunks()
    program = plain_of(kernel, grid, args, meta, "sm_90a").program
    now = with_remainders(program)
    verify(now)
    assert not program.named("srem") and [op.lhs.name for op in now.named("srem")] == ["pid"]
    assert with_remainders(now) is now


def test_a_pipe_has_fewer_slots_than_the_launch_has_rounds():
    one = made(gemm("remainder"), Plan())
    assert {ring.stages for ring in one.made.rings.roots} == {4}
    assert prove(one, seeds=1, limit=1).ok


def test_another_process_writes_what_was_proved_whatever_it_launches_first():
    one = made(gemm("remainder"), Plan())
    assert (one.plan.assume, one.plan.stages) == (True, 4)
    longer, ragged = made(gemm("remainder", k=640), one.plan), made(gemm("remainder", 80, 48, 320), one.plan)
    assert longer.text.partition("import")[2] == one.text.partition("import")[2]
    assert ragged.kernel is None and "wrap around" in ragged.refused


def test_rows_that_an_array_names_stay_with_the_consumer():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((128, 320), (320, 32)))
    ids = rng.permutation(128).astype(np.int32)
    args = a, b, np.zeros((128, 32), np.float16), ids, 128, 32, 320
    one = made((gathered, (2, ), args, dict(BM=64, BN=32, BK=64, num_warps=4)))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert [len(ring.loads) for ring in one.made.rings.roots] == [1]
    assert any("takes `load`" in remark.message for remark in one.remarks)
    assert prove(one, seeds=1, limit=5).ok


def test_a_tile_is_turned_in_front_of_the_next_load():
    rng = np.random.default_rng(0)
    k, v = (rng.standard_normal((320, width)).astype(np.float16) for width in (64, 32))
    args = k, v, np.zeros((64, 32), np.float32), 320
    one = made((states, (1, ), args, dict(BT=64, BK=64, BV=32, num_warps=4)))
    assert one.kernel is not None, (one.wrong, one.refused, one.remarks)
    assert [len(ring.loads) for ring in one.made.rings.roots] == [2]
    assert prove(one, seeds=1, limit=5).ok


def test_a_mistake_of_the_passes_is_a_line_of_the_report(monkeypatch):
    def wrong(*given):
        raise KeyError("a value that no pass made")

    monkeypatch.setattr("mimw.tools.orchestrate.written.orchestrated", wrong)
    kernel, grid, args, meta = gemm("remainder")
    found = orchestrate(kernel, grid, *args, **meta)
    assert not found.is_used and "a mistake of mimw's: KeyError" in found.because


def test_types_that_parameters_have_stay():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 256)).astype(np.float16), rng.standard_normal((256, 64)).astype(np.float16)
    one = made((annotated, (1, ), (x, y, np.zeros((64, 64), np.float32), 256, 1, 256), dict(B=64, num_warps=4)))
    assert one.kernel is not None and "parts: tl.int32" in one.text.partition("def annotated(")[2].partition(")")[0], one.wrong
    gathers = made((annotated, (1, ), (x, y, np.zeros((64, 64), np.float32), 255, 1, 256), dict(B=64, num_warps=4)))
    assert gathers.kernel is None or "step: tl.int64" in gathers.text, gathers.wrong
