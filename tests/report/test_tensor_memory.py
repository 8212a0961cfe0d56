"""The table of the columns of tensor memory: places, strides, who shares columns with whom, and what an allocation rounds up."""

import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.report import resource_table
from mimw.runtime.compile_kernel import compile_kernel
from mimw.target import target
from tests.analysis.building import Kernel

SM100 = target("sm_100a")


@mimw.jit
def attention_columns(out_ptr, GROUPED: tl.constexpr):
    """S with P and a column of one value a row over it; or two halves of P a slot; sums of their own."""
    spec = tlx.storage_alias_spec(tlx.storage_kind.tmem)
    s = tlx.local_alloc((128, 64), tl.float32, 2, tlx.storage_kind.tmem, reuse=spec)
    if GROUPED:
        p = tlx.local_alloc((128, 32), tl.float16, 4, tlx.storage_kind.tmem, reuse=spec)
        spec.set_buffer_overlap(tlx.reuse_group(s, tlx.reuse_group(p, group_size=2)))
    else:
        p = tlx.local_alloc((128, 64), tl.float16, 2, tlx.storage_kind.tmem, reuse=spec)
        alpha = tlx.local_alloc((128, 1), tl.float32, 2, tlx.storage_kind.tmem, reuse=spec)
        beside = tlx.reuse_group(p, alpha, group_type=tlx.reuse_group_type.distinct)
        spec.set_buffer_overlap(tlx.reuse_group(s, beside))
        tlx.local_store(alpha[1], tl.zeros((128, 1), tl.float32))
    o = tlx.local_alloc((128, 32), tl.float32, 1, tlx.storage_kind.tmem)
    tlx.local_store(s[1], tl.zeros((128, 64), tl.float32))
    tlx.local_store(o[0], tl.zeros((128, 32), tl.float32))
    tlx.local_store(p[1], tl.zeros(p[1].shape, tl.float16))
    at = tl.arange(0, 128)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(out_ptr + at, tlx.local_load(o[0]))


def columns(grouped: bool) -> str:
    """The two parts of the table that are about tensor memory."""
    made = compile_kernel(attention_columns, {"out_ptr": "*fp32"}, {"GROUPED": grouped}, "sm_100a")
    text = resource_table(made.program, made.target)
    return text[text.index("  tensor memory"):text.index("shared memory")]


def test_arrays_that_share_columns():
    assert columns(False) == """\
  tensor memory   tile            buffers   first column   columns   every   columns shared with
  ──────────────────────────────────────────────────────────────────────────────────────────────
  s               fp32[128, 64]         2              0        64      64   p, alpha
  p               fp16[128, 64]         2              0        32      64   s
  alpha           fp32[128, 1]          2             32         1      64   s
  o               fp32[128, 32]         1            128        32       -   -

tensor memory: 256 of 512 columns, 96 of them not used: an allocation is a power of two

"""


def test_several_buffers_in_a_slot():
    assert "p               fp16[128, 32]         4              0        16      16   s\n" in columns(True)


def test_a_kernel_without_tensor_memory():
    assert "tensor memory" not in resource_table(Kernel().program("plain"), SM100)
