"""Predictions for AMD's chips: what bounds a product, attention and a softmax, and what is said of every time."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import TargetError
from mimw.simulator.costs import model
from tests.kernels import waves
from tests.words import test_warp_stages as stages

CHIPS = ("gfx942", "gfx950")


@mimw.jit
def gemm(a, b, c, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SLOTS: tl.constexpr):
    """C = A B^T, both along K: copies straight to LDS, SLOTS - 1 ahead."""
    m, n = tl.program_id(0) // (N // BN), tl.program_id(0) % (N // BN)
    rows, columns, k = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    left, right = tlx.local_alloc((BM, BK), tlx.dtype_of(a), SLOTS), tlx.local_alloc((BN, BK), tlx.dtype_of(b), SLOTS)
    for i in range(SLOTS - 1):
        tlx.async_load(a + rows[:, None] * K + i * BK + k[None, :], left[i])
        tlx.async_load(b + columns[:, None] * K + i * BK + k[None, :], right[i])
        tlx.async_load_commit_group()
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(K // BK):
        tlx.async_load_wait_group(SLOTS - 2)
        acc = tl.dot(tlx.local_load(left[i % SLOTS]), tlx.local_load(tlx.local_trans(right[i % SLOTS])), acc)
        ahead = (i + SLOTS - 1) % (K // BK)
        tlx.async_load(a + rows[:, None] * K + ahead * BK + k[None, :], left[(i + SLOTS - 1) % SLOTS])
        tlx.async_load(b + columns[:, None] * K + ahead * BK + k[None, :], right[(i + SLOTS - 1) % SLOTS])
        tlx.async_load_commit_group()
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.float16))


def product(chip, tile, extent=4096, depth=1024, slots=2, warps=8):
    a, c = np.empty((extent, depth), np.float16), np.empty((extent, extent), np.float16)
    return mimw.predict(gemm, (extent // tile[0] * (extent // tile[1]), ), a, a, c, depth, extent, *tile, slots, num_warps=warps,
                        target=chip, ctas=1)


def test_a_product_of_large_tiles_is_bound_by_the_matrix_cores():
    """256 x 256 x 32 halves: 1024 cycles of four matrix cores; eight waves, two by four, read A four times and B twice, 96 KiB, at
    256 bytes a cycle."""
    found = product("gfx950", (256, 256, 32), slots=3)
    assert found.bound.startswith("matrix cores, busy") and found.residency == (1, "LDS")
    assert found.units["shared"] / found.units["tensor"] == pytest.approx(96 * 1024 / 256 / 1024, rel=0.02)
    assert "matrix cores" in str(found) and "a compute unit" in str(found) and "tensor cores" not in str(found)


@mimw.jit
def sums(x, y, ROUNDS: tl.constexpr, TURNED: tl.constexpr):
    """A tile of LDS, read again and again, by rows or by columns: one element a lane where it is turned."""
    tile = tlx.local_alloc((64, 64), tl.float32, 1, layout=tlx.swizzled_layout.make_default(2))
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(x + at))
    tl.debug_barrier()
    acc = tl.zeros((64, 64), tl.float32)
    for _ in range(ROUNDS):
        acc += tlx.local_load(tlx.local_trans(tile[0])) if TURNED else tlx.local_load(tile[0])
    tl.store(y + tl.program_id(0) * 64 + tl.arange(0, 64), tl.sum(acc, 1))


def summed(chip, turned):
    x = np.empty((64, 64), np.float32)
    programs = 4 * {"gfx942": 304, "gfx950": 256}[chip]         # as many as are there at once
    return mimw.predict(sums, (programs, ), x, np.empty((programs, 64), np.float32), 24, turned, target=chip)


@pytest.mark.long(but=["gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_reads_of_lds_bound_a_kernel_by_bytes_or_by_banks(chip):
    rows, columns = summed(chip, False), summed(chip, True)
    assert rows.bound.startswith("LDS bytes, busy") and "banks" not in rows.units
    assert columns.bound.startswith("LDS banks, busy") and columns.units["banks"] > 10 * columns.units["shared"]


@mimw.jit
def attention(q, k, v, o, KEYS, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """Of one head: keys and values by slots of LDS, softmax online."""
    rows, keys, dims = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    head = tl.program_id(1) * KEYS * D
    queries = tl.load(q + head + rows[:, None] * D + dims[None, :])
    k_tile, v_tile = tlx.local_alloc((BN, D), tlx.dtype_of(k), 1), tlx.local_alloc((BN, D), tlx.dtype_of(v), 1)
    top, total = tl.full((BM, ), float("-inf"), tl.float32), tl.zeros((BM, ), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, KEYS, BN):
        at = head + (start + keys)[:, None] * D + dims[None, :]
        tlx.local_store(k_tile[0], tl.load(k + at))
        tlx.local_store(v_tile[0], tl.load(v + at))
        s = tl.dot(queries, tlx.local_load(tlx.local_trans(k_tile[0]))) * scale
        now = tl.maximum(top, tl.max(s, 1))
        p, shrink = tl.exp2(s - now[:, None]), tl.exp2(top - now)
        total, top = total * shrink + tl.sum(p, 1), now
        acc = tl.dot(p.to(tlx.dtype_of(v)), tlx.local_load(v_tile[0]), acc * shrink[:, None])
    tl.store(o + head + rows[:, None] * D + dims[None, :], (acc / total[:, None]).to(tl.float16))


@pytest.mark.long(but=["gfx942"], everywhere=True)
@pytest.mark.parametrize("chip", CHIPS)
def test_attention_is_not_bound_by_memory(chip):
    """Of 128 queries by 64 keys: two products of 128 x 64 x 128, whose operand P stays in registers."""
    x = np.empty((64, 1024, 128), np.float16)
    found = mimw.predict(attention, (8, 64), x, x, x, x, 1024, 0.1, 128, 64, 128, num_warps=4, target=chip, ctas=2)
    trips, cores = 1024 // 64, {"gfx942": 2048, "gfx950": 1024}[chip]
    ctas = -(-512 // model(chip).sms)
    assert found.units["tensor"] * found.cycles == pytest.approx(ctas * trips * cores, rel=0.02)
    assert found.units["DRAM"] < 0.3 and "HBM" not in found.bound and "matrix cores" in str(found)


@mimw.jit
def softmax(x, y, N: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float32)
    e = tl.exp(row - tl.max(row, 0))
    tl.store(y + at, (e / tl.sum(e, 0)).to(tl.float16))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_softmax_is_bound_by_hbm(chip):
    """Half a GiB in and out, more than the Infinity Cache has: 1 GiB at the data sheet's rate."""
    x, y = np.empty((65536, 4096), np.float16), np.empty((65536, 4096), np.float16)
    found = mimw.predict(softmax, (65536, ), x, y, 4096, target=chip, ctas=4)
    assert "HBM bandwidth" in found.bound and "SM" not in str(found) and "DRAM bandwidth" not in str(found)
    assert found.microseconds >= 0.9 * 2 * x.nbytes / {"gfx942": 5.3e6, "gfx950": 8e6}[chip]     # by 4 of a unit's work-groups


