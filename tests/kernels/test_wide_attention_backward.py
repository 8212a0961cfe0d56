"""Gradients of wide heads: widths of keys and values, masks, grouped queries, what changes scores, lengths that no tile divides."""

import ml_dtypes
import numpy as np
import pytest

import mimw
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


def check(machine, *shape, dtype=np.float16, **options):
    arrays, wanted = problem(*shape, dtype=dtype, **options)
    options.pop("sinks", None)
    for kernel, grid, args, meta in backward.launches(*arrays, **options):
        machine.launch(kernel, grid, *args, **meta)
    for name, got, one in zip(("dq", "dk", "dv"), arrays[6:9], wanted):
        error = np.linalg.norm(got.astype(np.float64) - one) / np.linalg.norm(one)
        assert error < ALLOWED[dtype], f"{name}: {error}"


@pytest.mark.long(but=["(1, 2, 1, 70, *", "(1, 1, 1, 65, *"])
@pytest.mark.parametrize("shape, options", [
    ((1, 1, 1, 150, 130, 256), dict(dtype=BF16)), ((1, 2, 1, 70, 200, 192, 128), dict(causal=True)),
    ((1, 2, 1, 3, 3, 136, 72), dict(causal=True)), ((1, 1, 1, 65, 60, 40, 200), dict())], ids=str)
def test_widths(machine, shape, options):
    check(machine, *shape, **options)


@pytest.mark.long(but=["all"])
@pytest.mark.parametrize("name", ["window", "all"])
def test_changed_scores(machine, name):
    shape, options = CHANGES[name]
    check(machine, *shape[:5], 192, 128, **options)


@pytest.mark.parametrize("causal", [False, True])
def test_every_interleaving_is_right(causal):
    arrays, _ = problem(1, 2, 1, 130, 130, 192, 128, causal=causal)
    arrays[9][:] = 0
    for kernel, grid, args, meta in backward.launches(*arrays, causal=causal)[1:]:
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
    arrays = {name: np.zeros(shape, np.float32 if name in ("lse", "rows") else np.float16)
              for name, shape in (shapes | change).items()}
    with pytest.raises(ValueError, match=text):
        backward.launches(**arrays)
