"""Cross entropy and the gradient of its logits, in their place, against numpy in fp64: ignored rows, smoothing, clusters, rings."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import cross_entropy
from mimw.kernels.cross_entropy import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

CHOICES = {"rows": Configuration("direct", 1, 256, 1, 4, rows=2), "cluster": Configuration("direct", 4, 64, 1, 4),
           "loops": Configuration("direct", 2, 64, 2, 4), "ring": Configuration("ring", 1, 128, 2, 4, 3, 2),
           "ring of pairs": Configuration("ring", 2, 64, 2, 4, 4, 2)}


def problem(dtype, n=168):
    random = np.random.default_rng(0)
    targets = random.integers(0, n, 7)
    targets[2] = -100
    return (3 * random.standard_normal((7, n), np.float32)).astype(dtype), targets.astype(np.int64)


def expected_of(x, targets, scale=1.0, smoothing=0.0, z=0.0, cap=None):
    """(losses, lses, dx)"""
    wide, n = x.astype(np.float64), x.shape[1]
    wide = cap * np.tanh(wide / cap) if cap else wide
    largest = wide.max(1)
    lse = largest + np.log(np.exp(wide - largest[:, None]).sum(1))
    logs = wide - lse[:, None]
    share = np.full(x.shape, smoothing / n)
    share[np.arange(len(x)), targets * (targets >= 0)] += 1 - smoothing
    there = targets >= 0
    gradient = (np.exp(logs) * (1 + 2 * z * lse)[:, None] - share) * scale * there[:, None]
    gradient *= 1 - (wide / cap)**2 if cap else 1
    return (z * lse**2 - (logs * share).sum(1)) * there, lse, gradient


@pytest.mark.parametrize("choice, dtype, smoothing, z, in_place, cap", [
    ("rows", np.float32, 0.2, 0.01, True, 4.0), ("cluster", np.float32, 0.2, 0.0, True, None),
    ("loops", np.float16, 0.0, 0.01, False, None), ("ring", np.float32, 0.2, 0.01, False, None),
    ("ring of pairs", np.float16, 0.0, 0.01, True, None), ("ring of pairs", np.float32, 0.2, 0.0, False, 2.0)])
def test_losses_and_gradients(machine, choice, dtype, smoothing, z, in_place, cap):
    x, targets = problem(dtype)
    losses, lses = np.full((2, 7), np.nan, np.float32)
    dx = x if in_place else np.full(x.shape, np.nan, np.float32)
    expected = expected_of(x, targets, 0.25, smoothing, z, cap)
    count = np.full(1, 2, np.float32)
    kernel, grid, args, meta = cross_entropy.arguments(x, targets, losses, lses, dx, count, 0.5, smoothing, z,
                                                       chosen=CHOICES[choice], room=2, cap=cap)
    machine.launch(kernel, grid, *args, **meta)
    for found, wanted in zip((losses, lses), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.astype(np.float64), expected[2], rtol=1e-3, atol=1e-6 if dtype == np.float32 else 1e-3)


@pytest.mark.long(everywhere=["ring of pairs-bfloat16-0.0-False-None", "ring-float32-0.1-True-2.0"])
@pytest.mark.parametrize("choice, dtype, smoothing, in_place, cap", [
    ("ring", np.float32, 0.1, True, 2.0), ("ring of pairs", ml_dtypes.bfloat16, 0.0, False, None),
    ("ring of pairs", np.float32, 0.1, True, None)])
def test_rows_that_begin_and_end_anywhere(machine, choice, dtype, smoothing, in_place, cap):
    """Targets of all rows but one, in edges, too."""
    x, targets = problem(dtype, 163)
    targets[[0, 1, 3, 4]] = 0, 162, 160, 2
    expected = expected_of(x, targets, 0.5, smoothing, cap=cap)
    losses, lses = np.full((2, 7), np.nan, np.float32)
    dx = x if in_place else np.full(x.shape, np.nan, x.dtype)
    kernel, grid, args, meta = cross_entropy.arguments(x, targets, losses, lses, dx, None, 0.5, smoothing, chosen=CHOICES[choice],
                                                       room=2, cap=cap)
    assert meta["EDGES"]
    machine.launch(kernel, grid, *args, **meta)
    for found, wanted in zip((losses, lses), expected):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.astype(np.float64), expected[2], rtol=1e-2, atol=1e-6 if dtype == np.float32 else 2e-3)


@pytest.mark.parametrize("choice", ["rows", "ring of pairs"])
def test_losses_alone(machine, choice):
    """A target outside of the row has a loss that is no number."""
    x, targets = problem(ml_dtypes.bfloat16)
    targets[4] = 168
    losses, lses = np.full((2, 7), np.nan, np.float32)
    kernel, grid, args, meta = cross_entropy.arguments(x, targets.astype(np.int32), losses, lses, chosen=CHOICES[choice], room=2)
    machine.launch(kernel, grid, *args, **meta)
    assert np.isnan(losses).tolist() == [at == 4 for at in range(7)]
    targets[4] = 0
    wanted, exact, _ = expected_of(x, targets)
    np.testing.assert_allclose(np.delete(losses, 4), np.delete(wanted, 4), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lses, exact, rtol=1e-5)


@pytest.mark.parametrize("one_for_all", [False, True])
def test_gradients_from_the_logarithms(machine, one_for_all):
    x, targets = problem(np.float32)
    dlosses = np.broadcast_to(np.float32(0.5), 7) if one_for_all else np.linspace(-1, 1, 7, dtype=np.float32)
    cap = 3.0 if one_for_all else None
    _, lses, wanted = expected_of(x, targets, dlosses[:, None], 0.1, 0.02, cap)
    kernel, grid, args, meta = cross_entropy.gradient_arguments(x, targets, lses.astype(np.float32), dlosses, x, 0.1, 0.02, cap=cap)
    machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_allclose(x, wanted, rtol=1e-4, atol=1e-6)


def test_rows_multiplied_in_place(machine):
    x, _ = problem(np.float32)
    factors, before = np.array([1, 2, 1, 0, -1, 0.5, 1], np.float32), x.copy()
    kernel, grid, args, meta = cross_entropy.scale_arguments(x, factors, 1)
    machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_array_equal(x, before * factors[:, None])


@pytest.mark.long(but=["ring-0.0-163", "ring of pairs-0.1-165"], everywhere=True)
@pytest.mark.parametrize("choice, smoothing, n", [("cluster", 0.0, 168), ("ring", 0.0, 163), ("ring of pairs", 0.1, 165)])
def test_clean(check_kernel, choice, smoothing, n):
    """In place, where most could go wrong."""
    x, targets = problem(np.float32, n)
    kernel, grid, args, meta = cross_entropy.arguments(x, targets, *np.zeros((2, 7), np.float32), x, smoothing=smoothing,
                                                       chosen=CHOICES[choice], room=2)
    check_kernel(kernel, grid, *args, seeds=4, shrink=False, rounds=False, **meta)


def test_compiled(tmp_path):
    """Wide accesses, and no spills."""
    x = np.empty((8192, 32768), ml_dtypes.bfloat16)
    chosen = Configuration("ring", 16, 2048, 1, 8, 6, 2)     # parts of 4 KB: less to compile
    lines = np.empty((2, 8192), np.float32)
    kernel, grid, args, meta = cross_entropy.arguments(x, np.empty(8192, np.int64), *lines, x, chosen=chosen)
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    ptx = to_assembly(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs).stage("ptx")
    assert "cp.async.bulk.shared" in ptx and "st.global.v4" in ptx and "st.global.b16" not in ptx
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)


@pytest.mark.parametrize("change, text", [
    (dict(targets=np.zeros(6, np.int64)), "targets is 6; for x 7 x 168 it must be 7, .rows."),
    (dict(losses=np.zeros(7, np.float16)), "losses is float16; it may be float32"),
    (dict(count=np.zeros(1, np.int32)), "count is int32; it may be float32"),
    (dict(chosen=CHOICES["ring of pairs"], x=np.zeros((7, 40), np.float32)), "rows of 40 elements do not fit: the ring takes")])
def test_refusals(change, text):
    x, targets = problem(np.float32)
    with pytest.raises(ValueError, match=text):
        cross_entropy.arguments(**dict(x=x, targets=targets, losses=np.zeros(7, np.float32), lses=np.zeros(7, np.float32)) | change)
