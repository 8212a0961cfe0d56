"""TMA reductions with an eviction policy, in PTX: one instruction a box, with the hint; the device's descriptors by address."""

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly


@mimw.jit
def reduce(d, x_ptr, OWN: tl.constexpr, POLICY: tl.constexpr, KIND: tl.constexpr):
    tile = tlx.local_alloc((16, 128), tl.float32, 1)
    if OWN:
        d = tl.make_tensor_descriptor(x_ptr, [16, 128], [128, 1], [16, 128])
    tlx.local_store(tile[0], tl.zeros((16, 128), tl.float32))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(d, tile[0], [0, 0], eviction_policy=POLICY, store_reduce=KIND)
    tlx.async_descriptor_store_wait(0)


def instructions(own, policy, kind="add"):
    ptx = to_assembly(reduce, {"d": "tensordesc<fp32[16,128]>", "x_ptr": "*fp32"},
                      {"OWN": own, "POLICY": policy, "KIND": kind}).stages["ptx"]
    return ptx, [line.strip() for line in ptx.splitlines() if "cp.reduce.async.bulk.tensor" in line]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("policy", ["evict_first", "evict_last"])
def test_one_hinted_instruction_a_box(own, policy):
    """Rows of 512 bytes are four boxes of the 128-byte swizzle."""
    ptx, copies = instructions(own, policy)
    assert len(copies) == 4 and all(copy.startswith("@leader") and copy.endswith("[from], hint;") for copy in copies)
    assert f"createpolicy.fractional.L2::{policy}.b64 hint, 1.0;" in ptx
    assert ("mov.b64 map, reduce_param" in ptx) is not own


def test_without_a_policy_it_is_tritons():
    ptx, copies = instructions(False, "")
    assert copies and "createpolicy" not in ptx and not any("hint" in copy for copy in copies)
