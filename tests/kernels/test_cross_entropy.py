"""Cross entropy and the gradient of its logits, in their place, against numpy in fp64: ignored rows, smoothing, clusters, loops."""

import numpy as np
import pytest

from mimw.kernels import softmax
from mimw.kernels.softmax import Configuration

CHOICES = {"rows": Configuration("direct", 1, 256, 1, 4, rows=2), "cluster": Configuration("direct", 4, 64, 1, 4),
           "loops": Configuration("direct", 2, 64, 2, 4)}


def problem(dtype, n=168):
    random = np.random.default_rng(0)
    targets = random.integers(0, n, 7)
    targets[2] = -100
    return (3 * random.standard_normal((7, n), np.float32)).astype(dtype), targets.astype(np.int64)


def expected_of(x, targets, scale, smoothing):
    wide, n = x.astype(np.float64), x.shape[1]
    shifted = wide - wide.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    share = np.full(x.shape, smoothing / n)
    share[np.arange(len(x)), targets * (targets >= 0)] += 1 - smoothing
    there = (targets >= 0)[:, None]
    return -(logs * share * there).sum(1), (np.exp(logs) - share) * scale * there


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype, smoothing, in_place", [(np.float32, 0.0, False), (np.float32, 0.2, True), (np.float16, 0.0, True)])
def test_losses_and_gradients(machine, choice, dtype, smoothing, in_place):
    x, targets = problem(dtype)
    losses, dx = np.full(7, np.nan, np.float32), x if in_place else np.full(x.shape, np.nan, np.float32)
    wanted, gradient = expected_of(x, targets, 0.25, smoothing)
    kernel, grid, args, meta = softmax.cross_entropy_arguments(x, targets, losses, dx, 0.25, smoothing, chosen=CHOICES[choice])
    machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx.astype(np.float64), gradient, rtol=1e-3, atol=1e-6 if dtype == np.float32 else 1e-3)


def test_losses_alone(machine):
    x, targets = problem(np.float32)
    losses = np.full(7, np.nan, np.float32)
    kernel, grid, args, meta = softmax.cross_entropy_arguments(x, targets.astype(np.int32), losses)
    machine.launch(kernel, grid, *args, **meta)
    np.testing.assert_allclose(losses, expected_of(x, targets, 1, 0)[0], rtol=1e-5, atol=1e-5)


def test_clean(check_kernel):
    x, targets = problem(np.float32)
    kernel, grid, args, meta = softmax.cross_entropy_arguments(x, targets, np.zeros(7, np.float32), x, chosen=CHOICES["cluster"])
    check_kernel(kernel, grid, *args, seeds=4, shrink=False, rounds=False, **meta)


@pytest.mark.parametrize("change, text", [
    (dict(targets=np.zeros(6, np.int64)), "targets must be 7 contiguous numbers of int32 or int64"),
    (dict(losses=np.zeros(7, np.float16)), "losses must be 7 contiguous numbers of float32")])
def test_refusals(change, text):
    x, targets = problem(np.float32)
    with pytest.raises(ValueError, match=text):
        softmax.cross_entropy_arguments(**dict(x=x, targets=targets, losses=np.zeros(7, np.float32)) | change)
