"""A descriptor in a slot is the one that Triton makes in scratch of its own."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_ttgir


@mimw.jit
def make(source, extents, strides: tl.constexpr, block: tl.constexpr, padding: tl.constexpr, SLOT: tl.constexpr):
    slots = tlx.allocate_tensor_descriptor(2)
    desc = tlx.make_tensor_descriptor(slots[1] if SLOT else None, source, extents, strides, block, padding)
    zeros: tl.constexpr = [0] * len(block)
    desc.store(zeros, desc.load(zeros))


def creation(dtype, block, padding, slot):
    """What goes into the tensor map: constants by value, run-time values as `%`."""
    strides = [64] * (len(block) - 1) + [1]
    compiled = to_ttgir(make, {"source": f"*{dtype}", "extents": ("i32", ) * len(block)},
                              {"strides": strides, "block": list(block), "padding": padding, "SLOT": slot})
    (line, ) = [line for line in compiled.stages["ttgir"].splitlines() if "ttng.tensormap_create" in line]
    operands = re.sub(r"%c(\d+)_i(32|64)\w*", r"\1:\2", line.split(" loc(")[0])
    return re.sub(r"%[\w.]+", "%", operands)


CASES = [("fp16", (16, 64)), ("fp16", (8, 16)), ("fp16", (4, 64)), ("bf16", (128, 128)), ("fp32", (64, 32)),
         ("i8", (16, 128)), ("fp8e5", (8, 32)), ("i32", (16, 8)), ("u32", (16, 8)), ("i16", (512, 32)),
         ("fp16", (512, )), ("i64", (8, 4)), ("fp64", (8, 4)), ("fp16", (2, 8, 64)), ("fp16", (2, 2, 2, 4, 8))]


@pytest.mark.parametrize("dtype, block", CASES)
def test_a_slot_holds_what_triton_would_make(dtype, block):
    assert creation(dtype, block, "zero", True) == creation(dtype, block, "zero", False)


def test_padding_is_in_the_map():
    line = creation("fp16", (16, 64), "nan", True)
    assert line == creation("fp16", (16, 64), "nan", False)
    assert "fill_mode = 1" in line


@mimw.jit
def two_tasks(source, rows):
    slots = tlx.allocate_tensor_descriptor(4)
    made = tlx.alloc_barriers(1)
    tile = tlx.local_alloc((16, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.make_tensor_descriptor(slots[rows], source, [rows, 64], [64, 1], [16, 64])
            tlx.barrier_arrive(made[0])
        with tlx.async_task(num_warps=1):
            tlx.barrier_wait(made[0], 0)
            desc = tlx.reinterpret_tensor_descriptor(slots[rows], [16, 64], tl.float16)
            tlx.barrier_expect_bytes(full[0], 16 * 64 * 2)
            tlx.async_descriptor_load(desc, tile[0], [0, 0], full[0])


def test_maker_and_user_in_different_tasks():
    """The maker's map is kept though it does not use it; each side fences; four slots of 128 bytes."""
    compiled = compile_kernel(two_tasks, {"source": "*fp16", "rows": "i32"}, {})
    default, partition = compiled.stages["ttgir"].split("partition0(")
    assert [default.count(f"ttng.{op}") for op in ("tensormap_create", "tensormap_fenceproxy_acquire")] == [1, 1]
    assert [partition.count(f"ttng.{op}") for op in ("tensormap_fenceproxy_acquire", "reinterpret_tensor_descriptor")] == [1, 1]
    assert compiled.metadata.global_scratch_size == 512
    assert compiled.stages["ptx"].count("fence.proxy.tensormap::generic.acquire.gpu") == 2
