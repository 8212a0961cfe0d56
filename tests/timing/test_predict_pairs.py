"""Predicted products of pairs of CTAs: what the tensor cores take by shape, and what bounds a GEMM."""

import pytest

import mimw
from tests.kernels.pair_gemm import launch

CLOCK = 1965        # MHz


def dots(found):
    """(CTA, label, cycles) of all products."""
    return {(event.cta, event.label, round((event.end - event.start) * CLOCK)) for event in found.trace.events
            if event.lane == "tensor core"}


@pytest.mark.parametrize("shape, label, cycles", [
    (dict(m=256, n=256, k=256, bn=256, bk=64, stages=3), "pair: 256 x 256 x 64", 4 * 128),      # as published: 128.7 for K = 16
    (dict(m=128, n=256, k=256, bm=64, bn=256, bk=64), "pair: 128 x 256 x 64", 4 * 64),          # 64.7
    (dict(m=256, n=64, k=256, bn=64, bk=64), "pair: 256 x 64 x 64", 4 * 40),                    # 43.6; operands
], ids=str)
def test_products_of_pairs(shape, label, cycles):
    """Both CTAs' tensor cores work, and each shared memory gives half of B."""
    (kernel, grid, args, meta), _ = launch(**shape)
    found = mimw.predict(kernel, grid, *args, megahertz=CLOCK, **meta)
    assert dots(found) == {(0, label, cycles), (1, label, cycles)}
    waits = {bubble.what for bubble in found.bubbles()}
    assert {"done (tcgen05)", "a load of tensor memory", "full"} <= waits and not args[2].any()


def test_a_pair_is_bound_by_its_products():
    """A CTA on its own loads 96 bytes for a cycle of products of 128 x 256, one of a pair 64."""
    (kernel, grid, args, meta), _ = launch(m=512, n=512, k=16384, bn=256, bk=64, stages=5)
    found = mimw.predict(kernel, grid, *args, **meta)
    assert found.bound.startswith("tensor cores"), found.bound
    assert found.units["inbound"] / found.units["tensor"] == pytest.approx(64 * CLOCK / 197e3, rel=0.02)
