"""Rows of shared memory are read 16 bytes at a time, also where nothing but a reduction reads them."""

import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly


@mimw.jit
def spread(x_ptr, y_ptr, N: tl.constexpr):
    """The squared deviations of a row from its mean, summed."""
    row = tlx.local_alloc((N, ), tlx.dtype_of(x_ptr), 1)
    tlx.async_load(x_ptr + tl.arange(0, N), row[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    x = tlx.local_load(row[0]).to(tl.float32)
    x -= tl.sum(x) / N
    tl.store(y_ptr, tl.sum(x * x))


def test_vectors_and_no_conversion():
    attrs = {(0, ): [["tt.divisibility", 16]]}
    compiled = to_assembly(spread, {"x_ptr": "*bf16", "y_ptr": "*fp32"}, dict(N=2048), attrs=attrs)
    assert compiled.stages["ptx"].count("ld.shared.v4.b32") == 2048 // 128 // 8
    assert "ld.shared.b16" not in compiled.stages["ptx"] and "convert_layout" not in compiled.stages["ttgir"]
