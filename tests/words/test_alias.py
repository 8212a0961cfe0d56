"""Buffers that share storage: what is written through one is read through another, at the offsets that the tree gives."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly


@mimw.jit
def grid(ROWS: tl.constexpr, COLS: tl.constexpr):
    return tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]


@mimw.jit
def through_a_spec(x, y, N: tl.constexpr):
    spec = tlx.storage_alias_spec()
    a = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    b = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(a, b))
    at = grid(64, 64)
    for i in range(N):
        tlx.local_store(a[i], tl.load(x + i * 4096 + at))
    for i in range(N):
        tl.store(y + i * 4096 + at, tlx.local_load(b[i]) + 1)


def test_what_one_writes_another_reads(machine):
    x = np.arange(2 * 64 * 64, dtype=np.float32).reshape(2, 64, 64)
    y = np.zeros_like(x)
    machine.launch(through_a_spec, (1, ), x, y, 2)
    assert (y == x + 1).all()


@mimw.jit
def nested(x, small, y, z, N: tl.constexpr):
    spec = tlx.storage_alias_spec(buffer_size_bytes=32768)
    qk = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    p = tlx.local_alloc((64, 64), tl.float16, N, reuse=spec)
    alpha = tlx.local_alloc((64, ), tl.float32, N, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(qk, tlx.reuse_group(p, alpha, group_type=tlx.reuse_group_type.distinct)))
    at, line = grid(64, 64), tl.arange(0, 64)
    for i in range(N):
        tlx.local_store(qk[i], tl.load(x + i * 4096 + at))
        tile = tlx.local_load(qk[i]) * 2
        tlx.local_store(p[i], tile.to(tl.float16))
        tlx.local_store(alpha[i], tl.load(small + i * 64 + line))
    for i in range(N):
        tl.store(y + i * 4096 + at, tlx.local_load(p[i]))
        tl.store(z + i * 64 + line, tlx.local_load(alpha[i]))


def test_nested(machine):
    x = np.random.default_rng(0).integers(-99, 99, (2, 64, 64)).astype(np.float32)
    small = np.arange(128, dtype=np.float32)
    y, z = np.zeros((2, 64, 64), np.float16), np.zeros_like(small)
    machine.launch(nested, (1, ), x, small, y, z, 2)
    assert (y == x * 2).all() and (z == small).all()


@mimw.jit
def apart(x, y, z, N: tl.constexpr, ROWS: tl.constexpr):
    spec = tlx.storage_alias_spec()
    a = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    b = tlx.local_alloc((ROWS, 64), tl.float32, N, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(a, b, group_type=tlx.reuse_group_type.distinct))
    at, rows = grid(64, 64), grid(ROWS, 64)
    for i in range(N):
        tlx.local_store(a[i], tl.load(x + i * 4096 + at))
        tlx.local_store(b[i], tl.load(x + i * 4096 + rows) + 1)
    for i in range(N):
        tl.store(y + i * 4096 + at, tlx.local_load(a[i]))
        tl.store(z + i * ROWS * 64 + rows, tlx.local_load(b[i]))


@pytest.mark.parametrize("rows", [64, 32])
@pytest.mark.parametrize("count", [1, 3])
def test_distinct_buffers_do_not_meet(machine, count, rows):
    """At 32 rows the stride of 24576 bytes is no multiple of `a`'s 16384: run-time indices still find their buffers."""
    x = np.arange(count * 64 * 64, dtype=np.float32).reshape(count, 64, 64)
    y, z = np.zeros_like(x), np.zeros((count, rows, 64), np.float32)
    machine.launch(apart, (1, ), x, y, z, count, rows)
    assert (y == x).all() and (z == x[:, :rows] + 1).all()


@mimw.jit
def subtiles(x, y, N: tl.constexpr, GAP: tl.constexpr):
    spec = tlx.storage_alias_spec()
    qk = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    gap = tlx.local_alloc((GAP, ), tl.float32, N, reuse=spec)
    p = tlx.local_alloc((64, 64), tl.float16, N * 2, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(
        tlx.reuse_group(qk, tlx.reuse_group(p, group_size=2)), gap, group_type=tlx.reuse_group_type.distinct))
    at, line = grid(64, 64), tl.arange(0, GAP)
    for i in range(N):
        tlx.local_store(gap[i], (line + i).to(tl.float32))
    for i in range(N * 2):
        tlx.local_store(p[i], tl.load(x + i * 4096 + at))
    for i in range(N * 2):
        tl.store(y + i * 4096 + at, tlx.local_load(p[i]))


@pytest.mark.parametrize("gap", [32, 4096])
def test_subtiles(machine, gap):
    x = np.random.default_rng(0).integers(-99, 99, (4, 64, 64)).astype(np.float16)
    y = np.zeros_like(x)
    machine.launch(subtiles, (1, ), x, y, 2, gap)
    assert (y == x).all()


