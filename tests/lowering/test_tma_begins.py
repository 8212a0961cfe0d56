"""TMA begins at multiples of 128 bytes of shared memory (PTX ISA, cp.async.bulk.tensor), whatever lies in front of a buffer."""

import re

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from tests.compiling import to_ttgir


@mimw.jit
def numbers(desc, y):
    """A row of fp32 numbers from [1, 64], into a slot that is indexed and seen as the block."""
    row = tle.gpu.alloc([1, 64], tl.float32)
    slots = tle.pipe(capacity=1, name="numbers", row=row)
    slot = slots.writer().acquire(0)
    tle.gpu.copy(desc, tlx.local_reshape(slot.row, desc.block_shape), desc.block_shape, [0, 0])
    slots.writer().commit(0)
    tl.store(y + tl.arange(0, 64), tlx.local_load(slots.reader().wait(0).slot.row))


def test_a_plain_row_starts_at_128_bytes():
    """Its layout is plain, which Triton starts at any 16 bytes: so the bytes are taken at 128, and seen as the row."""
    text = to_ttgir(numbers, {"desc": "tensordesc<fp32[1,64]>", "y": "*fp32"}).stages["ttgir"]
    copied = re.search(r"async_tma_copy_global_to_local .* (%[\w.]+),", text)
    assert copied, text
    assert re.search(r"#ttg.shared_linear<.*alignment = 128", text) and "memdesc_reinterpret" in text
