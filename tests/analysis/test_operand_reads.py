"""Which kernels read tiles that may become operands in another type, or transposed."""

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.analysis.operand_reads import reads_become_operands
from mimw.runtime.simulate import prepare


@mimw.jit
def copied(x, DOT: tl.constexpr, CAST: tl.constexpr, TURN: tl.constexpr):
    at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    tile = tlx.local_alloc((32, 32), tlx.dtype_of(x), 1)
    tlx.local_store(tile[0], tl.load(x + at))
    read = tlx.local_load(tile[0])
    if CAST:
        read = read.to(tl.bfloat16)
    if TURN:
        read = tl.trans(read)
    if DOT:
        read = tl.dot(read, read)
    tl.store(x + at, read)


@pytest.mark.parametrize("element, dot, cast, turn, wanted", [
    ("float16", True, False, False, False),
    ("float16", True, True, False, True),
    ("float16", True, False, True, True),
    ("float16", False, True, True, False),
    ("int8", True, False, False, True),
])
def test_kernels_that_the_pass_is_for(element, dot, cast, turn, wanted):
    x = np.zeros(1024, element)
    program = prepare(copied, (1, ), (x, ), dict(DOT=dot, CAST=cast, TURN=turn)).program
    assert reads_become_operands(program) is wanted
