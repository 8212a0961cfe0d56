"""Scales joined where the caller allows it: within a computed bound, proved against the rewritten program; mistakes are found."""

import json
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.compiler.orchestrate import reassociate, rounding_bounds
from mimw.compiler.orchestrate.needed_ops import needed
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.scales import small_scales
from mimw.compiler.orchestrate.scales_ahead import scales_ahead
from mimw.compiler.orchestrate.small_loads import loaded_ahead
from mimw.tools.orchestrate import plain as plain_module
from mimw.tools.orchestrate.comparisons import Pair
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import _run, prove
from mimw.tools.orchestrate.within import within
from mimw.tools.orchestrate.written import written
from tests.orchestrate.cases import gemm_descriptors, gemm_fp8_blocks
from tests.orchestrate.running import run

ROWS = 16


@triton.jit
def scaled(a_desc, b_desc, out, rows_at, columns_at, one, limit, K, FORM: tl.constexpr, D: tl.constexpr):
    """Products with scales of rows, of columns, and a number for all; what becomes of the sum by FORM."""
    at = tl.arange(0, D)
    acc = tl.zeros((D, D), tl.float32)
    for k in range(0, K, D):
        product = tl.dot(a_desc.load([0, k]), b_desc.load([k, 0]))
        rows, number = tl.load(rows_at + at), tl.load(one + k // D)
        if FORM == "columns":
            acc += product * rows[:, None] * tl.load(columns_at + at)[None, :]
        elif FORM == "three":
            acc += number * (product * rows[:, None] * tl.load(columns_at + at)[None, :])
        elif FORM == "branch":
            if k < limit:
                acc = tl.where(at[:, None] < limit, acc - product * rows[:, None] * number, -acc) * 1.5
        else:
            acc += product * rows[:, None] * number
    if FORM == "exp":
        acc = tl.exp(acc)
    if FORM == "divided":
        acc = tl.maximum(acc / tl.load(columns_at + at)[None, :], 0.0)
    tl.store(out + at[:, None] * D + at[None, :], acc.to(out.dtype.element_ty))


def case(form, dtype=np.float32, k=8 * ROWS):
    rng, describe = np.random.default_rng(0), mimw.TensorDescriptor.from_tensor
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((ROWS, k), (k, ROWS)))
    vectors = (rng.standard_normal(size).astype(np.float32) for size in (ROWS, ROWS, k // ROWS))
    args = describe(a, [ROWS, ROWS]), describe(b, [ROWS, ROWS]), np.zeros((ROWS, ROWS), dtype), *vectors, 5 * ROWS // 2, k
    return scaled, (1, ), args, dict(FORM=form, D=ROWS, num_warps=4)


def allowed(kernel, grid, args, meta, *_):
    return plain_of(kernel, grid, args, meta, "sm_90a", (), True)


def compared(plain):
    return within(plain, [Pair({}, plain.launch.grid, (), ())], _run)


@pytest.mark.parametrize("form, dtype", [("", np.float32), ("three", np.float32), ("branch", np.float32), ("divided", np.float32),
                                         ("three", ml_dtypes.float8_e4m3fn)])
def test_results_are_within_their_bounds(form, dtype):
    (line, ), wrong = compared(allowed(*case(form, dtype)))
    assert not wrong
    if dtype is np.float32:     # of 8 bits nearly all round to the same
        assert line["others"] and 0 < line["apart"] and 0.01 < line["of_bound"] <= 1


def test_an_eighth_of_the_bound_is_too_little():
    smaller = patch.object(rounding_bounds._Writer, "_stored", lambda self, value: self._times(self._bound(value), 0.125))
    with smaller, patch.object(plain_module, "reassociated", reassociate._reassociated):
        _, wrong = compared(allowed(*case("")))
    assert "roundings are at most" in wrong


@pytest.mark.parametrize("form, said", [
    ("columns", "are not joined: together they are a whole tile of 16 x 16"),
    ("exp", "scales are not joined: `exp` takes what follows from the product")])
def test_what_is_not_joined_is_said(form, said):
    plain = allowed(*case(form))
    assert plain.launch is plain.author and not plain.note
    assert any(said in one.message for one in plain.rewritten.remarks)


def test_nothing_to_join():
    plain = allowed(*gemm_descriptors.case())
    assert plain.launch is plain.author and "nothing to reassociate" in plain.rewritten.remarks[0].message


def test_three_scales_become_two():
    program = allowed(*case("three")).program
    assert len(program.named("fmul")) == 3 and len(plain_of(*case("three"), "sm_90a").program.named("fmul")) == 3


def _other(b, chain, groups):
    first, *others = groups[0]
    return REAL(b, chain, [[first] * len(groups[0])])


REAL = reassociate._joined
MISTAKES = {"a scale is left out": lambda b, chain, groups: REAL(b, chain, [groups[0][1:]]), "another one's scale": _other}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_rewriting_is_found(mistake):
    with patch.object(plain_module, "reassociated", reassociate._reassociated), \
            patch.object(reassociate, "_joined", MISTAKES[mistake]):
        one = written(allowed(*gemm_fp8_blocks.case(k=384)[:4]), Plan(stages=2))
        proof = prove(one, seeds=1, limit=1)
    assert not proof.ok and "not the plain kernel's but for roundings: c[" in proof.wrong and not proof.compared


@pytest.fixture(scope="module")
def both():
    """The same plan without the permission and with it."""
    kernel, grid, args, meta, _ = gemm_fp8_blocks.case(k=512, n=128)
    how = dict(plan=Plan(stages=2, together=2), seeds=2, limit=10, measure=False)
    return [mimw.orchestrate(kernel, grid, *args, target="sm_90a", reassociate=may, **how, **meta) for may in (False, True)]


def test_the_permission_says_so_everywhere(both):
    without, joined = both
    assert without.certificate.ok and not without.certificate.within and "Not the bits" not in without.source
    assert joined.certificate.ok and joined.certificate.within and "Not the bits of the plain kernel" in joined.source
    assert "not the bits of the plain kernel" in str(joined) and "equal to plain" in str(without)
    assert json.loads(joined.certificate.text())["within"][0]["of_bound"] <= 1
    assert any("as `reassociate` allows: not the plain kernel's bits" in line for line in joined.refused)


def test_the_joined_scale_is_small_and_goes_round_alone(both):
    inner = both[1].source.split("for k in")[1]
    lines = [line.split(" = ")[1] for line in inner.splitlines() if "acc = acc + " in line]
    assert len(lines) == 3 and all(line.count("*") == 1 for line in lines)      # a multiply-add an element
    assert sum("[:, None] * " in line for line in inner.splitlines()) >= 2      # of the next two trips
    assert inner.index("acc = acc + ") < inner.index("[:, None] * ")


def test_launches_that_it_is_not_for_take_the_plain_kernel(both):
    kernel, grid, args, meta, (out, _) = gemm_fp8_blocks.case(k=512, n=128)
    joined = both[1]
    overlapping = (*args[:2], args[0].reshape(-1)[:out.size].view(np.uint8), *args[3:])
    assert "overlap" in joined.chosen.written.why_plain(grid, overlapping, meta)
    mimw.simulate(kernel, grid, *args, **meta)
    wanted = out.copy()
    assert not joined.chosen.written.why_plain(grid, args, meta) and wanted.any()


@triton.jit
def joined_by_its_author(a_desc, b_desc, out, rows_at, one, K, D: tl.constexpr):
    """As `scaled`; the author multiplies the scales."""
    at = tl.arange(0, D)
    acc = tl.zeros((D, D), tl.float32)
    for k in range(0, K, D):
        scale = tl.load(rows_at + at + k)[:, None] * tl.full((1, D), tl.load(one + k // D), tl.float32)
        acc += tl.dot(a_desc.load([0, k]), b_desc.load([k, 0])) * scale
    tl.store(out + at[:, None] * D + at[None, :], acc)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_scales_are_small_and_ahead_to_the_last_bit(trips):
    _, _, (a, b, out, _, _, one, *_), _ = case("")
    rows = np.random.default_rng(1).standard_normal(9 * ROWS).astype(np.float32)
    launch = joined_by_its_author, (1, ), (a, b, out, rows, one, trips * ROWS), dict(D=ROWS, num_warps=4)
    run(None, *launch)
    wanted = out.copy()
    out[...] = -1
    program, _ = run(lambda program: scales_ahead(loaded_ahead(needed(small_scales(program))).program), *launch)
    assert out.tobytes() == wanted.tobytes() and (not trips or wanted.any())
    loop, = program.named("for")
    assert [op.result.type.shape for op in loop.walk() if op.name == "fmul"] == [(ROWS, ROWS), (ROWS, 1)]
    assert [str(value.type) for value in loop.blocks[0].args[1:]] == ["fp32[16, 16]", "fp32[16, 1]"]


def test_auto_takes_the_permission():
    kernel = mimw.auto(gemm_fp8_blocks.gemm_fp8_blocks.fn, reassociate=True)
    other = mimw.auto(gemm_fp8_blocks.gemm_fp8_blocks.fn)
    _, grid, args, meta, _ = gemm_fp8_blocks.case()
    one, two = (each._kept_under(plain_of(each.plain, grid, args, meta, reassociate=each.reassociate), False)
                for each in (kernel, other))
    assert one != two and kernel.reassociate and not other.reassociate
