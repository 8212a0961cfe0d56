"""Gather and scatter of rows: what they record and refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError

from .harness import Kernel


class Rows:
    """A descriptor of rows, row numbers, a buffer for them and a barrier in one kernel."""

    def __init__(self, arch="sm90", dtype=tl.float16, width=64, count=16):
        self.kernel = Kernel(arch)
        self.desc = self.kernel.descriptor("d", dtype, 1, width)
        self.tile = self.kernel(tlx.local_view, self.kernel(tlx.local_alloc, (count, width), dtype, 2), 0)
        self.bars = self.kernel(tlx.alloc_barriers, 1)
        self.rows = self.kernel.tensor("rows", tl.int32, count)

    def gather(self, **change):
        arguments = dict(desc=self.desc, result=self.tile, x_offsets=self.rows, y_offset=0, barrier=self.bars) | change
        self.kernel(tlx.async_descriptor_gather, **arguments)

    def scatter(self, **change):
        arguments = dict(desc=self.desc, source=self.tile, x_offsets=self.rows, y_offset=0) | change
        self.kernel(tlx.async_descriptor_scatter, **arguments)

    def types(self):
        return [str(value.type) for value in self.kernel.program().body.ops[-1].operands]


BOTH = pytest.mark.parametrize("act, buffer", [("gather", "result"), ("scatter", "source")])


def test_gather():
    rows = Rows()
    rows.gather(y_offset=rows.kernel.tensor("column", tl.int64), pred=rows.kernel.tensor("p", tl.int1))
    assert rows.types() == ["desc<fp16[1, 64]>", "i32[16]", "i32", "barrier", "buffer<fp16[16, 64]>", "i1"]


def test_scatter():
    rows = Rows()
    rows.scatter(y_offset=tl.constexpr(64))
    assert rows.types() == ["desc<fp16[1, 64]>", "i32[16]", "i32", "buffer<fp16[16, 64]>"]


@BOTH
@pytest.mark.parametrize("dtype", [tl.int16, tl.uint8, tl.uint32])
def test_narrower_numbers_become_i32(act, buffer, dtype):
    rows = Rows()
    getattr(rows, act)(x_offsets=rows.kernel.tensor("narrow", dtype, 16))
    assert rows.types()[1] == "i32[16]"


@BOTH
def test_the_row_numbers(act, buffer):
    rows = Rows()
    for wrong, complaint in ((rows.kernel.tensor("a", tl.int64, 16), r"1-D int32 tile, got .*int64.*\nMend: convert"),
                             (rows.kernel.tensor("b", tl.int32, 4, 4), r"\nMend: flatten them"),
                             (rows.kernel.tensor("c", tl.float32, 16), "must be a 1-D int32 tile"),
                             (rows.kernel.tensor("d", tl.int32), "must be a 1-D int32 tile"), ([0, 1], "must be a 1-D int32 tile"),
                             (rows.kernel.tensor("e", tl.int32, 4), r"4 row numbers, and a tile has 8 rows at least\nMend: pad")):
        with pytest.raises(KernelError, match=complaint):
            getattr(rows, act)(x_offsets=wrong)


@BOTH
def test_the_descriptor(act, buffer):
    rows = Rows()
    for wrong, complaint in ((rows.tile, "expected a tensor descriptor"),
                             (rows.kernel.descriptor("a", tl.float16, 16, 64), r"block is \[16, 64\].*block_shape=\[1, 64\]"),
                             (rows.kernel.descriptor("b", tl.float16, 64), r"block is \[64\]"),
                             (rows.kernel.descriptor("c", tl.int64, 1, 64), "have 64 bits"),
                             (rows.kernel.descriptor("d", tl.float16, 1, 8), "8 elements x 2 bytes = 16 bytes.*BLOCK_Y 16 or more"),
                             (rows.kernel.descriptor("e", tl.int8, 1, 16), "16 bytes, and rows have 32 bytes")):
        with pytest.raises(KernelError, match=f"(?s){complaint}"):
            getattr(rows, act)(desc=wrong)


@BOTH
def test_the_buffer(act, buffer):
    rows = Rows()
    with pytest.raises(KernelError, match=r"shape \[16, 64\]; 8 row numbers and rows of 64 elements make \[8, 64\]"):
        getattr(rows, act)(x_offsets=rows.kernel.tensor("few", tl.int32, 8))
    with pytest.raises(KernelError, match="the buffer holds fp32, the descriptor fp16"):
        wide = rows.kernel(tlx.local_view, rows.kernel(tlx.local_alloc, (16, 64), tl.float32, 1), 0)
        getattr(rows, act)(**{buffer: wide})
    with pytest.raises(KernelError, match=rf"array of 3\nMend: index it: `{buffer}\[i\]`"):
        getattr(rows, act)(**{buffer: rows.kernel(tlx.local_alloc, (16, 64), tl.float16, 3)})


@BOTH
def test_the_column(act, buffer):
    rows = Rows()
    with pytest.raises(KernelError, match="`y_offset` must be an int or an integer scalar"):
        getattr(rows, act)(y_offset=rows.rows)


@BOTH
def test_the_chip(act, buffer):
    rows = Rows("sm80")
    with pytest.raises(TargetError, match=f"tlx.async_descriptor_{act} needs sm_90 or newer"):
        getattr(rows, act)()
    with pytest.raises(NotImplementedError, match=f"tlx.async_descriptor_{act} is not available on ascend_910b"):
        getattr(Rows("ascend_910b"), act)()
    getattr(Rows("gfx942"), act)()      # by pointers
