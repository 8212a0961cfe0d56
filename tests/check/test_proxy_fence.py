"""The experiment about the fence at hand-overs: its kernel counts nothing wrong, and its variants differ by the fence alone."""

import numpy as np
import pytest

import mimw
from benchmarks.proxy_fence import SHAPES, TILES, launcher, ring, variant
from mimw.runtime.compile_kernel import compile_kernel

SMALL = dict(R=16, C=16, STAGES=2, READERS=2)


def test_the_kernel_counts_what_is_of_another_tile():
    x = np.repeat(np.arange(TILES, dtype=np.float32), 16)[:, None] * np.ones((1, 16), np.float32)
    wrong, out = np.zeros(1, np.int32), np.zeros(2 * 256, np.float32)
    describe = mimw.TensorDescriptor.from_tensor(x, [16, 16])
    mimw.simulate(ring, 1, describe, wrong, out, 5, CHECK=True, FENCED=True, num_warps=4, **SMALL)
    assert wrong[0] == 0
    x[16 * 3:16 * 3 + 2] = 7.0      # two rows of tile 3, which both readers see once
    mimw.simulate(ring, 1, describe, wrong, out, 5, CHECK=True, FENCED=True, num_warps=4, **SMALL)
    assert wrong[0] == 2 * 2 * 16
    mimw.simulate(ring, 1, describe, wrong, out, 3, CHECK=False, FENCED=True, num_warps=4, **SMALL)
    assert (out == 0 + 1 + 2).all()


def test_the_variants_differ_by_the_fence():
    signature = {"x_desc": "tensordesc<fp32[64,32]>", "wrong_ptr": "*i32", "out_ptr": "*fp32", "steps": "i32"}
    counts = {}
    for fenced in (True, False):
        with variant(fenced):
            compiled = compile_kernel(ring, signature, dict(CHECK=True, FENCED=fenced, **SHAPES[0]), options=dict(num_warps=4))
        lines = [line.strip() for line in compiled.stages["ptx"].splitlines()]
        counts[fenced] = lines.count("fence.proxy.async.shared::cta;")
    assert counts[True] == counts[False] + 1


@pytest.mark.gpu
@pytest.mark.parametrize("fenced", [True, False])
def test_both_variants_run(fenced):
    """Right results are promised of the fenced one only."""
    import torch
    x = torch.arange(TILES, device="cuda", dtype=torch.float32).repeat_interleave(64)[:, None].expand(-1, 32).contiguous()
    wrong, out = torch.zeros(1, device="cuda", dtype=torch.int32), torch.empty(4 * 2048, device="cuda", dtype=torch.float32)
    launcher(x, wrong, out, 100, 4, True, fenced, SHAPES[0])()
    assert not fenced or wrong.item() == 0
