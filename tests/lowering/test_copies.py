"""`async_load` becomes what the chip can do: an asynchronous copy where a thread's piece fits, else registers."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly
from tests.lowering.harness import Case

_DIRECT = {"sm": r"cp\.async\.c[ag]", "gf": r"global_load_(async_to_)?lds"}
_BY_REGISTERS = {"sm": r"ld\.global", "gf": r"global_load_(u?byte|ushort|dword|[ub]\d)"}
_STORES = {"sm": r"st\.shared", "gf": r"ds_(write|store)"}


@mimw.jit
def rows(x, stride, n, MASKED: tl.constexpr):
    tile = tlx.local_alloc((64, 32), tlx.dtype_of(x), 1)
    at = tl.arange(0, 64)[:, None] * stride + tl.arange(0, 32)[None, :]
    if MASKED:
        tlx.async_load(x + at, tile[0], mask=tl.arange(0, 64)[:, None] < n)
    else:
        tlx.async_load(x + at, tile[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(x + at, tlx.local_load(tile[0]))


@mimw.jit
def columns(x, stride, n, MASKED: tl.constexpr):
    tile = tlx.local_alloc((64, 32), tlx.dtype_of(x), 1)
    at = tl.arange(0, 64)[:, None] + tl.arange(0, 32)[None, :] * stride
    tlx.async_load(x + at, tile[0])
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(x + at, tlx.local_load(tile[0]))


def assembly(kernel, target: str, dtype: str, aligned: bool, masked: bool = False) -> str:
    attrs = {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]} if aligned else None
    case = Case(kernel, {"x": f"*{dtype}", "stride": "i32", "n": "i32"}, {"MASKED": masked}, attrs=attrs)
    return case.compiled(target, by=to_assembly).stage("ptx" if target.startswith("sm") else "amdgcn")


@pytest.mark.long(everywhere=True, but=[
    "gfx1250-rows-fp16-True-True", "gfx942-columns-fp32-True-False", "gfx950-rows-i64-True-True", "sm_80-rows-i8-True-True",
    "sm_90a-rows-fp32-False-True"])
@pytest.mark.parametrize("target, kernel, dtype, aligned, direct", [
    ("sm_90a", rows, "fp16", True, True), ("sm_90a", rows, "fp16", False, False), ("sm_90a", rows, "fp32", False, True),
    ("sm_90a", columns, "fp16", True, False), ("sm_90a", columns, "fp32", True, True), ("sm_80", rows, "i8", True, True),
    ("gfx942", rows, "fp16", True, True), ("gfx942", rows, "fp16", False, False), ("gfx942", rows, "fp32", False, True),
    ("gfx942", rows, "i64", True, False), ("gfx942", columns, "fp32", True, False),
    ("gfx950", rows, "i64", True, True), ("gfx950", columns, "fp16", True, False), ("gfx1250", rows, "fp16", True, True),
])
def test_direct_where_it_fits(target, kernel, dtype, aligned, direct):
    text = assembly(kernel, target, dtype, aligned)
    assert bool(re.search(_DIRECT[target[:2]], text)) == direct
    assert bool(re.search(_STORES[target[:2]], text)) != direct or kernel is columns
    if not direct:
        assert re.search(_BY_REGISTERS[target[:2]], text)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_what_the_mask_leaves_out_is_zero_on_amd_too(target):
    """A load into LDS that its mask switches off writes nothing; zeros are stored in its place."""
    assert not re.search(_STORES["gf"], assembly(rows, target, "fp32", True))
    masked = assembly(rows, target, "fp32", True, masked=True)
    assert re.search(_DIRECT["gf"], masked) and re.search(_STORES["gf"], masked)
