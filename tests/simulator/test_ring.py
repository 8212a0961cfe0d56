"""Two tasks and a ring of buffers between them, right and with one rule broken at a time."""

import numpy as np
import pytest

from mimw.errors import BarrierMisuse, Deadlock, UnwrittenRead

from .programs import HostTensor, line_of
from .sketches import gemm, ring

SEEDS = range(6)


def run_ring(seed=0, rows=6, **switches):
    x, y = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64), np.zeros((rows, 64), np.float32)
    run = ring(**switches).run(HostTensor(x), y, seed=seed, trace=True)
    return x, y, run


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_the_ring_works_in_every_interleaving(seed, stages):
    x, y, _ = run_ring(seed, stages=stages)
    assert y.tolist() == (2 * x).tolist()


def test_a_seed_is_one_run():
    """The same events in the same order; as waits take the time of what they wait for, one timeline for all seeds."""
    traces = [run_ring(seed)[2].trace.events for seed in (1, 1, 2, 3)]
    assert traces[0] == traces[1]
    timelines = [sorted((e.lane, e.start, e.end, e.kind, e.label) for e in events) for events in traces]
    assert timelines[0] == timelines[2] == timelines[3]


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_before_the_copy_has_landed(seed):
    with pytest.raises(UnwrittenRead) as caught:
        run_ring(seed, wait_full=False)
    assert 'k.op("local_load"' in line_of(caught.value)


def test_a_copy_on_its_way_is_named_with_its_barrier():
    with pytest.raises(UnwrittenRead) as caught:
        for seed in range(20):
            run_ring(seed, wait_full=False)
    text = str(caught.value)
    assert "task 'consumer' of CTA (0, 0, 0)" in text and "'tiles'[0], element (0, 0)" in text


def test_a_producer_that_does_not_wait_overruns():
    found = set()
    for seed in range(12):
        try:
            x, y, _ = run_ring(seed, wait_empty=False, blocks=6)
            found.add("wrong" if (y != 2 * x).any() else "lucky")
        except (UnwrittenRead, BarrierMisuse, Deadlock) as error:
            found.add(type(error).__name__)
    assert found - {"lucky"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_arrive_is_a_deadlock_that_names_both_sides(seed):
    with pytest.raises(Deadlock) as caught:
        run_ring(seed, arrive_empty=False)
    text = str(caught.value)
    assert "task 'producer' of CTA (0, 0, 0) waits" in text
    assert "parity 0 of 'empty'[0]: it is in phase 0 (parity 0) with 0 of 1 arrivals" in text
    assert "nothing in the kernel arrives on that barrier" in text
    assert "an arrival and its bytes could have come from barrier_expect" in text
    assert "in task 'producer', which is blocked at" in text
    assert len(caught.value.sites) == 2


def test_a_wrong_parity_for_the_empty_slot_blocks_both():
    with pytest.raises(Deadlock) as caught:
        run_ring(empty_parity=0)
    assert "an arrival could have come from barrier_arrive" in str(caught.value)


def test_a_wrong_parity_for_the_full_slot_reads_too_early():
    with pytest.raises(UnwrittenRead):
        run_ring(full_parity=1)


def test_fewer_bytes_than_come():
    with pytest.raises(BarrierMisuse, match="64 bytes more than it expects"):
        run_ring(bytes_short=64)


def test_more_bytes_than_come():
    with pytest.raises(Deadlock, match="1 of 1 arrivals and 64 bytes pending"):
        run_ring(bytes_short=-64)


def test_checks_can_be_turned_off():
    x, y = np.ones((6, 64), np.float32), np.zeros((6, 64), np.float32)
    ring(wait_full=False, arrive_empty=False, stages=6).run(HostTensor(x), y, check_unwritten=False)
    assert np.isnan(y[0]).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_gemm(seed):
    import ml_dtypes
    bf16 = ml_dtypes.bfloat16
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=(rows, 256)).astype(bf16) for rows in (256, 512))
    c = np.zeros((256, 512), bf16)
    run = gemm(depth=256).run(HostTensor(a), HostTensor(b), HostTensor(c), grid=(2, 2), seed=seed)
    np.testing.assert_allclose(c.astype(float), a.astype(float) @ b.astype(float).T, rtol=2e-2, atol=1e-2)
    assert run.counts["async_dot"] == 2 * 4 * 4
