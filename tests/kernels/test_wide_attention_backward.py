"""Gradients of wide heads, by one kernel or by two: widths of keys and values, masks, grouped queries, what changes scores, lengths
that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
from benchmarks.loops import loops
from mimw.kernels import wide_attention_backward as backward
from tests.lowering.assembly import assembled
from tests.lowering.launches import ptx_of

from .test_attention_backward import ALLOWED, CHANGES, reference

BF16 = ml_dtypes.bfloat16


def problem(batch, heads, kv_heads, seq_q, seq_k, dim, of_values=None, dtype=np.float16, causal=False, **options):
    """(the arrays of `launches`, the three gradients in fp64)."""
    random, of_values = np.random.default_rng(0), of_values or dim
    q, k, v, do = (random.standard_normal(shape).astype(dtype) for shape in
                   ((batch, heads, seq_q, dim), (batch, kv_heads, seq_k, dim), (batch, kv_heads, seq_k, of_values),
                    (batch, heads, seq_q, of_values)))
    o, lse, *wanted = reference(q, k, v, do, causal, **options)
    gradients = [np.full_like(x, np.nan) for x in (q, k, v)]
    return [q, k, v, o.astype(dtype), lse.astype(np.float32), do, *gradients,
            np.full(backward.workspace(q), np.nan, np.float32)], wanted


def sums_for(arrays):
    """Room for the sums of dQ, of any content."""
    return np.full(backward.sums_of(arrays[0], arrays[2]), np.nan, np.float32)


def check(machine, *shape, dtype=np.float16, one=False, **options):
    """By one kernel, or by two."""
    arrays, wanted = problem(*shape, dtype=dtype, **options)
    options.pop("sinks", None)
    if one:
        options["sums"] = sums_for(arrays)
    for kernel, grid, args, meta in backward.launches(*arrays, **options):
        machine.launch(kernel, grid, *args, **meta)
    for name, got, one in zip(("dq", "dk", "dv"), arrays[6:9], wanted):
        error = np.linalg.norm(got.astype(np.float64) - one) / np.linalg.norm(one)
        assert error < ALLOWED[dtype], f"{name}: {error}"


@pytest.mark.long(but=["(1, 2, 1, 70, *", "(1, 1, 1, 65, *"], everywhere=True)
@pytest.mark.parametrize("shape, options", [
    ((1, 1, 1, 150, 130, 256), dict(dtype=BF16)), ((1, 2, 1, 70, 200, 192, 128), dict(causal=True)),
    ((1, 2, 1, 3, 3, 136, 72), dict(causal=True)), ((1, 1, 1, 65, 60, 40, 200), dict())], ids=str)
def test_widths(machine, shape, options):
    check(machine, *shape, **options)


@pytest.mark.long(but=["(1, 2, 1, 200, *", "(2, 4, 2, 150, *", "(1, 2, 1, 70, 200, 136*"], everywhere=[
    "(1, 2, 1, 200, *", "(1, 2, 1, 70, 200, 136*"])
@pytest.mark.parametrize("shape, options", [
    ((1, 2, 1, 200, 150, 192, 128), dict()), ((2, 4, 2, 150, 300, 192, 64), dict(causal=True)),
    ((1, 2, 1, 70, 200, 136, 72), dict(causal=True, dtype=BF16)), ((1, 2, 1, 3, 3, 192, 128), dict(causal=True)),
    ((1, 2, 2, 64, 128, 160, 128), dict(dtype=BF16)), ((1, 1, 1, 65, 60, 40, 128), dict()),
    ((2, 2, 2, 70, 300, 192, 128), dict(causal=True, order="lengths"))], ids=str)
def test_one_kernel(machine, shape, options):
    order = {name: value for name, value in options.items() if name == "order"}
    arrays, wanted = problem(*shape, **{name: value for name, value in options.items() if name != "order"})
    causal = options.get("causal", False)
    for kernel, grid, args, meta in backward.launches(*arrays, causal=causal, sums=sums_for(arrays), **order):
        machine.launch(kernel, grid, *args, **meta)
    for name, got, one in zip(("dq", "dk", "dv"), arrays[6:9], wanted):
        error = np.linalg.norm(got.astype(np.float64) - one) / np.linalg.norm(one)
        assert error < ALLOWED[options.get("dtype", np.float16)], f"{name}: {error}"


@pytest.mark.long(but=["all-True"], everywhere=True)
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("name", ["window", "all"])
def test_changed_scores(machine, name, one):
    shape, options = CHANGES[name]
    check(machine, *shape[:5], 192, 128, one=one, **options)


@pytest.mark.long(shown_by="test_attention_backward.py::test_every_interleaving_is_right")
@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_every_interleaving_is_right(causal, one):
    arrays, _ = problem(1, 2, 1, 130, 130, 192, 128, causal=causal)
    arrays[9][:] = 0
    sums = np.zeros(backward.sums_of(arrays[0], arrays[2]), np.float32) if one else None
    for kernel, grid, args, meta in backward.launches(*arrays, causal=causal, sums=sums)[1:2 if one else 3]:
        report = mimw.check(kernel, grid, *args, seeds=2, **meta)
        assert report.ok, str(report)


@pytest.mark.gpu        # needs none, but 6 seconds of a CPU
@pytest.mark.long(but=["256-256-1"])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("dim, of_values", [(256, 256), (192, 128)])
def test_products_overlap_and_nothing_spills(tmp_path, number, dim, of_values):
    arrays, _ = problem(1, 1, 1, 64, 64, dim, of_values)
    kernel, _, args, meta = backward.launches(*arrays)[number]
    said = assembled(ptx_of(kernel, args, meta), tmp_path)
    assert "serialized" not in said and "0 bytes spill stores, 0 bytes spill loads" in said, said


@pytest.mark.gpu        # needs none, but 6 seconds of a CPU
@pytest.mark.parametrize("dtype, causal", [(BF16, False), (BF16, True), (np.float16, False)])
def test_one_kernel_overlaps_and_spills_next_to_nothing(tmp_path, dtype, causal):
    """Two consumers hold 160 registers of sums a thread; what those of bf16 spill they spill beside the loops."""
    arrays, _ = problem(1, 1, 1, 64, 64, 192, 128, dtype=dtype)
    kernel, grid, args, meta = backward.launches(*arrays, causal=causal, sums=sums_for(arrays))[1]
    assert "serialized" not in assembled(ptx_of(kernel, args, meta), tmp_path)
    found = list(loops(mimw.compile(kernel, grid, *args, **meta, target="sm_90a").sass))
    assert [loop.products for loop in found] == [40] * (4 if causal else 2), list(map(str, found))
    assert all(loop.count("STL") + loop.count("LDL") <= (0 if dtype is BF16 else 2) for loop in found), list(map(str, found))


def test_sums_of_what_one_kernel_takes():
    shapes = {(192, 128): (2 * 128 * 192 // 32, 32), (136, 8): (2 * 128 * 192 // 32, 32), (200, 128): None, (192, 136): None}
    for (dim, of_values), wanted in shapes.items():
        q, v = np.zeros((1, 2, 100, dim), np.float16), np.zeros((1, 2, 300, of_values), np.float16)
        assert backward.sums_of(q, v) == wanted and backward.sums_of(q, v, 2.0) is None


@pytest.mark.parametrize("change, text", [
    (dict(v=(1, 2, 128, 264), dv=(1, 2, 128, 264), o=(1, 2, 128, 264), do=(1, 2, 128, 264)),
     "dim is 192 and value_dim is 264; widths may be multiples of 8 up"),
    (dict(v=(1, 1, 128, 128), dv=(1, 1, 128, 128)), "v is 1 x 1 x 128 x 128; for q 1 x 2 x 128 x 192 and k 1 x 2 x 128"),
    (dict(o=(1, 2, 128, 192), do=(1, 2, 128, 192)), "o is 1 x 2 x 128 x 192; .* it must be 1 x 2 x 128 x 128"),
    (dict(dq=(1, 2, 128, 128)), "dq is 1 x 2 x 128 x 128; for q 1 x 2 x 128 x 192 it must be 1 x 2"),
    (dict(lse=(1, 2, 127)), "lse is 1 x 2 x 127; for q 1 x 2 x 128 x 192 it must be 1 x 2 x"),
    (dict(rows=(2, 2, 64)), "rows is 2 x 2 x 64; for q 1 x 2 x 128 x 192 it must be 2 x 2 x"),
])
def test_refusals(change, text):
    wide, values = (1, 2, 128, 192), (1, 2, 128, 128)
    shapes = dict(q=wide, k=wide, v=values, o=values, lse=(1, 2, 128), do=values, dq=wide, dk=wide, dv=values, rows=(2, 2, 128))
    arrays = {name: np.zeros(shape, np.float32 if name in ("lse", "rows", "sums") else np.float16)
              for name, shape in (shapes | change).items()}
    with pytest.raises(ValueError, match=text):
        backward.launches(**arrays)
