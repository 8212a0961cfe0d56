"""Kernels of Gluon's are compiled and checked: with Gluon's own descriptors over tensors of the CPU."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import mimw


@gluon.jit
def copied(source, target, WAITS: gl.constexpr):
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.block_type.nbytes)
    tma.async_load(source, [0, 0], full, tile)
    if WAITS:
        mbarrier.wait(full, 0)
    tma.async_store(target, [0, 0], tile)
    mbarrier.wait(full, 0)
    mbarrier.invalidate(full)
    tma.store_wait(0)


def _report(waits, **how):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    source, target = torch.randn(64, 64).half(), torch.zeros(64, 64).half()
    described = [TensorDescriptor.from_tensor(one, [64, 64], layout) for one in (source, target)]
    return mimw.check_compiled(copied, (1, ), *described, WAITS=waits, target="sm_90a", expected={"target": source.numpy()},
                               seeds=2, rounds=False, **how)


def test_a_copy_by_tma_is_right():
    report = _report(True)
    assert report.ok and "'target' as expected" in report.results


def test_a_store_of_what_has_not_landed_is_found():
    """The line is the author's."""
    (finding, *_) = _report(False, shrink=False).findings
    lines = [line.strip() for line in open(__file__)]
    assert finding.kind in ("CopyReadEarly", "UnwrittenRead", "DataRace")
    assert lines[finding.sites[0].line - 1].startswith("tma.async_")


def test_a_descriptor_that_is_no_descriptor_of_gluons_is_refused():
    """Its layout is part of the kernel's type."""
    with pytest.raises(Exception, match="layout"):
        one = mimw.TensorDescriptor.from_tensor(torch.zeros(64, 64).half(), [64, 64])
        mimw.check_compiled(copied, (1, ), one, one, WAITS=True, target="sm_90a")
