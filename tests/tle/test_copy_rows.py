"""`tle.gpu.copy` of picked rows: by TMA from a descriptor, by cp.async from a pointer, and through pipes of both."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.compiling import to_assembly

describe = mimw.TensorDescriptor.from_tensor


@mimw.jit
def by_pointers(x_ptr, y_ptr, from_ptr, to_ptr, column, M, N, BX: tl.constexpr, BY: tl.constexpr, BOUNDED: tl.constexpr):
    """y[to[i], column:] = x[from[i], column:]."""
    tile = tle.gpu.alloc([BX, BY], x_ptr.dtype.element_ty)
    at = tl.program_id(0) * BX + tl.arange(0, BX)
    if BOUNDED:
        tle.gpu.copy(x_ptr, tile, [BX, BY], [tl.load(from_ptr + at), column], stride=N, extents=[M, N])
        tle.gpu.copy(tile, y_ptr, [BX, BY], [tl.load(to_ptr + at), column], stride=N, extents=[M, N])
    else:
        tle.gpu.copy(x_ptr, tile, [BX, BY], [tl.load(from_ptr + at), column], stride=N)
        tle.gpu.copy(tile, y_ptr, [BX, BY], [tl.load(to_ptr + at), column], stride=N)


@mimw.jit
def by_descriptors(x_desc, y_desc, from_ptr, to_ptr, column, BX: tl.constexpr, BY: tl.constexpr):
    tile = tle.gpu.alloc([BX, BY], tlx.dtype_of(x_desc))
    at = tl.program_id(0) * BX + tl.arange(0, BX)
    tle.gpu.copy(x_desc, tile, [BX, BY], [tl.load(from_ptr + at), column])
    tle.gpu.copy(tile, y_desc, [BX, BY], [tl.load(to_ptr + at), column])


def wanted(x, y, source, target, column, width):
    for one, other in zip(source, target):
        if 0 <= other < len(y):
            part = y[other, column:column + width]
            part[...] = x[one, column:column + width] if 0 <= one < len(x) else 0
    return y


@pytest.mark.parametrize("how", ["descriptor", "pointer", "inside"])
@pytest.mark.parametrize("dtype, rows, row_bytes, column", [
    (np.float16, 32, 32, 0), (np.float16, 16, 128, 64), (np.float32, 64, 64, 16), (np.int8, 32, 128, 32), (np.float16, 8, 4096, 0),
    (np.float32, 16, 256, 72)])
def test_rows_there_and_back(machine, how, dtype, rows, row_bytes, column):
    rng, width = np.random.default_rng(0), row_bytes // np.dtype(dtype).itemsize
    M, N = 4 * rows, max(2 * width, 2 * column)
    x, y = rng.integers(1, 50, (M, N)).astype(dtype), np.zeros((M, N), dtype)
    if how == "inside":
        column, source, target = min(column, N - width), rng.integers(0, M, 2 * rows), rng.permutation(M)[:2 * rows]
    else:
        source, target = rng.integers(-rows, 5 * rows, 2 * rows), rng.permutation(5 * rows)[:2 * rows]
    source, target = source.astype(np.int32), target.astype(np.int32)
    expected = wanted(x, y.copy(), source, target, column, width)
    if how == "descriptor":
        machine.launch(by_descriptors, (2, ), describe(x, [1, width]), describe(y, [1, width]), source, target, column, rows, width)
    else:
        machine.launch(by_pointers, (2, ), x, y, source, target, column, M, N, rows, width, how == "pointer")
    assert (y == expected).all()


def test_rows_of_a_pointer_are_copied_by_cp_async():
    """Sixteen bytes at a time, where the stride and the extents are known to be multiples of that."""
    signature = {"x_ptr": "*fp16", "y_ptr": "*fp16", "from_ptr": "*i32", "to_ptr": "*i32", "column": "i32", "M": "i32", "N": "i32"}
    attrs = {(index, ): [["tt.divisibility", 16]] for index in (0, 1, 4, 6)}
    ptx = to_assembly(by_pointers, signature, {"BX": 32, "BY": 64, "BOUNDED": True}, "sm_90a", attrs=attrs).stage("ptx")
    copies = re.findall(r"cp\.async\.\w+\.shared\.global \[.*?\], \[.*?\], (0x\w+|\d+)", ptx)
    assert copies and {int(size, 0) for size in copies} == {16}


@triton.jit
def load_pair(writer, x_desc, x_ptr, from_ptr, steps, M, N, BX: tl.constexpr, BY: tl.constexpr):
    for step in range(steps):
        rows = tl.load(from_ptr + step * BX + tl.arange(0, BX))
        slot = writer.acquire(step)
        tle.gpu.copy(x_desc, slot.a, [BX, BY], [rows, 0])
        tle.gpu.copy(x_ptr, slot.b, [BX, BY], [rows, BY], stride=N, extents=[M, N])
        writer.commit(step)


@triton.jit
def add_pair(reader, y_desc, y_ptr, to_ptr, steps, BX: tl.constexpr, BY: tl.constexpr):
    at = tl.arange(0, BX)[:, None] * BY + tl.arange(0, BY)[None, :]
    for step in range(steps):
        slot = reader.wait(step).slot
        tle.gpu.copy(slot.a, y_desc, [BX, BY], [tl.load(to_ptr + step * BX + tl.arange(0, BX)), 0])
        tl.store(y_ptr + step * BX * BY + at, tl.load(tle.gpu.local_ptr(slot.b)))
        reader.release(step)


@mimw.jit
def two_ways(x_desc, x_ptr, y_desc, y_ptr, from_ptr, to_ptr, steps, M, N, BX: tl.constexpr, BY: tl.constexpr):
    """One field of a pipe by TMA, the other by cp.async."""
    p = tle.pipe(capacity=2, a=tle.gpu.alloc([2, BX, BY], tl.float16), b=tle.gpu.alloc([2, BX, BY], tl.float16))
    tle.gpu.warp_specialize([(add_pair, (p.reader(), y_desc, y_ptr, to_ptr, steps, BX, BY)),
                             (load_pair, (p.writer(), x_desc, x_ptr, from_ptr, steps, M, N, BX, BY))], [4], [128])


@pytest.mark.parametrize("width", [32, 64])
def test_both_ways_through_a_pipe(machine, width):
    rng, rows, steps = np.random.default_rng(4), 32, 5
    x, y = rng.integers(1, 99, (100, 2 * width)).astype(np.float16), np.zeros((steps * rows, width), np.float16)
    z, source = np.zeros((steps * rows, width), np.float16), rng.integers(-9, 110, steps * rows).astype(np.int32)
    target = rng.permutation(steps * rows).astype(np.int32)
    machine.launch(two_ways, (1, ), describe(x, [1, width]), x, describe(y, [1, width]), z, source, target, steps, 100, 2 * width,
                   rows, width)
    inside = ((source >= 0) & (source < 100))[:, None]
    found = np.where(inside, x[np.where(inside[:, 0], source, 0)], 0)
    assert (y[target] == found[:, :width]).all() and (z == found[:, width:]).all()


@mimw.jit
def wrong(x_desc, x_ptr, rows_ptr, HOW: tl.constexpr):
    tile = tle.gpu.alloc([16, 64], tl.float16)
    rows = tl.load(rows_ptr + tl.arange(0, 16))
    if HOW == "no stride":
        tle.gpu.copy(x_ptr, tile, [16, 64], [rows, 0])
    elif HOW == "stride of a descriptor":
        tle.gpu.copy(x_desc, tile, [16, 64], [rows, 0], stride=64)
    elif HOW == "extents":
        tle.gpu.copy(x_ptr, tile, [16, 64], [rows, 0], stride=64, extents=64)
    elif HOW == "stride of a block":
        tle.gpu.copy(x_ptr + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], tile, [16, 64], stride=64)
    elif HOW == "pointers":
        tle.gpu.copy(x_ptr + tl.arange(0, 16), tile, [16, 64], [rows, 0], stride=64)
    elif HOW == "half":
        tle.gpu.copy(x_desc, tile, [8, 64], [tl.load(rows_ptr + tl.arange(0, 8)), 0])
    elif HOW == "column":
        tle.gpu.copy(x_desc, tile, [16, 64], [rows, rows])


@pytest.mark.parametrize("how, complaint", [
    ("no stride", "`stride`, and `extents` if need be, belong to rows"), ("stride of a descriptor", "a descriptor knows them"),
    ("extents", r"extents must be \[rows, columns\]"), ("stride of a block", "belong to rows that are picked"),
    ("pointers", "from one pointer to the first element of row 0"),
    ("half", r"8 row numbers and rows of 64 elements make \[8, 64\]"),
    ("column", "the first column must be an int or an integer scalar")])
def test_refused(how, complaint):
    x = np.zeros((32, 64), np.float16)
    with pytest.raises(Exception, match=complaint) as error:
        mimw.simulate(wrong, 1, describe(x, [1, 64]), x, np.zeros(16, np.int32), how)
    assert isinstance(error.value.__cause__, ValueError)
