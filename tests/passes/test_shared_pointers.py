"""Pointers into shared memory as accesses of buffers: views where they can be, slots as arrays."""

import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from tests.compiling import to_ttgir


@mimw.jit
def box(x, i, KIND: tl.constexpr):
    """One load of a tile of 16 x 64, as `KIND` says."""
    buffer = tle.gpu.alloc([4, 32, 64], tl.float16) if KIND == "slot" or KIND == "index" else tle.gpu.alloc([32, 64], tl.float16)
    rows, cols = tl.broadcast_to(tl.arange(0, 16)[:, None], (16, 64)), tl.broadcast_to(tl.arange(0, 64)[None, :], (16, 64))
    if KIND == "slot":
        pointers = tle.gpu.local_ptr(buffer.slot(i), (rows + 16, cols))
    elif KIND == "index":
        pointers = tle.gpu.local_ptr(buffer, (tl.zeros_like(rows) + i, rows, cols))
    elif KIND == "constant":
        pointers = tle.gpu.local_ptr(buffer, (16 + rows, cols))
    elif KIND == "unaligned":
        pointers = tle.gpu.local_ptr(buffer, (8 + rows, cols))
    elif KIND == "moving":
        pointers = tle.gpu.local_ptr(buffer, (16 * i + rows, cols))
    elif KIND == "anywhere":
        pointers = tle.gpu.local_ptr(buffer, (8 * i + rows, cols))
    elif KIND == "turned":
        pointers = tl.trans(tle.gpu.local_ptr(buffer, (rows, cols)))
    elif KIND == "stepped":
        pointers = tle.gpu.local_ptr(buffer, (rows * 2, cols))
    value = tl.load(pointers)
    tl.store(x + tl.arange(0, value.shape[0])[:, None] * value.shape[1] + tl.arange(0, value.shape[1])[None, :], value)


@pytest.mark.parametrize("kind, used", [("slot", "buffer_slice"), ("index", "buffer_slice"), ("constant", "buffer_slice"),
                                        ("unaligned", "local_gather"), ("moving", "buffer_slice"), ("turned", "local_gather"),
                                        ("anywhere", "local_gather"),
                                        ("stepped", "local_gather")])
def test_what_becomes_a_view(kind, used):
    ir = to_ttgir(box, {"x": "*fp16", "i": "i32"}, dict(KIND=kind)).stages["ir"]
    assert used in ir and ("local_load" in ir) == (used == "buffer_slice") and "local_ptr" not in ir and "shared *" not in ir


@pytest.mark.parametrize("kind", ["slot", "index"])
def test_slots_are_buffers_of_an_array(kind):
    ir = to_ttgir(box, {"x": "*fp16", "i": "i32"}, dict(KIND=kind)).stages["ir"]
    assert "local_alloc buffer<fp16[32, 64] x 4>" in ir and "buffer_index %buffer, %i " in ir


def test_a_kernel_without_pointers_is_untouched():

    @mimw.jit
    def plain(x):
        buffer = tle.gpu.alloc([16], tl.float32)
        tle.gpu.copy(x + tl.arange(0, 16), buffer, [16])

    from mimw.compiler.passes import shared_pointers, slot_arrays
    program = to_ttgir(plain, {"x": "*fp32"}).program
    assert shared_pointers(program) is program and slot_arrays(program) is program
