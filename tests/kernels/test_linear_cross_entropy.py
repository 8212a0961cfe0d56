"""Sums over the logits of a linear layer that are not made, against numpy in fp64: schedules, edges, bias, caps."""

import ml_dtypes
import numpy as np
import pytest

from mimw.kernels import linear_cross_entropy
from mimw.kernels.gemm import Configuration
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly
from tests.lowering.assembly import assembled

TURNS = Configuration(bm=64, bn=64, stages=3, staging=1, ping_pong=True)
TOGETHER = Configuration(bm=128, bn=128, stages=2, staging=1)


def problem(dtype, rows=70, classes=200, hidden=72):
    random = np.random.default_rng(0)
    x, weight = (random.standard_normal(shape).astype(dtype) for shape in ((rows, hidden), (classes, hidden)))
    targets = random.integers(0, classes, rows)
    targets[[3, 5, 6]] = -100, classes, classes + 7       # in the last tile, and behind the last class, too
    return x, weight, targets


def launched(machine, x, weight, targets, chosen, bias=None, cap=None, sums=True):
    """(lse, own, sums)"""
    lse, own, total = np.full((3, len(x)), np.nan, np.float32)
    rooms = np.full((2, linear_cross_entropy.room_for(len(x), *weight.shape, x.itemsize, chosen)), np.nan, np.float32)
    more = dict(sums=total, room_of_sums=rooms[1]) if sums else {}
    for kernel, grid, args, meta in linear_cross_entropy.launches(x, weight.T, targets, lse, own, rooms[0], 2, bias=bias, cap=cap,
                                                                  chosen=chosen, **more):
        machine.launch(kernel, grid, *args, **meta)
    return lse, own, total


@pytest.mark.parametrize("chosen, dtype, cap, classes", [
    (TURNS, ml_dtypes.bfloat16, None, 200), (TOGETHER, np.float16, 5.0, 200), (TURNS, np.float32, 3.0, 192)],
    ids=["in turn", "together", "tf32, whole tiles"])
def test_sums(machine, chosen, dtype, cap, classes):
    x, weight, targets = problem(dtype, classes=classes)
    bias = np.linspace(-2, 2, classes).astype(np.float32) if cap else None
    logits = x.astype(np.float64) @ weight.astype(np.float64).T + (0 if bias is None else bias)
    logits = cap * np.tanh(logits / cap) if cap else logits
    expected = np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1)) + logits.max(1)
    lse, own, sums = launched(machine, x, weight, targets, chosen, bias, cap)
    there = (targets >= 0) & (targets < classes)
    tolerance = dict(rtol=2e-3, atol=2e-2) if dtype == np.float32 else dict(rtol=1e-5, atol=1e-5)      # operands of tf32
    np.testing.assert_allclose(lse, expected, **tolerance)
    np.testing.assert_allclose(own[there], logits[there, targets[there]], **tolerance)
    assert np.isnan(own[~there]).all(), "a target of no class is nobody's"
    np.testing.assert_allclose(sums, logits.sum(1), rtol=tolerance["rtol"], atol=20 * tolerance["atol"])


def test_the_order_of_programs_is_no_matter(check_kernel):
    x, weight, targets = problem(ml_dtypes.bfloat16, 130, 130, 64)
    lse, own = np.empty((2, 130), np.float32)
    room = np.empty(linear_cross_entropy.room_for(130, 130, 64, 2, TURNS), np.float32)
    first, second = linear_cross_entropy.launches(x, weight.T, targets, lse, own, room, 2, chosen=TURNS)
    for kernel, grid, args, meta in (first, second):
        check_kernel(kernel, grid, *args, seeds=2, shrink=False, rounds=False, **meta)


def test_refused():
    x, weight, targets = problem(np.float16)
    lse, own, room = (np.empty(count, np.float32) for count in (70, 70, 279))
    with pytest.raises(ValueError, match="room has 279 elements; the launch needs 280"):
        linear_cross_entropy.launches(x, weight.T, targets, lse, own, room, 2, chosen=TURNS)
    with pytest.raises(ValueError, match="weight is 72 x 200"):
        linear_cross_entropy.launches(np.empty((70, 80), np.float16), weight.T, targets, lse, own, room, 2)


@pytest.mark.long(shown_by="test_cross_entropy.py::test_compiled")
def test_compiled(tmp_path):
    """No spills with the tile that long products take, and powers by one instruction."""
    x, weight = np.empty((1024, 512), ml_dtypes.bfloat16), np.empty((8192, 512), ml_dtypes.bfloat16)
    lse, own = np.empty((2, 1024), np.float32)
    room = np.empty(linear_cross_entropy.room_for(1024, 8192, 512, 2, Configuration()), np.float32)
    kernel, grid, args, meta = linear_cross_entropy.launches(x, weight.T, np.empty(1024, np.int64), lse, own, room, 132, cap=30.0,
                                                             chosen=Configuration())[0]
    found = prepare(kernel, grid, args, meta, "sm_90a").specialisation
    constants = {found.fn.arg_names[first]: value for (first, *_), value in found.constants.items()}
    ptx = to_assembly(found.fn, found.signature, constants, target="sm_90a", options=found.options, attrs=found.attrs).stage("ptx")
    assert "wgmma" in ptx and "ex2.approx" in ptx and "bulk.tensor.2d.global" not in ptx, "no tile is stored"
    assert "0 bytes spill stores" in assembled(ptx, tmp_path)