def floats(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


# Launches of what a chip of AMD has in the place of TMA, mbarriers and wgmma: groups of copies, barriers of LDS, tasks, stages.
WORDS = {
    "ring": (waves.ring, (floats(5, 256), floats(5, 256), 5, 256, 2, 4), 4),
    "one wave": (waves.ring, (floats(5, 256), floats(5, 256), 5, 256, 2, 1), 4),
    "regions": (waves.regions, (floats(7, 1024), floats(7, 1024), 1024), 4),
    "by warps": (waves.by_warps, (floats(4, 256), floats(4, 256), 4, 256, 2), 4),
    "by numbers": (waves.by_numbers, (floats(4, 256), floats(4, 256), 4, 256, 2), 4),
    "copies": (waves.copied, (floats(3, 1024, dtype=np.float16), floats(3, 256), 3, 1024, 2), 4),
    "stages": (stages.gemm, (floats(128, 320, dtype=np.float16), floats(128, 320, dtype=np.float16), floats(128, 128), 320,
                             128, 128, 32), 8),
}


@pytest.mark.long(everywhere=True, but=[
    "by numbers-gfx942", "by warps-gfx950", "copies-gfx942", "one wave-gfx942", "regions-gfx950", "ring-gfx950", "stages-gfx942"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", WORDS)
def test_tasks_barriers_groups_and_stages(name, chip):
    """One work-group alone has nothing to hide its latencies behind; its longest wait is named, of tasks with the line."""
    kernel, args, warps = WORDS[name]
    found = mimw.predict(kernel, (1, ), *args, num_warps=warps, target=chip)
    assert found.microseconds > found.launch and found.bound.startswith("latency: no unit is busy more than")
    assert max(found.units.values()) < 1 and found.trace.events
    if name in ("ring", "one wave", "by warps", "copies"):
        assert "the longest waits are of" in found.bound and "waves.py:" in found.bound


@pytest.mark.parametrize("name", WORDS)
def test_of_gfx1250_nothing_is_published(name):
    kernel, args, warps = WORDS[name]
    with pytest.raises(TargetError, match="no cost model of gfx1250: AMD has published no clock"):
        mimw.predict(kernel, (1, ), *args, num_warps=warps, target="gfx1250")


@mimw.jit
def two_tasks(x, REGISTERS: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 1.0)
        with tlx.async_task(num_warps=4, num_regs=REGISTERS):
            tl.store(x + 1, 2.0)


@pytest.mark.parametrize("chip", CHIPS)
def test_requests_for_registers_change_nothing(chip):
    """On AMD's chips no task gets others' registers, so a request says nothing of how many a wave has."""
    asked, not_asked = (mimw.predict(two_tasks, (1, ), floats(2), registers, target=chip) for registers in (40, None))
    assert asked.residency == not_asked.residency and asked.cycles == not_asked.cycles


@mimw.jit
def filled(y, N: tl.constexpr):
    tl.store(y + tl.program_id(0).to(tl.int64) * N + tl.arange(0, N), tl.zeros((N, ), tl.float32))


@pytest.mark.long(but=["100-sm_90a", "512-gfx942", "8192-gfx950"], everywhere=True)
@pytest.mark.parametrize("chip", (*CHIPS, "sm_90a"))
@pytest.mark.parametrize("programs", [100, 512, 8192])
def test_a_launch_ends_when_its_stores_have_left(chip, programs):
    """64 KiB a program; half a GiB in all does not fit into the caches, and is bound by the memory behind them."""
    y = np.empty((programs, 16384), np.float32)
    found = mimw.predict(filled, (programs, ), y, 16384, num_warps=8, target=chip)
    assert max(found.units.values()) <= 1.001
    assert ("DRAM" in found.units) == (y.nbytes > model(chip)["chip.l2_bytes"])
    if programs == 8192:
        assert found.bound.startswith(("HBM bandwidth, busy", "DRAM bandwidth, busy"))
        assert found.microseconds >= y.nbytes / model(chip)["memory.dram_gb_per_s"] / 1e3


def test_pages_and_pictures_say_that_nothing_was_measured(tmp_path):
    found = product("gfx950", (64, 64, 32), extent=256, depth=64, warps=4)
    assert "predicted, never measured" in found.title and found.as_json()["note"] == "predicted, never measured"
    for name in ("gemm.html", "gemm.svg", "gemm.json"):
        found.write(tmp_path / name)
        assert "predicted, never measured" in (tmp_path / name).read_text(), name


def test_gfx1250_has_no_figures_and_says_so():
    with pytest.raises(TargetError, match="no cost model of gfx1250: AMD has published no clock"):
        product("gfx1250", (64, 64, 32), extent=256, warps=4)
