"""Branches that arguments decide, and that make descriptors: taken once, asked of each launch, and left where a program decides."""

from dataclasses import replace

import triton.language as tl

import mimw
from mimw.compiler.orchestrate.branches import taken
from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate import written as module
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written

from .cases import gemm_branches


def plain(kernel=gemm_branches.gemm_branches, **sizes):
    _, grid, args, meta, _ = gemm_branches.case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


def test_its_loads_go_to_a_producer():
    one = written(plain(), Plan(stages=2, persistent=True))
    assert one.plan.branches and one.is_persistent and one.text.count("make_tensor_descriptor") == 3
    assert len(one.made.rings.loads) == 2 and "\n    if " not in one.text.partition("def arguments")[0]
    proof = prove(one, seeds=2, limit=20)
    assert proof.ok and not any(line["different"] for line in proof.compared), proof


def test_each_launch_is_asked_for_what_the_condition_is_about():
    one = written(plain(), Plan(stages=2))
    fits = one.module.fits
    given = list(one.plain.given)
    assert fits((2, 2), *given) == "" and fits((2, 2), *given[:5], 256) == ""
    for place, size in ((3, 100), (4, 120), (5, 200)):
        assert "the branch is not taken" in fits((2, 2), *given[:place], size, *given[place + 1:])


def test_a_launch_that_does_not_take_it_keeps_the_branch():
    one = written(plain(m=100), Plan(stages=2))
    assert one.plan.branches is False and "if " in one.text


@mimw.jit
def by_program(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    if m + BM <= M:
        a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
        c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
        c_desc.store([m, n], acc.to(tl.float16))


@mimw.jit
def by_either(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    if (M == 128) | (N != 128):
        a_desc = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
        b_desc = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
        c_desc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
        c_desc.store([m, n], acc.to(tl.float16))


def test_what_programs_decide_and_other_conditions_stay():
    for kernel in (by_program, by_either):
        program = plain(kernel).program
        assert taken(program).program is program and not taken(program).assumed


def test_a_guard_that_is_left_out_is_seen(monkeypatch):
    """Without what is asked of a launch, sizes that the tile does not divide would go to the kernel by descriptors."""
    monkeypatch.setattr(module, "taken", lambda program: replace(taken(program), assumed=taken(program).assumed[:1]))
    one = written(plain(), Plan(stages=2, branches=True))
    given = list(one.plain.given)
    assert one.module.fits((2, 2), *given[:5], 200) == ""
