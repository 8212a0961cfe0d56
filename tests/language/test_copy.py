"""cp.async: what it records, how mask and other are shaped, and what it refuses."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, NotYet

F16 = tl.pointer_type(tl.float16)


@pytest.fixture
def tile(kernel):
    """One fp16[64, 32] buffer."""
    return kernel(tlx.local_view, kernel(tlx.local_alloc, (64, 32), tl.float16, 1), 0)


@pytest.fixture
def pointers(kernel):
    return kernel.tensor("p", F16, 64, 32)


def last(kernel) -> str:
    return kernel.text()[-1]


def test_plain_load(kernel, tile, pointers):
    token = kernel(tlx.async_load, pointers, tile)
    assert isinstance(token, tlx.async_token)
    assert last(kernel) == "%4 = async_load %0, %3, ['cache', 'none', 'evict_normal'], is_volatile=False : token"


def test_mask_and_other_take_the_shape_of_the_pointers(kernel, tile, pointers):
    kernel(tlx.async_load, pointers, tile, mask=kernel.tensor("rows", tl.int1, 64, 1), other=0.0, cache_modifier=".cg",
           eviction_policy="evict_last")
    op = kernel.program().body.ops[-1]
    assert [str(value.type) for value in op.operands[2:]] == ["i1[64, 32]", "fp16[64, 32]"]
    assert op.args[4] == ("cache", "cg", "evict_last")


@pytest.mark.parametrize("kwargs, error, text", [
    (dict(other=0.0), ValueError, "`other` cannot be provided without `mask`"),
    (dict(cache_modifier=".wt"), ValueError, "cache_modifier must be one of"),
    (dict(eviction_policy="never"), ValueError, "eviction_policy must be one of"),
    (dict(bulk_size=64), AssertionError, "bulk_size needs bulk=True"),
    (dict(barrier=3), AssertionError, "barrier needs bulk=True"),
    (dict(bulk=True), AssertionError, "needs an mbarrier"),
])
def test_refused_arguments(kernel, tile, pointers, kwargs, error, text):
    with pytest.raises(error, match=text):
        kernel(tlx.async_load, pointers, tile, **kwargs)


def test_refused_operands(kernel, tile):
    with pytest.raises(KernelError, match=r"the pointers have shape \[64, 64\], the buffer \[64, 32\]"):
        kernel(tlx.async_load, kernel.tensor("a", F16, 64, 64), tile)
    with pytest.raises(KernelError, match="the pointers are to fp32, the buffer holds fp16"):
        kernel(tlx.async_load, kernel.tensor("b", tl.pointer_type(tl.float32), 64, 32), tile)
    with pytest.raises(KernelError, match="is a single pointer"):
        kernel(tlx.async_load, kernel.tensor("c", F16), tile)
    with pytest.raises(KernelError, match="block tensor of pointers"):
        kernel(tlx.async_load, kernel.tensor("d", tl.float16, 64, 32), tile)
    with pytest.raises(KernelError, match="`mask` must be a tensor of booleans"):
        kernel(tlx.async_load, kernel.tensor("e", F16, 64, 32), tile, mask=kernel.tensor("m", tl.int32, 64, 32))


def test_block_pointers(kernel, tile):
    pointer = tl.tensor(None, tl.pointer_type(tl.block_type(tl.float16, [64, 32])))
    with pytest.raises(NotImplementedError, match="block pointers"):
        kernel(tlx.async_load, pointer, tile)


def test_bulk_is_checked_then_not_yet(kernel):
    line = kernel(tlx.local_view, kernel(tlx.local_alloc, (64, ), tl.float16, 1), 0)
    plane = kernel(tlx.local_view, kernel(tlx.local_alloc, (8, 8), tl.float16, 1), 0)
    bar, pointer = kernel(tlx.alloc_barriers, 1), kernel.tensor("q", F16)
    with pytest.raises(AssertionError, match="1-D buffer"):
        kernel(tlx.async_load, pointer, plane, bulk=True, barrier=bar)
    with pytest.raises(AssertionError, match="bulk_size 256 exceeds the buffer's 128 bytes"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, bulk_size=256)
    with pytest.raises(AssertionError, match="no mask and no other"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, mask=True)
    with pytest.raises(NotYet, match=r"tlx.async_load\(bulk=True\)"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, bulk_size=128)


def test_groups(kernel, tile, pointers):
    token = kernel(tlx.async_load, pointers, tile)
    group = kernel(tlx.async_load_commit_group, tl.tuple([token]))
    kernel(tlx.async_load_wait_group, tl.constexpr(1), [group])
    kernel(tlx.async_load_commit_group)
    kernel(tlx.async_load_wait_group, 0, group)
    assert kernel.text()[-4:] == ["%5 = async_commit [%4] : token", "%6 = async_wait pending=1, [%5] : token",
                                  "%7 = async_commit [] : token", "%8 = async_wait pending=0, [%5] : token"]


def test_group_refusals(kernel):
    for pendings in (-1, 1.5):
        with pytest.raises(ValueError, match="pendings must be a constexpr int >= 0"):
            kernel(tlx.async_load_wait_group, pendings)
    with pytest.raises(KernelError, match="`tokens` must hold async_tokens"):
        kernel(tlx.async_load_commit_group, [3])
