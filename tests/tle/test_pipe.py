"""Pipes: every transport, placement and argument, on both machines; what is recorded; what is refused."""

import numpy as np
import pytest

import mimw
from tests.compiling import to_ttgir
from tests.kernels import pipe_forms, pipes


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_ring(machine, capacity):
    x = np.random.default_rng(0).standard_normal((7 * 32, 64)).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(pipes.ring, (1, ), mimw.TensorDescriptor.from_tensor(x, [32, 64]), y, 7, 32, 64, capacity)
    assert (y == x * 2).all()


@pytest.mark.parametrize("apart", [True, False])
def test_one_partition(machine, apart):
    n, tiles = 64, 4
    x = np.random.default_rng(0).standard_normal((2 * tiles, n)).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(pipes.whole_cta, (1, ), x, y, n, tiles, apart)
    used = tiles if apart else 2 * tiles
    assert (y[:used] == x[:used] * np.arange(1, used + 1, dtype=np.float32)[:, None]).all() and not y[used:].any()


@pytest.mark.parametrize("wide", [False, True])
def test_three_transports_two_readers(machine, wide):
    steps, n, m = 5, 16, 32
    x = np.random.default_rng(0).standard_normal((steps * n, m)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    machine.launch(pipes.fan_out, (1, ), mimw.TensorDescriptor.from_tensor(x, [n, m]), x, y, z, steps, n, m, wide)
    numbers = (np.arange(n)[None, :] + np.arange(steps)[:, None]).reshape(-1, 1).astype(np.float32)
    assert (y == x + numbers).all() and (z == -x).all()


@pytest.mark.parametrize("capacity", [1, 3])
@pytest.mark.parametrize("limit", [0, 2, 7])
def test_close(machine, limit, capacity):
    x = np.arange(7 * 32, dtype=np.int32).reshape(7, 32) + 1
    y, count = np.zeros_like(x), np.full(1, -1, np.int32)
    machine.launch(pipes.closed, (1, ), x, y, count, limit, 32, capacity)
    assert count[0] == limit and (y[:limit] == x[:limit]).all() and not y[limit:].any()


@pytest.mark.parametrize("odd", [0, 1])
def test_one_shot_regions_and_conditional_copies(machine, odd):
    steps, n, m = 3, 16, 64
    x = np.random.default_rng(0).integers(-8, 8, (2 * steps * n, m)).astype(np.float16)
    q, y = np.random.default_rng(1).integers(-8, 8, (n, m)).astype(np.float16), np.zeros_like(x)
    describe = mimw.TensorDescriptor.from_tensor
    machine.launch(pipe_forms.staged, (1, ), describe(q, [n, m]), describe(x, [n, m]), y, steps, odd, n, m)
    wanted = [q + (x[k * n:(k + 1) * n] if k % 2 == odd else 0) for k in range(2 * steps)]
    assert (y == np.concatenate(wanted)).all()


@pytest.mark.parametrize("which", [0, 1])
def test_stage_and_phase_come_from_the_number(machine, which):
    x = np.arange(64, dtype=np.float32)
    y = np.zeros_like(x)
    machine.launch(pipes.second_only, (1, ), x, y, which, 64)
    assert (y == x).all()


def test_ends_travel(machine):
    x = np.arange(7 * 64, dtype=np.int32).reshape(7, 64)
    y = np.zeros_like(x)
    machine.launch(pipe_forms.chain, (1, ), x, y, 7, 64)
    assert (y == x + 5).all()


def test_between_tasks(machine):
    x = np.arange(7 * 64, dtype=np.int32).reshape(7, 64)
    y = np.zeros_like(x)
    machine.launch(pipe_forms.in_tasks, (1, ), x, y, 7, 64)
    assert (y == x).all()


def test_products_of_slots(machine):
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 4, shape).astype(np.float16) for shape in ((64, 192), (192, 64)))
    c = np.zeros((64, 64), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    machine.launch(pipe_forms.product, (1, ), describe(a, [64, 32]), describe(b, [32, 64]), c, 6, 64, 64, 32)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


def test_a_slot_goes_back_when_its_products_are_over():
    signature = {"a_desc": "tensordesc<fp16[64,32]>", "b_desc": "tensordesc<fp16[32,64]>", "c_ptr": "*fp32", "steps": "i32"}
    ttgir = to_ttgir(pipe_forms.product, signature, dict(M=64, N=64, K=32)).stage("ttgir")
    loop = ttgir[ttgir.index("warp_group_dot "):]
    assert 0 < loop.index("warp_group_dot_wait") < loop.index("arrive_barrier")


def f(*shape):
    return np.random.default_rng(0).integers(-4, 4, shape).astype(np.float32)


@pytest.mark.parametrize("case", ["ring", "whole_cta", "fan_out", "closed", "staged", "chain"])
def test_right_under_every_interleaving(case):
    describe, zeros = mimw.TensorDescriptor.from_tensor, np.zeros_like
    x, numbers = f(6 * 16, 64), np.arange(6 * 64, dtype=np.int32).reshape(6, 64)
    half = x.astype(np.float16)
    args = {"ring": (describe(x, [16, 64]), zeros(x), 6, 16, 64, 2), "whole_cta": (x, zeros(x), 64, 3, False),
            "fan_out": (describe(x, [16, 64]), x, zeros(x), zeros(x), 6, 16, 64, False),
            "closed": (numbers, zeros(numbers), np.zeros(1, np.int32), 6, 64, 2),
            "staged": (describe(half[:16].copy(), [16, 64]), describe(half, [16, 64]), zeros(half), 3, 1, 16, 64),
            "chain": (numbers, zeros(numbers), 6, 64)}[case]
    report = mimw.check(getattr(pipe_forms if case in ("staged", "chain") else pipes, case), (1, ), *args, seeds=4, shrink=False)
    assert report.ok, report


def test_a_field_in_parts(machine):
    x = f(3 * 4 * 16, 32)
    y = np.zeros_like(x)
    machine.launch(pipe_forms.in_parts, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, 3, 16, 32)
    assert (y == x).all()


def test_parts_are_copied_as_one_chunk():
    signature = {"x_desc": "tensordesc<fp32[16,32]>", "y_ptr": "*fp32", "steps": "i32"}
    ttgir = to_ttgir(pipe_forms.in_parts, signature, dict(N=16, M=32)).stage("ttgir")
    ttgir = ttgir[:ttgir.index("\n#loc", ttgir.index("tt.func"))]
    assert ttgir.count("barrier_expect") == 1 and "8192" in ttgir[ttgir.index("barrier_expect"):].splitlines()[0]
    assert ttgir.count("async_tma_copy_global_to_local") == 4 and ttgir.count("wait_barrier") == 2


@pytest.mark.parametrize("steps", [1, 5])
def test_started_ahead(machine, steps):
    x = f(steps * 16, 32)
    y = np.zeros_like(x)
    machine.launch(pipe_forms.ahead, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), x, y, steps, 16, 32)
    assert (y == 2 * x).all()
