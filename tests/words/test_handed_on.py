"""Descriptors that an `if`, a `for` or a `while` hands on, where an instruction names them by their address.

Such are copies of picked rows on Hopper, multicasts, prefetches, and reductions with a cache policy. Each kernel copies 8 rows
a round, from x on the rounds that numpy says and from y on the others; on the simulator and on the GPU.
"""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_assembly

describe = mimw.TensorDescriptor.from_tensor
DESCRIPTOR = "tensordesc<fp16[1,64]>"


@mimw.jit
def chosen(x_desc, y_desc, z_desc, from_ptr, rounds):
    """The source by an `if` in each round; made outside."""
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    rows = tl.load(from_ptr + tl.arange(0, 8))
    for i in range(rounds):
        desc = x_desc
        if i % 3 == 1:
            desc = y_desc
        tlx.barrier_expect_bytes(full[0], 8 * 128)
        tlx.async_descriptor_gather(desc, tile[0], rows, 0, full[0])
        tlx.barrier_wait(full[0], i & 1)
        tlx.async_descriptor_scatter(z_desc, tile[0], 8 * i + tl.arange(0, 8), 0)
        tlx.async_descriptor_store_wait(0)


@mimw.jit
def carried(x_desc, y_ptr, z_desc, from_ptr, rounds):
    """The same by two descriptors that change places in a `while` of a task, one of them made in the kernel."""
    tile = tlx.local_alloc((8, 64), tl.float16, 1)
    full, free = tlx.alloc_barriers(1), tlx.alloc_barriers(1)
    first, second = x_desc, tl.make_tensor_descriptor(y_ptr, [32, 64], [64, 1], [1, 64])
    with tlx.async_tasks():
        with tlx.async_task("default"):
            target = z_desc
            for i in range(rounds):
                tlx.barrier_wait(full[0], i & 1)
                if i > rounds:
                    target = x_desc
                tlx.async_descriptor_scatter(target, tile[0], 8 * i + tl.arange(0, 8), 0)
                tlx.async_descriptor_store_wait(0)
                tlx.barrier_arrive(free[0])
        with tlx.async_task(num_warps=1):
            rows, i = tl.load(from_ptr + tl.arange(0, 8)), 0
            while i < rounds:
                tlx.barrier_wait(free[0], (i & 1) ^ 1)
                if i % 3 != 0:
                    first, second = second, first
                tlx.barrier_expect_bytes(full[0], 8 * 128)
                tlx.async_descriptor_gather(first, tile[0], rows, 0, full[0])
                i += 1


def wanted(x, y, rows, rounds):
    return np.concatenate([(y if i % 3 == 1 else x)[rows] for i in range(rounds)])


@pytest.mark.parametrize("kernel", [chosen, carried])
def test_rows(machine, kernel):
    rng, rounds = np.random.default_rng(0), 5
    x, y = (rng.integers(-60, 60, (32, 64)).astype(np.float16) for _ in range(2))
    rows, z = rng.integers(0, 32, 8).astype(np.int32), np.zeros((8 * rounds, 64), np.float16)
    y_given = y if kernel is carried else describe(y, [1, 64])
    machine.launch(kernel, (1, ), describe(x, [1, 64]), y_given, describe(z, [1, 64]), rows, rounds)
    assert (z == wanted(x, y, rows, rounds)).all()


def test_the_address_goes_along():
    """Two parameters by name before the loop, one of them picked in it."""
    signature = {name: DESCRIPTOR for name in ("x_desc", "y_desc", "z_desc")} | {"from_ptr": "*i32", "rounds": "i32"}
    text = to_assembly(chosen, signature, {}, "sm_90a").stage("ptx")
    assert set(re.findall(r"mov\.b64 \S+ chosen_param_(\d+);", text)) == {"0", "5", "10"}     # a descriptor is five parameters
    assert len(re.findall(r"mov\.b64 map, %rd\d+;", text)) == 1 and re.findall(r"map, chosen_param_(\d+);", text) == ["10"]


@mimw.jit
def named(x_desc, y_desc, n):
    """Everything else that names a descriptor by its address."""
    tile = tlx.local_alloc((8, 64), tl.int32, 1)
    full = tlx.alloc_barriers(1)
    desc = x_desc
    for i in range(n):
        tlx.prefetch(desc, tensormap=True)
        tlx.async_descriptor_prefetch_tensor(desc, [8 * i, 0])
        tlx.barrier_expect_bytes(full[0], 8 * 256)
        tlx.async_descriptor_load(desc, tile[0], [8 * i, 0], full[0], multicast_targets=[0])
        tlx.barrier_wait(full[0], i & 1)
        tlx.async_descriptor_store(desc, tile[0], [8 * i, 0], eviction_policy="evict_first", store_reduce="add")
        tlx.async_descriptor_store_wait(0)
        desc = y_desc


def test_every_instruction_that_names_one():
    signature = {"x_desc": "tensordesc<i32[8,64]>", "y_desc": "tensordesc<i32[8,64]>", "n": "i32"}
    ptx = to_assembly(named, signature, {}, "sm_90a").stage("ptx")
    assert re.findall(r"_param_(\d+);", ptx) == ["0", "5"]
    for instruction in (r"prefetch\.tensormap", r"cp\.async\.bulk\.prefetch\.tensor", r"cp\.async\S*multicast::cluster",
                        r"cp\.reduce\.async\.bulk"):
        assert re.search(rf"@\w+ {instruction}", ptx), instruction
