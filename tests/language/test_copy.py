"""cp.async: what it records, how mask and other are shaped, and what it refuses."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError

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
    assert last(kernel) == "%4 = async_load %0, %3, cache_policy=['cache', 'none', 'evict_normal'], is_volatile=False : token"


def test_mask_and_other_take_the_shape_of_the_pointers(kernel, tile, pointers):
    kernel(tlx.async_load, pointers, tile, mask=kernel.tensor("rows", tl.int1, 64, 1), other=1.0, cache_modifier=".cg",
           eviction_policy="evict_last")
    op = kernel.program().body.ops[-1]
    assert [str(value.type) for value in op.operands[2:]] == ["i1[64, 32]", "fp16[64, 32]"]
    assert op.args[4] == ("cache", "cg", "evict_last")


@pytest.mark.parametrize("other", [None, 0, 0.0, tl.constexpr(0)])
def test_zeros_are_what_the_copy_fills_in_by_itself(kernel, tile, pointers, other):
    kernel(tlx.async_load, pointers, tile, mask=kernel.tensor("m", tl.int1, 64, 32), other=other)
    assert kernel.program().body.ops[-1].args[3] is None


def test_minus_zero_is_not_what_it_fills_in(kernel, tile, pointers):
    kernel(tlx.async_load, pointers, tile, mask=kernel.tensor("m", tl.int1, 64, 32), other=-0.0)
    assert kernel.program().body.ops[-1].args[3] is not None


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


@pytest.fixture
def line(kernel):
    """One fp16[64] buffer."""
    return kernel(tlx.local_view, kernel(tlx.local_alloc, (64, ), tl.float16, 1), 0)


@pytest.fixture
def bar(kernel):
    return kernel(kernel(tlx.alloc_barriers, 2).__getitem__, 0)


def test_bulk(kernel, line, bar):
    one, many = kernel.tensor("q", F16), kernel.tensor("r", F16, 64)
    assert isinstance(kernel(tlx.async_load, one, line, bulk=True, barrier=bar), tlx.async_token)
    kernel(tlx.async_load, many, line, bulk=True, bulk_size=64, barrier=bar)
    kernel(tlx.async_load, one, line, bulk=True, bulk_size=kernel.tensor("n", tl.int32), barrier=bar)
    sizes = [op.args[3] for op in kernel.program().body.ops if op.name == "bulk_load"]
    assert sizes[:2] == [128, 64] and str(sizes[2].type) == "i32"


def test_bulk_refusals(kernel, line, bar):
    plane, pointer = kernel(tlx.local_view, kernel(tlx.local_alloc, (8, 8), tl.float16, 1), 0), kernel.tensor("q", F16)
    with pytest.raises(AssertionError, match="1-D buffer"):
        kernel(tlx.async_load, pointer, plane, bulk=True, barrier=bar)
    with pytest.raises(AssertionError, match="bulk_size 256 exceeds the buffer's 128 bytes"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, bulk_size=256)
    with pytest.raises(AssertionError, match="no mask and no other"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, mask=True)
    with pytest.raises(AssertionError, match="needs an mbarrier"):
        kernel(tlx.async_load, pointer, line, bulk=True)
    with pytest.raises(KernelError, match="`bulk_size` makes a bulk copy of 24 bytes, and such copies move multiples of 16"):
        kernel(tlx.async_load, pointer, line, bulk=True, barrier=bar, bulk_size=24)
    with pytest.raises(KernelError, match="a pointer to global memory is needed"):
        kernel(tlx.async_load, kernel.tensor("v", tl.float16, 64), line, bulk=True, barrier=bar)


def test_bulk_needs_hopper(line):
    from .harness import Kernel
    old = Kernel("sm80")
    buffer = old(tlx.local_view, old(tlx.local_alloc, (64, ), tl.float16, 1), 0)
    with pytest.raises(TargetError, match="needs sm_90 or newer"):
        old(tlx.async_store, old.tensor("q", F16), buffer, 64)


def test_bulk_store(kernel, line):
    pointer = kernel.tensor("q", F16)
    kernel(tlx.async_store, pointer, line, 128)
    kernel(tlx.async_store, dst_global_ptr=pointer, src_smem=line, size=kernel.tensor("n", tl.int64))
    assert [op.args[2] if isinstance(op.args[2], int) else str(op.args[2].type) for op in kernel.program().body.ops
            if op.name == "bulk_store"] == [128, "i32"]
    with pytest.raises(AssertionError, match="size 144 exceeds the buffer's 128 bytes"):
        kernel(tlx.async_store, pointer, line, 144)
    with pytest.raises(KernelError, match="must be one pointer"):
        kernel(tlx.async_store, kernel.tensor("r", F16, 64), line, 128)


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