@mimw.jit
def legacy(x, y):
    a = tlx.local_alloc((128, ), tl.float32, 2)
    b = tlx.local_alloc((128, ), tl.int32, 3, reuse=a)
    c = tlx.local_alloc((128, ), tl.float32, 1, reuse=a[1])
    at = tl.arange(0, 128)
    tlx.local_store(a[1], tl.load(x + at))
    tlx.local_store(b[2], at)
    tl.store(y + at, tlx.local_load(c[0]) + tlx.local_load(b[2]) + tlx.local_load(b[1]).to(tl.float32, bitcast=True))


def test_reuse_of_a_buffer_has_its_start(machine):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    machine.launch(legacy, (1, ), x, y)
    assert (y == 2 * x + np.arange(128)).all()


@mimw.jit
def in_tasks(x, y, steps):
    spec = tlx.storage_alias_spec()
    tiles = tlx.local_alloc((128, ), tl.float32, 2, reuse=spec)
    extra = tlx.local_alloc((64, ), tl.float32, 2, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(tiles, extra, group_type=tlx.reuse_group_type.distinct))
    full, free = tlx.alloc_barriers(2), tlx.alloc_barriers(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            at = tl.arange(0, 128)
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, 2)
                tlx.barrier_wait(full[slot], phase)
                tl.store(y + step * 128 + at, tlx.local_load(tiles[slot]) + tl.sum(tlx.local_load(extra[slot])))
                tlx.barrier_arrive(free[slot])
        with tlx.async_task(num_warps=4):
            at, few = tl.arange(0, 128), tl.arange(0, 64)
            for step in range(steps):
                slot, phase = tlx.warp_spec.get_bufidx_phase(step, 2)
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.local_store(tiles[slot], tl.load(x + step * 128 + at))
                tlx.local_store(extra[slot], few * 0.0 + step)
                tlx.barrier_arrive(full[slot])


def test_in_tasks(machine):
    x = np.arange(5 * 128, dtype=np.float32).reshape(5, 128)
    y = np.zeros_like(x)
    machine.launch(in_tasks, (1, ), x, y, 5)
    assert (y == x + 64 * np.arange(5)[:, None]).all()


@mimw.jit
def hazards(x, y, N: tl.constexpr, ROWS: tl.constexpr):
    """Through leaf after leaf in one task, without a word of synchronisation: the compiler's business."""
    spec = tlx.storage_alias_spec()
    a = tlx.local_alloc((64, 64), tl.float32, N, reuse=spec)
    b = tlx.local_alloc((4096, ), tl.float32, N, reuse=spec)
    gap = tlx.local_alloc((ROWS, 64), tl.float32, N, reuse=spec)
    spec.set_buffer_overlap(tlx.reuse_group(tlx.reuse_group(a, b), gap, group_type=tlx.reuse_group_type.distinct))
    at, line = grid(64, 64), tl.arange(0, 4096)
    for i in range(N):
        tlx.local_store(a[i], tl.load(x + i * 4096 + at))
        reversed_line = tlx.local_load(b[i])
        tlx.local_store(b[i], tl.load(x + i * 4096 + 4095 - line))
        tl.store(y + i * 8192 + line, reversed_line)
        tl.store(y + i * 8192 + 4096 + at, tlx.local_load(a[i]))


@pytest.mark.parametrize("rows", [64, 32])
def test_one_task_writes_through_one_and_reads_through_another(machine, rows):
    x = np.arange(2 * 4096, dtype=np.float32).reshape(2, 4096)
    y = np.zeros((2, 2, 4096), np.float32)
    machine.launch(hazards, (1, ), x, y, 2, rows)
    assert (y[:, 0] == x).all() and (y[:, 1] == x[:, ::-1]).all()


@pytest.mark.long(but=["64"], everywhere=True)
@pytest.mark.parametrize("rows", [64, 32])
def test_a_barrier_stands_between_a_write_and_a_read_through_another(rows):
    """In the PTX: store through a, barrier, load through b, barrier, store through b, barrier, load through a."""
    ptx = to_assembly(hazards, {"x": "*fp32", "y": "*fp32"}, dict(N=2, ROWS=rows), "sm_90a").stages["ptx"]
    order = []
    for line in ptx.splitlines():
        kind = ("write" if re.match(r"\s*(st\.shared|stmatrix|@%p\d+ st\.shared)", line) else
                "read" if re.match(r"\s*(ld\.shared|ldmatrix|@%p\d+ ld\.shared)", line) else
                "barrier" if re.match(r"\s*bar\.sync", line) else None)
        if kind and order[-1:] != [kind]:
            order.append(kind)
    assert ["write", "barrier", "read", "barrier", "write", "barrier", "read"] == order[order.index("write"):][:7], order


