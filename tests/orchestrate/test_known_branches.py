"""Branches whose condition is a number in the kernel's text: what generated kernels ask of the shape that they are made for."""

import numpy as np
import triton.language as tl

import mimw
from mimw.compiler.orchestrate.known_branches import with_known_branches
from mimw.compiler.orchestrate.plan import Plan
from mimw.ir import verify
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written


@mimw.jit
def generated(a, b, c, SIZE: tl.constexpr, BK: tl.constexpr):
    M = 64
    N = 32
    if (M == 0) or (N == 0):
        return
    desc = tl.make_tensor_descriptor(a, [M, SIZE], [SIZE, 1], [64, BK])
    acc = tl.zeros((64, 32), tl.float32)
    for k in range(0, SIZE, BK):
        right = tl.load(b + (k + tl.arange(0, BK))[:, None] * N + tl.arange(0, 32)[None, :])
        acc = tl.dot(desc.load([0, k]), right, acc)
    if N % 32 == 0:
        scale = 2.0
    else:
        scale = 3.0
    tl.store(c + tl.arange(0, 64)[:, None] * N + tl.arange(0, 32)[None, :], acc * scale)


@mimw.jit
def asks(x, n):
    if n > 0:
        tl.store(x, 1.0)


def case(size=256):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, size), (size, 32)))
    return generated, (1, ), (a, b, np.zeros((64, 32), np.float32)), dict(SIZE=size, BK=64, num_warps=4)


def test_a_kernel_that_returns_early_for_no_elements_is_orchestrated():
    kernel, grid, args, meta = case()
    plain = plain_of(kernel, grid, args, meta, "sm_90a")
    verify(plain.program)
    assert plain.launch.recorded.named("if") and not plain.program.named("if")
    one = written(plain, Plan(stages=2))
    assert one.kernel is not None and not one.made.program.named("if"), one.remarks
    proof = prove(one, seeds=1, limit=5)
    assert proof.ok, proof


def test_the_taken_branch_is_what_runs():
    kernel, grid, args, meta = case()
    mimw.simulate(kernel, grid, *args, **meta)
    np.testing.assert_allclose(args[2], 2 * args[0].astype(np.float32) @ args[1].astype(np.float32), rtol=1e-2, atol=1e-1)
    program = plain_of(kernel, grid, args, meta, "sm_90a").program
    assert [op.value for op in program.named("constant") if op.value in (2.0, 3.0)] == [2.0]


def test_what_an_argument_decides_stays_a_branch():
    program = plain_of(asks, (1, ), (np.zeros(1, np.float32), 5), {}, "sm_90a").launch.recorded
    assert with_known_branches(program) is program
