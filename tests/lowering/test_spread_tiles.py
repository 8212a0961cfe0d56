"""A large tile that a broadcast makes is made in the layout in which it is used: only what was spread is converted."""

import re
from math import prod

import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.tlx import mxfp8_utils

from .harness import Case


@mimw.jit
def quantized(scales, N: tl.constexpr):
    """A tile of tensor memory as microscaled fp8, one scale for 32 x 32 elements."""
    tile = tlx.local_alloc((128, N), tl.float32, 1, tlx.storage_kind.tmem)
    data = tlx.local_alloc((128, N), tl.float8e4nv, 1)
    found, exponents = mxfp8_utils._to_mxfp8_32x32_block(tlx.local_load(tile[0]), 32, tl.float8e4nv)
    tlx.local_store(data[0], found)
    tl.store(scales + tl.arange(0, 128)[:, None] * (N // 32) + tl.arange(0, N // 32)[None, :], exponents)


def converted(ttgir):
    """(from, to, elements) of each conversion between two layouts."""
    found = re.findall(r"ttg\.convert_layout .*: tensor<([\dx]+)x\w+, (.*)> -> tensor<[\dx]+x\w+, (.*)>", ttgir)
    return [(have, want, prod(map(int, shape.split("x")))) for shape, have, want in found if have != want]


def test_no_scratch_of_a_whole_tile():
    """128 x 64 of fp32 are 32 KB, which Triton would take as scratch where its passes do not move the conversion."""
    case = Case(quantized, {"scales": "*u8"}, {"N": 64})
    assert max((size for *_, size in converted(case.lowered("sm_100a"))), default=0) < 128 * 64
    compiled = case.compiled("sm_100a")
    assert compiled.shared_bytes <= 128 * 64 + 1024 and "ttg.convert_layout" in compiled.stage("ttgir")
