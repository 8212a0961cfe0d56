"""Transposed views of buffers of more than 256 rows, which Triton reads from other places where rows are wider than the swizzle."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import KernelError
from tests.compiling import to_assembly, to_ttgir


@mimw.jit
def product(x, w, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TURN: tl.constexpr):
    """64 rows of w times the last 256 rows of x, or those times w."""
    tile, other = tlx.local_alloc((ROWS, COLUMNS), tl.bfloat16, 1), tlx.local_alloc((64, COLUMNS), tl.bfloat16, 1)
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    tlx.local_store(tile[0], tl.load(x + rows * COLUMNS + columns))
    tlx.local_store(other[0], tl.load(w + tl.arange(0, 64)[:, None] * COLUMNS + columns))
    part = tlx.local_slice(tile[0], [ROWS - 256, 0], [256, COLUMNS])
    if TURN:
        acc = tlx.async_dot(other[0], tlx.local_trans(part), tl.zeros((64, 256), tl.float32))
    else:
        acc = tlx.async_dot(part, tlx.local_trans(other[0]), tl.zeros((256, 64), tl.float32))
    acc = tlx.async_dot_wait(0, acc)
    tl.store(y + tl.arange(0, acc.shape[0])[:, None] * acc.shape[1] + tl.arange(0, acc.shape[1])[None, :], acc)


def compiled(to, rows, columns, turn):
    return to(product, {"x": "*bf16", "w": "*bf16", "y": "*fp32"}, dict(ROWS=rows, COLUMNS=columns, TURN=turn), target="sm_90a")


def test_it_is_refused_with_the_sizes():
    with pytest.raises(Exception) as caught:
        compiled(to_ttgir, 512, 128, True)
    error = caught.value
    assert isinstance(error, KernelError) or isinstance(error.__cause__, KernelError)
    assert "512 rows of 256 bytes" in str(error) and "buffers of 256 rows each" in str(error) and "local_trans(part)" in str(error)


@pytest.mark.long(but=["one stripe"], everywhere=True)
@pytest.mark.parametrize("rows, columns, turn", [(256, 128, True), (512, 64, True), (512, 128, False)],
                         ids=["one block", "one stripe", "as it lies"])
def test_other_buffers_are_taken(rows, columns, turn):
    assert "wgmma" in compiled(to_assembly, rows, columns, turn).stage("ptx")
