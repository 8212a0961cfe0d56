"""Cache hints: what they record and refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError

from .harness import Kernel

F32 = tl.pointer_type(tl.float32)


def ops(kernel):
    return [op for op in kernel.program().body.ops if "prefetch" in op.name]


def test_lines(kernel):
    kernel(tlx.prefetch, kernel.tensor("p", F32))
    kernel(tlx.prefetch, kernel.tensor("q", F32, 64), "L1")
    kernel(tlx.prefetch, kernel.tensor("r", F32, 64, 4), level=tl.constexpr("L2"), mask=kernel.tensor("m", tl.int1, 64, 1))
    assert [(op.args[2], len(op.operands)) for op in ops(kernel)] == [("L2", 1), ("L1", 1), ("L2", 2)]
    assert str(ops(kernel)[2].args[1].type) == "i1[64, 4]"


def test_a_descriptor_itself(kernel):
    kernel(tlx.prefetch, kernel.descriptor("d", tl.float16, 64, 64), level="none of these", tensormap=True)
    assert [op.name for op in ops(kernel)] == ["prefetch_descriptor"]


def test_a_tile(kernel):
    desc = kernel.descriptor("d", tl.float16, 64, 64)
    kernel(tlx.async_descriptor_prefetch_tensor, desc, [0, 64])
    kernel(tlx.async_descriptor_prefetch_tensor, desc, [0, 64], pred=kernel.tensor("p", tl.int1), eviction_policy="evict_first")
    first, second = ops(kernel)
    assert first.args[2:] == (None, ("cache", "none", "evict_normal"))
    assert str(second.args[2].type) == "i1" and second.args[3] == ("cache", "none", "evict_first")


@pytest.mark.parametrize("arguments, error, text", [
    (lambda k: (k.tensor("p", F32), "L3"), AssertionError, "level must be 'L1' or 'L2', got 'L3'"),
    (lambda k: (k.tensor("p", tl.float32), ), KernelError, "a pointer or a block of pointers is needed"),
    (lambda k: (k.tensor("p", F32, 64), "L2", k.tensor("m", tl.int32, 64)), KernelError, "`mask` must be boolean"),
    (lambda k: (k.tensor("p", F32), "L2", None, True), KernelError, "needs a tensor descriptor"),
])
def test_refusals(kernel, arguments, error, text):
    with pytest.raises(error, match=text):
        kernel(tlx.prefetch, *arguments(kernel))


def test_tile_refusals(kernel):
    desc = kernel.descriptor("d", tl.float16, 64, 64)
    with pytest.raises(AssertionError, match="expected 2 offsets, but got 1"):
        kernel(tlx.async_descriptor_prefetch_tensor, desc, [0])
    with pytest.raises(AssertionError, match="eviction_policy must be one of"):
        kernel(tlx.async_descriptor_prefetch_tensor, desc, [0, 0], eviction_policy="never")


def test_other_chips():
    amd, old = Kernel("gfx950"), Kernel("sm80")
    amd(tlx.async_descriptor_prefetch_tensor, amd.descriptor("d", tl.float16, 64, 64), [0, 0])     # nothing is left of it
    with pytest.raises(NotImplementedError, match="tlx.prefetch is not available"):
        amd(tlx.prefetch, amd.tensor("p", F32))
    with pytest.raises(TargetError, match="needs sm_90"):
        old(tlx.prefetch, old.descriptor("d", tl.float16, 64, 64), tensormap=True)
