"""A product one trip later: the same bits as the plain program, and what is refused, with its line."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import triton.language as tl

import mimw
from benchmarks.delays_kernels import dkdv, dq
from mimw.compiler.analysis.shared_rows import shared_rows
from mimw.compiler.orchestrate import delay, late_products
from mimw.compiler.orchestrate.delay import delayed
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.passes.accumulate_dots import accumulate_dots
from mimw.errors import InvalidProgram
from mimw.ir import verify
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.analysis.sliced_programs import Evaluation
from tests.orchestrate.cases import attention, gemm_descriptors, linear_attention
from tests.orchestrate.random_loops import random_loop
from tests.orchestrate.running import changed, recorded, run

D = 16      # rows and columns of every tile here


def line_of(text, nth=0):
    """The line of this file that has the text, and is no question for it."""
    lines = Path(__file__).read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line and "line_of" not in line][nth]


def numbers(rows, seed):
    return np.random.default_rng(seed).standard_normal((rows, D)).astype(np.float16)


def described(array):
    return mimw.TensorDescriptor.from_tensor(array, [D, D])


def bits(launch, outputs, change=None):
    """What a launch leaves in its outputs, which begin as ones."""
    for out in outputs:
        out[...] = 1
    run(change, *launch)
    return [out.tobytes() for out in outputs]


def check_bits(launch, outputs, products):
    """The delayed program has so many late products, and leaves the same bits as the plain one."""
    plain = bits(launch, outputs)
    found = delayed(recorded(*launch))
    assert len(found.late) == products and found.late <= set(found.program.walk())
    assert bits(launch, outputs, lambda program: delayed(program).program) == plain
    return found


# ---- attention ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    """Causal: two such loops behind each other, the first one without trips for the first rows, the second one masked."""
    kernel, grid, args, meta, (out, _) = attention.case(t=64, d=D, bm=32, bn=16, causal=causal)
    found = check_bits((kernel, grid, args, meta), (out, args[4]), 1 + causal)
    said = {(remark.site.line, remark.message) for remark in found.remarks}
    assert said == {(26, "this product is done one trip later, beside that of line 13")} and len(found.remarks) == 1 + causal
    assert not found.apart


def test_rows_of_late_products_can_be_shared_out():
    """What is kept of the trip before is shared out as it was: all products by their rows, keys and values whole."""
    kernel, grid, args, meta, _ = attention.case(t=64, d=D, bm=32, bn=16, causal=True)
    program = delayed(recorded(kernel, grid, args, meta)).program
    axes = shared_rows(program, program.walk(), parts=2, least=16)
    products = program.named("dot")
    assert len(products) == 8 and all(axes[op.result] == axes[op.a] == 0 and op.b not in axes for op in products)


def test_the_late_product_stands_behind_the_first_one_of_its_trip():
    """In the loop: k's load, the first product, v's load of the trip before, the late product, and then the exponents."""
    kernel, grid, args, meta, _ = attention.case(t=64, d=D, bm=32, bn=16)
    found = delayed(recorded(kernel, grid, args, meta))
    (loop, ) = found.program.named("for")
    names = [op.name for op in loop.blocks[0].ops if op.name in ("descriptor_load", "dot", "exp2")]
    assert names == ["descriptor_load", "dot", "descriptor_load", "dot", "exp2", "exp2"]
    (late, ) = found.late
    assert late in loop.blocks[0].ops and late.a in loop.blocks[0].args and late.acc in loop.blocks[0].args


# ---- loops of all kinds -----------------------------------------------------------------------------------------------


@mimw.jit
def rounds(q, k, v, out, low, high, step, FADE: tl.constexpr, D: tl.constexpr):
    x = q.load([0, 0])
    acc = tl.zeros((D, D), tl.float32)
    for row in range(low, high, step):
        s = tl.dot(x, k.load([row, 0]).T)
        if FADE:
            acc = acc * tl.exp2(tl.max(s, 1) * -0.1)[:, None]
        acc = tl.dot(s.to(tl.float16), v.load([row, 0]), acc)
    out.store([0, 0], acc)


@pytest.mark.parametrize("fade", [False, True])
def test_trips_and_steps(fade):
    """0 to 7 trips of one program; starts, steps and ends that do not divide; ends before the start; rows that are not there."""
    out = np.zeros((D, D), np.float32)
    arrays = [described(numbers(rows, seed)) for seed, rows in enumerate((D, 80, 80))]
    seen = set()
    for low, high, step in ((0, 0, 16), (0, 5, 16), (0, 17, 16), (0, 48, 16), (9, 90, 17), (32, 8, 16), (-40, 3, 7),
                            (3, 4, 2**31 - 4)):
        launch = rounds, (1, ), (*arrays, described(out), low, high, step), dict(FADE=fade, D=D)
        check_bits(launch, (out, ), 1)
        seen.add(out.tobytes())
    assert len(seen) == 7       # two have no trip, no others agree


@mimw.jit
def gradient(q, k, v, do, out, n, TWICE: tl.constexpr, D: tl.constexpr):
    """As the loop for dq of attention's backward: two products start a trip, and the last one takes `keys` of its own trip."""
    x, y = q.load([0, 0]), do.load([0, 0])
    acc = tl.zeros((D, D), tl.float32)
    other = tl.zeros((D, D), tl.float32)
    for row in range(0, n, D):
        keys = k.load([row, 0])
        s = tl.dot(x, keys.T)
        dp = tl.dot(y, v.load([row, 0]).T)
        p = tl.exp2(s * 0.1).to(tl.float16)
        if TWICE:
            other = tl.dot(p, v.load([row, 0]), other)
        acc = tl.dot((p * dp).to(tl.float16), keys, acc)
    out.store([0, 0], acc + other)


