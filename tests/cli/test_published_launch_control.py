"""A published manner of writing kernels with cluster launch control, run unchanged: outside of tasks and in them, with and without
clusters, by helpers; what `is_blackwell()` sees decides whether it runs."""

import pytest

from mimw.testing import gpu_available
from tests.processes import mimw

pytestmark = pytest.mark.skipif(gpu_available(), reason="the GPU answers for itself, and has no launch control")

SCRIPT = '''
import triton, triton.language as tl
import triton.language.extra.tlx as tlx
import numpy as np

@triton.jit
def next_tile(ctx, phase, MULTI: tl.constexpr):
    tile = tlx.clc_consumer(ctx, phase, multi_ctas=MULTI)
    return tile, phase ^ 1

@triton.jit
def mul2_clc(x_ptr, y_ptr, z_ptr, n_elements, BLOCK_SIZE: tl.constexpr, MULTI: tl.constexpr, NC: tl.constexpr):
    tile_id = tl.program_id(axis=0)
    clc_phase_producer = 1
    clc_phase_consumer = 0
    clc_context = tlx.clc_create_context(num_stages=1, num_consumers=NC)
    while tile_id != -1:
        tlx.clc_producer(clc_context, clc_phase_producer, multi_ctas=MULTI)
        clc_phase_producer ^= 1
        offsets = tile_id * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n_elements
        tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask), mask=mask)
        tile_id, clc_phase_consumer = next_tile(clc_context, clc_phase_consumer, MULTI)
        if tlx.thread_id(axis=0) == 0:
            tl.device_print("Extracted CtaID", tile_id)

@triton.jit
def ws(x_ptr, y_ptr, z_ptr, n_elements, BLOCK_SIZE: tl.constexpr, MULTI: tl.constexpr, NC: tl.constexpr):
    clc_context = tlx.clc_create_context(num_consumers=NC)
    with tlx.async_tasks():
        with tlx.async_task("default", registers=120):
            tile_id = tl.program_id(axis=0)
            clc_phase_producer = 1
            clc_phase_consumer = 0
            while tile_id != -1:
                tlx.clc_producer(clc_context, p_producer=clc_phase_producer, multi_ctas=MULTI)
                clc_phase_producer ^= 1
                offsets = tile_id * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
                mask = offsets < n_elements
                tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)
                tile_id = tlx.clc_consumer(clc_context, p_consumer=clc_phase_consumer, multi_ctas=MULTI)
                clc_phase_consumer ^= 1
        with tlx.async_task(num_warps=4, registers=96, replicate=2):
            tile_id = tl.program_id(axis=0)
            clc_phase_consumer = 0
            me: tl.constexpr = tlx.async_task_replica_id()
            while tile_id != -1:
                offsets = tile_id * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
                mask = offsets < n_elements
                if me == 0:
                    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)
                tile_id = tlx.clc_consumer(clc_context, p_consumer=clc_phase_consumer, multi_ctas=MULTI)
                clc_phase_consumer ^= 1


def is_blackwell():
    return triton.runtime.driver.active.get_current_target().arch // 10 == 10


if not is_blackwell():
    print("skipped")
    raise SystemExit
n, BLOCK = 1000, 128
for cluster in (1, 2):
    launch = {} if cluster == 1 else dict(ctas_per_cga=(2, 1, 1))
    x, y = (np.random.randn(n).astype(np.float32) for _ in range(2))
    z = np.zeros_like(x)
    compiled = mul2_clc[(8, )](x, y, z, n, BLOCK, cluster > 1, cluster, **launch)
    assert np.allclose(z, x * y)
    print("try_cancel" in compiled.asm["ptx"], "multicast::cluster::all" in compiled.asm["ptx"])
    doubled = np.zeros_like(x)
    compiled = ws[(8, )](x, doubled, z, n, BLOCK, cluster > 1, 3 * cluster, **launch)
    assert (z == x).all() and (doubled == 2 * x).all()
    print("try_cancel" in compiled.asm["ptx"], "multicast::cluster::all" in compiled.asm["ptx"])
'''


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_as_it_is(script):
    done = mimw("run", "--target", "sm_100a", script)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "Extracted" not in line] == ["True False"] * 2 + ["True True"] * 2
    assert sum("Extracted CtaID: -1" in line for line in done.stdout.splitlines()) >= 2


@pytest.mark.parametrize("seed", ["1", "2"])
def test_by_other_seeds(script, seed):
    done = mimw("simulate", "--seed", seed, script, MIMW_TARGET="sm_100a", MIMW_RACES="1")
    assert done.returncode == 0, done.stderr


def test_elsewhere_it_is_skipped(script):
    assert mimw("run", script).stdout == "skipped\n"
