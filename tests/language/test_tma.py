"""Descriptor loads and stores: what they record and refuse."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError
from tests.compiling import to_ttgir

from .harness import Kernel


class Copy:
    """A descriptor, a buffer of its block and a barrier in one kernel."""

    def __init__(self, arch="sm90", dtype=tl.float16):
        self.kernel = Kernel(arch)
        self.desc = self.kernel.descriptor("d", dtype, 64, 32)
        self.ring = self.kernel(tlx.local_alloc, (64, 32), dtype, 2)
        self.tile = self.kernel(tlx.local_view, self.ring, 0)
        self.bars = self.kernel(tlx.alloc_barriers, 1)

    def load(self, **change):
        arguments = dict(desc=self.desc, result=self.tile, offsets=[0, 0], barrier=self.bars) | change
        self.kernel(tlx.async_descriptor_load, **arguments)

    def store(self, **change):
        arguments = dict(desc=self.desc, source=self.tile, offsets=[0, 0]) | change
        self.kernel(tlx.async_descriptor_store, **arguments)

    def last(self):
        return self.kernel.program().body.ops[-1]


@pytest.fixture
def copy():
    return Copy()


def test_load(copy):
    row = copy.kernel.tensor("row", tl.int32)
    copy.load(offsets=tl.tuple([row, tl.constexpr(8)]), eviction_policy="evict_first", pred=copy.kernel.tensor("p", tl.int1))
    op = copy.last()
    assert [str(value.type) for value in op.operands] == ["desc<fp16[64, 32]>", "i32", "i32", "barrier", "buffer<fp16[64, 32]>",
                                                          "i1"]
    assert op.args[5] == ("cache", "none", "evict_first")


def test_store(copy):
    copy.store(store_reduce="add", eviction_policy="evict_last")
    op = copy.last()
    assert [str(value.type) for value in op.operands] == ["desc<fp16[64, 32]>", "i32", "i32", "buffer<fp16[64, 32]>"]
    assert op.args[3:] == (("cache", "none", "evict_last"), "add")


def test_a_slice_may_be_the_destination(copy):
    half = copy.kernel.descriptor("h", tl.float16, 32, 32)
    copy.load(desc=half, result=copy.kernel(tlx.local_slice, copy.tile, [32, 0], [32, 32]))
    assert str(copy.last().operands[4].type) == "buffer<fp16[32, 32]>"


@pytest.mark.parametrize("act", ["load", "store"])
def test_offsets_must_have_the_rank(copy, act):
    with pytest.raises(AssertionError, match="^expected 2 offsets, but got 1$"):
        getattr(copy, act)(offsets=[0])


@pytest.mark.parametrize("act", ["load", "store"])
def test_eviction_policies(copy, act):
    with pytest.raises(AssertionError, match="eviction_policy must be one of"):
        getattr(copy, act)(eviction_policy="evict_normal")


@pytest.mark.parametrize("act, buffer", [("load", "result"), ("store", "source")])
def test_the_buffer_must_be_one_block(copy, act, buffer):
    kernel, run = copy.kernel, getattr(copy, act)
    with pytest.raises(KernelError, match=r"the buffer has shape \[32, 32\], the descriptor's block \[64, 32\]"):
        run(**{buffer: kernel(tlx.local_slice, copy.tile, [0, 0], [32, 32])})
    with pytest.raises(KernelError, match="the buffer holds fp32, the descriptor fp16"):
        run(**{buffer: kernel(tlx.local_view, kernel(tlx.local_alloc, (64, 32), tl.float32, 1), 0)})
    with pytest.raises(KernelError, match=rf"array of 1\nMend: index it: `{buffer}\[0\]`"):
        run(**{buffer: kernel(tlx.local_alloc, (64, 32), tl.float16, 1)})


@pytest.mark.parametrize("act", ["load", "store"])
def test_only_descriptors(copy, act):
    with pytest.raises(AssertionError, match="expected a tensor descriptor"):
        getattr(copy, act)(desc=copy.tile)


def test_a_barrier_array_must_be_indexed(copy):
    with pytest.raises(KernelError, match="array of 2"):
        copy.load(barrier=copy.kernel(tlx.alloc_barriers, 2))


def test_offsets_are_32_bit(copy):
    with pytest.raises(AssertionError, match="32-bit"):
        copy.load(offsets=[0, copy.kernel.tensor("wide", tl.int64)])


def test_reductions(copy):
    with pytest.raises(AssertionError, match="store_reduce must be one of"):
        copy.store(store_reduce="mul")
    with pytest.raises(KernelError, match="the hardware cannot xor fp16"):
        copy.store(store_reduce="xor")
    whole = Copy(dtype=tl.int32)
    for name in ("add", "min", "max", "and", "or", "xor"):
        whole.store(store_reduce=name)
        assert whole.last().args[4] == name


def test_two_ctas_are_blackwells(copy):
    with pytest.raises(AssertionError, match=r"async_descriptor_load\(two_ctas=True\) is only available on Blackwell"):
        copy.load(two_ctas=True)


def test_multicast(copy):
    copy.load(multicast_targets=[0, copy.kernel.tensor("rank", tl.int32)])
    assert copy.last().name == "tma_load_multicast" and len(copy.last().args[4]) == 2
    copy.load(multicast_targets=[], two_ctas=False)
    assert copy.last().name == "tma_load"


def test_store_wait(copy):
    copy.kernel(tlx.async_descriptor_store_wait, tl.constexpr(2))
    assert copy.kernel.text()[-1] == "tma_store_wait pending=2"
    with pytest.raises(ValueError, match="pendings must be a constexpr int >= 0"):
        copy.kernel(tlx.async_descriptor_store_wait, -1)


@mimw.jit
def by_what_an_older_chip_has(x, y, z, N: tl.constexpr):
    """What the mends below name."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tlx.local_alloc((N, N), tl.float16, 1), tlx.local_alloc((N, N), tl.float16, 1)
    tlx.async_load(x + at, a[0])
    tlx.async_load(y + at, b[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tlx.local_store(a[0], tl.dot(tlx.local_load(a[0]), tlx.local_load(b[0])).to(tl.float16))
    tl.store(z + at, tlx.local_load(a[0]))


def test_the_mends_for_an_older_chip_work_there():
    x, y = np.eye(16, dtype=np.float16), np.arange(256, dtype=np.float16).reshape(16, 16)
    z = np.zeros_like(y)
    mimw.simulate(by_what_an_older_chip_has, (1, ), x, y, z, 16, target="sm_80")
    assert (z == y).all()
    compiled = to_ttgir(by_what_an_older_chip_has, {name: "*fp16" for name in "xyz"}, {"N": 16}, "sm_80")
    assert "tt.dot" in compiled.stages["ttgir"] and "async_load" in compiled.stages["ir"]


def test_targets():
    for act, mend in (("load", "copy from pointers by tlx.async_load, "), ("store", "store through pointers: tl.store")):
        with pytest.raises(TargetError, match="needs sm_90 or newer, but this kernel is compiled for sm_80") as refused:
            getattr(Copy("sm80"), act)()
        assert refused.match(f"Mend: on sm_80 {mend}.*; or compile for a chip that has it, such as sm_90a")
        assert refused.value.hint in str(refused.value)
    with pytest.raises(NotImplementedError, match="^tlx.async_descriptor_load is not available on ascend_910b$"):
        Copy("ascend_910b").load()
    for arch in ("sm_90a", "sm100", "gfx942", "gfx950", "gfx1250"):     # on AMD they become copies by pointers, in the passes
        modern = Copy(arch)
        modern.load()
        assert modern.last().name == "tma_load"