@pytest.mark.parametrize("trips, twice", [(0, False), (1, True), (2, False), (5, True)])
def test_the_last_of_several_products_is_late(trips, twice):
    """Behind the two with which a trip starts; its operand is loaded in both trips."""
    out = np.zeros((D, D), np.float32)
    arrays = [described(numbers(rows, seed)) for seed, rows in enumerate((D, 80, 80, D))]
    launch = gradient, (1, ), (*arrays, described(out), trips * D), dict(TWICE=twice, D=D, num_warps=4)
    found = check_bits(launch, (out, ), 1)
    (loop, ) = found.program.named("for")
    names = [op.name for op in loop.blocks[0].ops if op.name in ("descriptor_load", "dot", "exp2")]
    assert names[:7] == ["descriptor_load", "dot", "descriptor_load", "dot", "descriptor_load", "dot", "exp2"]
    assert found.late <= {[op for op in loop.blocks[0].ops if op.name == "dot"][2]}


@pytest.mark.long(but=["dq-*"], everywhere=True)
@pytest.mark.parametrize("kernel, meta", [(dkdv, dict(BM=64, BN=128, DV=0, DK=0)), (dq, dict(BM=128, BN=64, DQ=0))])
def test_attention_s_backward_is_proved(kernel, meta):
    rows, describe = 256, mimw.TensorDescriptor.from_tensor
    first, second = meta["BM"], meta["BN"]
    blocks = (first, second, second, first) + ((second, second) if kernel is dkdv else (first, ))
    args = [describe(np.zeros((rows, 64), np.float16), [block, 64]) for block in blocks]
    args += [np.zeros(rows, np.float32), np.zeros(rows, np.float32), 0.1, rows]
    plain = plain_of(kernel, (rows // 128, 1), tuple(args), meta | dict(D=64, num_warps=8), "sm_90a")
    one = written(plain, Plan(consumers=2, stages=2))
    proof = prove(one, seeds=2, limit=10)
    assert one.is_delayed and proof.ok, (one.remarks, proof)


@mimw.jit
def around(q, k, v, out, blocks, skipped, turns, D: tl.constexpr):
    """Loops in a branch of a loop, and in a `while`: all go one trip later."""
    total = tl.zeros((D, D), tl.float32)
    for block in range(blocks):
        acc = tl.zeros((D, D), tl.float32)
        x = q.load([block * D, 0])
        if block != skipped:
            for i in range(block, 3):
                s = tl.dot(x, k.load([i * D, 0]).T)
                acc = tl.dot(s.to(tl.float16), v.load([i * D, 0]), acc)
        else:
            acc += 1.0
        turn = turns
        while turn > 0:
            for i in range(turn):
                s = tl.dot(x, k.load([i * D, 0]).T)
                acc = tl.dot((s * 0.5).to(tl.float16), v.load([i * D, 0]), acc)
            turn -= 1
        total += acc
    out.store([0, 0], total)


def test_loops_inside_of_others():
    out, arrays = np.zeros((D, D), np.float32), [described(numbers(3 * D, seed)) for seed in range(3)]
    check_bits((around, (1, ), (*arrays, described(out), 3, 2, 2), dict(D=D)), (out, ), 2)
    check_bits((around, (1, ), (*arrays, described(out), 2, 7, 0), dict(D=D)), (out, ), 2)


@mimw.jit
def pointers(q, k, v, peaks, out, n, D: tl.constexpr):
    """Pointers that go round the loop, masks, and a store in each trip to an array of its own."""
    at, ks = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :], tl.arange(0, D)
    x = tl.load(q + at)
    k_at, v_at = k + at, v + at
    acc = tl.zeros((D, D), tl.float32)
    peak = tl.full((D, ), -1.0e6, tl.float32)
    for row in range(0, n, D):
        inside = ks[:, None] < n - row
        s = tl.dot(x, tl.load(k_at, mask=inside, other=0.0).T)
        new = tl.maximum(peak, tl.max(s, 1))
        tl.store(peaks + row + ks, new)
        acc = acc * tl.exp2(peak - new)[:, None]
        acc = tl.dot(tl.exp2(s - new[:, None]).to(tl.float16), tl.load(v_at, mask=inside, other=0.0), acc)
        peak = new
        k_at += D * D
        v_at += D * D
    tl.store(out + at, acc)


def test_pointers_that_go_round_the_loop():
    out, peaks = np.zeros((D, D), np.float32), np.zeros(3 * D, np.float32)
    arrays = [numbers(3 * D, seed) for seed in range(3)]
    for n in (40, 7):
        found = check_bits((pointers, (1, ), (*arrays, peaks, out, n), dict(D=D)), (out, peaks), 1)
        assert found.apart == {("v", "peaks")}


# ---- random loops -----------------------------------------------------------------------------------------------------------


def differs(seed):
    """None for a loop that stays as it is; else whether the delayed program is none, or stores anything else."""
    program = random_loop(seed)
    found = delayed(program)
    if not found.late:
        return None
    try:
        verify(found.program)
    except InvalidProgram:
        return True
    plain, other = (Evaluation(one, seed, {}, 0, 1).stored for one in (program, found.program))
    return len(plain) != len(other) or not all(
        np.array_equal(a, b) for one, two in zip(plain, other) for a, b in zip(one, two, strict=True))


def test_random_loops():
    """200 loops of 0 to 3 trips: all that is stored, in its order; most of them have a late product."""
    answers = [differs(seed) for seed in range(200)]
    assert True not in answers, f"seed {answers.index(True)}"
    assert 120 < answers.count(False) < 195


MISTAKES = {
    "sums that are taken too early": (late_products._Search, "_check_order", lambda self, first, product, argument: None),
    "what others take is not done in its own trip": (late_products._Search, "_only", lambda self, again, product: frozenset(again)),
    "nothing is kept but the number of the trip": (late_products._Search, "_taken", lambda self, product: (
        self._remade(product.b)[0], (self.body.args[0], product.a, product.acc))),
    "the late product is always of the first trip": (delay._Writer, "handed_on", lambda self, plan, places, env: delay._now(
        env, (*(plan.loop.blocks[0].yielded[place] for place in places),
              *(plan.loop.start if one is plan.loop.blocks[0].args[0] else one for one in plan.kept)))),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_by_random_loops(mistake, monkeypatch):
    monkeypatch.setattr(*MISTAKES[mistake])
    assert any(map(differs, range(200)))


# ---- refused ----------------------------------------------------------------------------------------------------------


@mimw.jit
def kept(q, k, v, out, n, CASE: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(q + at)
    acc = tl.zeros((D, D), tl.float32)
    extra = tl.zeros((D, D), tl.float32)
    for row in range(0, n, D):
        if CASE == "before":
            tl.store(out + at, acc)
        if CASE == "first":
            x = acc.to(tl.float16)
        if CASE == "carried":
            x = extra.to(tl.float16)
        s = tl.dot(x, tl.load(k + row * D + at).T)
        p = s.to(tl.float16)
        y = tl.load(v + row * D + at)
        if CASE == "right":
            acc = tl.dot(y, p, acc)
        elif CASE == "behind":
            acc += tl.dot(p, y)
        elif CASE == "apart":
            acc = tl.dot(y, x, acc)
        elif CASE == "taken":
            acc = tl.dot(p, y, acc)
            extra += acc
        elif CASE == "branch":
            if row > 0:
                acc = tl.dot(p, y, acc)
        else:
            acc = tl.dot(p, y, acc)
        if CASE == "stored":
            tl.store(v + row * D + at, p)
        if CASE == "atomic":
            tl.atomic_add(out, 1.0)
        if CASE == "barrier":
            tl.debug_barrier()
        if CASE == "shared":
            extra += y
        if CASE == "carried":
            extra = s
        if CASE == "third":
            extra = tl.dot(p, p, extra)
    tl.store(out + at, acc + extra)


@mimw.jit
def until(q, k, v, out, n, D: tl.constexpr):
    at = tl.arange(0, D)[:, None] * D + tl.arange(0, D)[None, :]
    x, row = tl.load(q + at), 0
    acc = tl.zeros((D, D), tl.float32)
    while row < n:
        s = tl.dot(x, tl.load(k + row * D + at).T)
        acc = tl.dot(s.to(tl.float16), tl.load(v + row * D + at), acc)
        row += D
    tl.store(out + at, acc)


@functools.cache
def program_of(case):
    arrays = *(numbers(2 * D, seed) for seed in range(3)), np.zeros((D, D), np.float32)
    kernel, meta = (until, dict(D=D)) if case == "while" else (kept, dict(CASE=case, D=D))
    return recorded(kernel, (1, ), (*arrays, 2 * D), meta)


def _late():
    return line_of("acc = tl.dot(p, y, acc)", 2)


REFUSED = {
    "before": (lambda: line_of("tl.store(out + at, acc)", 1), "it takes the sum of line {late} before the first product"),
    "first": (lambda: line_of("s = tl.dot(x, tl.load(k + row"), "the first product takes a tile that the loop carries"),
    "carried": (lambda: line_of("s = tl.dot(x, tl.load(k + row"), "the first product takes a tile that the loop carries"),
    "right": (lambda: line_of("s = tl.dot(x, tl.load(k + row"), "the product takes on its right what `"),
    "apart": (lambda: line_of("acc = tl.dot(y, x, acc)"), "it takes nothing of the product of line"),
    "taken": (lambda: line_of("extra += acc"), "it takes the product of line"),
    "branch": (lambda: line_of("acc = tl.dot(p, y, acc)", 1), "a product stands in a condition or in a loop of its own"),
    "stored": (lambda: line_of("y = tl.load(v + row"), "`load` may load what `store` of line"),
    "atomic": (lambda: line_of("y = tl.load(v + row"), "`load` is not moved over `atomic_rmw` of line"),
    "barrier": (lambda: line_of("y = tl.load(v + row"), "`load` is not moved over `barrier` of line"),
    "shared": (lambda: line_of("y = tl.load(v + row"), "`load` is taken in its own trip as well, not by line {late} alone"),
    "third": (lambda: line_of("s = tl.dot(x, tl.load(k + row"), "the product takes on its right what `dot` makes"),
    "while": (lambda: line_of("while row < n"), "not of `while`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_line_and_reason(case):
    program = program_of(case)
    found = delayed(program)
    assert found.program is program and not found.late
    (remark, ), (line, why) = found.remarks, REFUSED[case]
    assert remark.site.line == line() and why.format(late=_late()) in remark.message
    assert remark.message.startswith("no product of the loop is done a trip later: ")


def test_nothing_stands_in_the_way_of_the_plain_case():
    assert len(delayed(program_of("none")).late) == 1


def test_a_sum_behind_its_product_is_joined_first():
    program = program_of("behind")
    (remark, ) = delayed(program).remarks
    assert "it takes the product of line" in remark.message
    assert len(delayed(accumulate_dots(program)).late) == 1


def test_loops_without_a_product_that_may_be_late():
    kernel, grid, args, meta, _ = gemm_descriptors.case(m=16, n=16, k=32, bm=16, bn=16, bk=16)
    assert delayed(recorded(kernel, grid, args, meta)).remarks == ()
    kernel, grid, args, meta, _ = linear_attention.case(t=32, c=16, d=16)
    (remark, ) = delayed(recorded(kernel, grid, args, meta)).remarks
    assert "it takes nothing of the product of line" in remark.message


def test_words_of_mimw_are_left_alone():
    program = program_of("none")
    (first, *others) = program.body.ops
    ours = dataclasses.replace(program, body=program.body.with_ops((dataclasses.replace(first, name="uniform"), *others)))
    (remark, ) = delayed(ours).remarks
    assert "function of mimw" in remark.message


# ---- the helper of these tests ----------------------------------------------------------------------------------------


def test_what_is_changed_is_not_kept():
    """A tool that records the kernel sees the changed program while it is asked for, and the author's before and behind."""
    kernel, grid, args, meta, (out, _) = attention.case(t=32, d=D, bm=32, bn=16)
    launch = kernel, grid, args, meta
    plain = bits(launch, (out, ))
    products = [len(mimw.runtime.simulate.prepare(*launch).program.named("dot"))]
    with changed(kernel, lambda program: delayed(program).program):
        out[...] = 1
        products.append(mimw.simulate(kernel, grid, *args, **meta).counts["dot"])
        assert [out.tobytes()] == plain and len(mimw.runtime.simulate.prepare(*launch).program.named("dot")) == 4
    products.append(len(mimw.runtime.simulate.prepare(*launch).program.named("dot")))
    assert products == [2, 4, 2]