@mimw.jit
def operands(a_desc, b_desc, c, K: tl.constexpr):
    """The ring of a GEMM and the staging of its result in one storage, with a leaf in front that needs less alignment."""
    spec = tlx.storage_alias_spec()
    scale = tlx.local_alloc((64, ), tl.float32, 1, reuse=spec)
    a = tlx.local_alloc((64, 64), tl.float16, 2, reuse=spec)
    b = tlx.local_alloc((64, 64), tl.float16, 2, reuse=spec)
    out = tlx.local_alloc((64, 64), tl.float32, 1, reuse=spec)
    pair = tlx.reuse_group(a, b, group_type=tlx.reuse_group_type.distinct, group_size=2)
    spec.set_buffer_overlap(tlx.reuse_group(scale, tlx.reuse_group(pair, out), group_type=tlx.reuse_group_type.distinct))
    full = tlx.alloc_barriers(2)
    tlx.local_store(scale[0], tl.arange(0, 64) * 0.0 + 2)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(K // 64):
        tlx.barrier_expect_bytes(full[k % 2], 2 * 64 * 64 * 2)
        tlx.async_descriptor_load(a_desc, a[k % 2], [0, k * 64], full[k % 2])
        tlx.async_descriptor_load(b_desc, b[k % 2], [k * 64, 0], full[k % 2])
        tlx.barrier_wait(full[k % 2], (k // 2) & 1)
        acc = tlx.async_dot(a[k % 2], b[k % 2], acc)
        acc = tlx.async_dot_wait(0, acc)
    tlx.local_store(out[0], acc)
    tl.store(c + grid(64, 64), tlx.local_load(out[0]) * tlx.local_load(scale[0])[:, None])


def test_operands_and_result_in_one_storage(machine):
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 256), (256, 64)))
    c = np.zeros((64, 64), np.float32)
    machine.launch(operands, (1, ), *(mimw.TensorDescriptor.from_tensor(m, [64, 64]) for m in (a, b)), c, 256)
    assert (c == 2 * (a.astype(np.float32) @ b.astype(np.float32))).all()


def test_tensor_core_operands_start_where_their_swizzle_repeats():
    compiled = compile_kernel(operands, {"a_desc": "tensordesc<fp16[64,64]>", "b_desc": "tensordesc<fp16[64,64]>", "c": "*fp32"},
                              dict(K=256), "sm_90a")
    assert "place=Place(offset=1024, stride=33792, size=8192" in compiled.stages["ir"]
    assert "alignment = 1024" in compiled.stages["ttgir"]
    assert compiled.stages["cubin"]


@mimw.jit
def unwritten(y):
    spec = tlx.storage_alias_spec()
    a = tlx.local_alloc((64, ), tl.float32, 1, reuse=spec)
    b = tlx.local_alloc((128, ), tl.float32, 1, reuse=spec)
    tlx.local_store(a[0], tl.arange(0, 64) * 1.0)
    tl.store(y + tl.arange(0, 128), tlx.local_load(b[0]))


def test_what_nobody_wrote_through_any_is_refused():
    with pytest.raises(mimw.errors.UnwrittenRead, match=r"local_load reads 'b'\[0\], element \(64,\), which nobody has written"):
        mimw.simulate(unwritten, (1, ), np.zeros(128, np.float32))


@mimw.jit
def too_early(x_desc, y):
    spec = tlx.storage_alias_spec()
    a = tlx.local_alloc((64, 64), tl.float32, 1, reuse=spec)
    b = tlx.local_alloc((64, 64), tl.float32, 1, reuse=spec)
    full = tlx.alloc_barriers(1)
    tlx.local_store(b[0], tl.zeros((64, 64), tl.float32))
    tlx.barrier_expect_bytes(full[0], 64 * 64 * 4)
    tlx.async_descriptor_load(x_desc, a[0], [0, 0], full[0])
    tl.store(y + grid(64, 64), tlx.local_load(b[0]))
    tlx.barrier_wait(full[0], 0)


def test_a_copy_on_its_way_into_one_is_seen_through_another():
    x = np.zeros((64, 64), np.float32)
    with pytest.raises(mimw.errors.UnwrittenRead, match="reads 'b'.*before the TMA load .* has landed"):
        mimw.simulate(too_early, (1, ), mimw.TensorDescriptor.from_tensor(x, [64, 64]), x)


@mimw.jit
def too_small(y):
    spec = tlx.storage_alias_spec(buffer_size_bytes=100)
    a = tlx.local_alloc((64, ), tl.float32, 1, reuse=spec)
    tlx.local_store(a[0], tl.arange(0, 64) * 1.0)


def test_refusals_reach_the_author_as_compilation_errors():
    with pytest.raises(triton.CompilationError, match="buffer_size_bytes 100 is too small .* requires at least 256 bytes"):
        compile_kernel(too_small, {"y": "*fp32"}, {}, "sm_90a")
