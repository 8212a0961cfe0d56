"""`mimw explain` for AMD's chips: waves at once, and registers that were spilled, as the assembly's metadata has them."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.pipeline.binary import Taken, taken_by_amdgcn, taken_by_hsaco
from mimw.tools.explain import Explanation
from mimw.tools.explain.occupancy import HEADING
from tests.compiling import to_assembly


@mimw.jit
def product(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tlx.local_alloc((N, N), tl.float16, 1), tlx.local_alloc((N, N), tl.float16, 1)
    tlx.local_store(a[0], tl.load(x + at))
    tlx.local_store(b[0], tl.load(y + at))
    tl.store(z + at, tl.dot(tlx.local_load(a[0]), tlx.local_load(b[0])))


def compiled(chip, n, **options):
    return to_assembly(product, {"x": "*fp16", "y": "*fp16", "z": "*fp32"}, {"N": n}, chip, options=options)


def test_waves_at_once():
    found = compiled("gfx950", 64, num_warps=2)
    taken, told = found.registers, Explanation(found).sections[HEADING]
    assert f"{taken} of 512 a lane: {min(8, 512 // (-(-taken // 8) * 8))} waves a SIMD" in told
    groups = 163840 // found.shared_bytes
    assert f"{found.shared_bytes} of 163840 bytes: {groups} work-groups of 2 waves a compute unit, which LDS limits" in told
    assert told.endswith("spills      none") and found.spilled_registers == 0
    assert Explanation(found).as_json()["spilled_registers"] == 0 and "spilled" not in str(found)


def test_spills_are_told():
    """Eight waves a SIMD leave 64 registers to a lane, and the sum of 128 x 128 on four waves takes as many by itself."""
    found = compiled("gfx950", 128, waves_per_eu=8)
    count = int(re.search(r"\.vgpr_spill_count:\s*(\d+)", found.amdgcn)[1])
    assert count > 0 and found.spilled_registers == count and found.stack_bytes > 0
    assert f"spills      {count} registers a lane, in {found.stack_bytes} bytes" in Explanation(found).sections[HEADING]
    assert f"{count} registers spilled" in str(found)


def test_of_gfx1250_the_register_file_is_not_published():
    told = Explanation(compiled("gfx1250", 64)).sections[HEADING]
    assert "how many a SIMD has is not published" in told and "of 327680 bytes" in told and "spills      none" in told


def test_nvidia_has_no_such_section():
    assert HEADING not in Explanation(compiled("sm_90a", 64)).sections


@pytest.mark.parametrize("text, taken", [
    ("    .private_segment_fixed_size: 68\n    .vgpr_count:     256\n    .vgpr_spill_count: 16\n", Taken(256, 68, 16)),
    ("    .sgpr_spill_count: 3\n    .vgpr_count: 40\n", Taken(40, 0, 0))])
def test_the_metadata_is_read(text, taken):
    assert taken_by_amdgcn(text) == taken


def test_the_notes_of_a_binary_are_read():
    """One byte below 128; behind 0xcc one, behind 0xcd two bytes of a number."""
    notes = b"\xbb.private_segment_fixed_size\xcc\xc8\xab.vgpr_count\xcd\x01\x00\xb1.vgpr_spill_count\x10"
    assert taken_by_hsaco(notes) == Taken(256, 200, 16) and taken_by_hsaco(b"") == Taken(0, 0, 0)
