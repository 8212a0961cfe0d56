"""The smallest kernel of each word that has an emission of its own, and the targets on which it compiles.

Shapes: tiles of 64 or (64, 64) elements, one program. `CASES["NAME"]` is the kernel of a word as a `Case`, with its signature,
beside its targets. Each kernel is right.
"""

from __future__ import annotations

import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

import mimw
import mimw.tlx as tlx
from tests.lowering.harness import Case

HOPPER, BLACKWELL, CDNA, MOVER = ("sm_90a", ), ("sm_90a", "sm_100a"), ("gfx942", "gfx950"), ("gfx1250", )
AMD = (*CDNA, *MOVER)
MAPPED = (*BLACKWELL, *AMD)     # where a chip of AMD lacks it, another op stands for the word
ANYWHERE = ("sm_90a", "sm_80", "sm_100a", *AMD)

CASES: dict[str, tuple[Case, tuple[str, ...]]] = {}


def case(targets: tuple[str, ...], signature: dict[str, str] | None = None, **constexprs):
    """Register a kernel as a case of its own name; `signature` types its run-time arguments, "x: *fp32" by default."""

    def register(kernel):
        types = {"x": "*fp32"} if signature is None else signature
        CASES[kernel.__name__] = Case(kernel, types, constexprs), targets
        return kernel

    return register


@case((*BLACKWELL, *AMD))
@mimw.jit
def async_task(x):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x, 1.0)
        with tlx.async_task(num_warps=1):
            tl.store(x + 1, 2.0)


@case((*BLACKWELL, *AMD))
@mimw.jit
def async_task_replicate(x):
    with tlx.async_tasks():
        with tlx.async_task("default", num_regs=120):
            tl.store(x, 1.0)
        with tlx.async_task(num_warps=4, num_regs=48, replicate=2):
            tl.store(x + 1 + tlx.async_task_replica_id(), 2.0)


@case(ANYWHERE)
@mimw.jit
def local_alloc(x):
    tile = tlx.local_alloc((64, ), tl.float32, 2)
    tlx.local_store(tile[0], tl.zeros((64, ), tl.float32))


@case(ANYWHERE, {"x": "*fp32", "slot": "i32"})
@mimw.jit
def local_view(x, slot):
    tiles = tlx.local_alloc((64, ), tl.float32, 2)
    at = tl.arange(0, 64)
    tlx.local_store(tlx.local_view(tiles, slot), tl.load(x + at))
    tl.store(x + 64 + at, tlx.local_load(tlx.local_view(tiles, slot)))


@case(ANYWHERE, {"x": "*fp16"})
@mimw.jit
def local_load_store(x):
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(x + 2048 + at, tlx.local_load(tile[0]))


@case(ANYWHERE, {"x": "*fp16"})
@mimw.jit
def local_trans(x):
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    rows, cols = tl.arange(0, 32), tl.arange(0, 64)
    tlx.local_store(tile[0], tl.load(x + rows[:, None] * 64 + cols[None, :]))
    tl.store(x + 2048 + cols[:, None] * 32 + rows[None, :], tlx.local_load(tlx.local_trans(tile[0])))


@case(ANYWHERE, {"x": "*fp16"})
@mimw.jit
def local_slice(x):
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    cols = tl.arange(0, 64)
    tlx.local_store(tile[0], tl.load(x + tl.arange(0, 32)[:, None] * 64 + cols[None, :]))
    tl.store(x + 2048 + tl.arange(0, 16)[:, None] * 64 + cols[None, :],
             tlx.local_load(tlx.local_slice(tile[0], [16, 0], [16, 64])))


@case(BLACKWELL)
@mimw.jit
def dependent_launch(x):
    tile = tlx.local_alloc((64, ), tl.float32, 1)
    gdc_wait()
    gdc_launch_dependents()
    tlx.local_store(tile[0], tl.zeros((64, ), tl.float32))
    tl.store(x + tl.arange(0, 64), tlx.local_load(tile[0]))


@case(BLACKWELL)
@mimw.jit
def barrier_arrive_wait(x):
    ready = tlx.alloc_barriers(2, arrive_count=3)
    tlx.barrier_arrive(ready[0], 2)
    tlx.barrier_arrive(ready[0], 1)
    tlx.barrier_wait(ready[0], 0)
    tl.store(x, 1.0)


@case(MAPPED, {"x": "tensordesc<fp16[64,64]>", "row": "i32"})
@mimw.jit
def async_descriptor_load(x, row):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 8192)
    tlx.async_descriptor_load(x, tile[0], [row, 0], full[0], pred=row >= 0)
    tlx.barrier_wait(full[0], 0, pred=row >= 0)


@case(MAPPED, {"x": "tensordesc<fp16[64,64]>", "row": "i32"})
@mimw.jit
def async_descriptor_store(x, row):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.zeros((64, 64), tl.float16))
    tlx.fence("async_shared")
    tlx.async_descriptor_store(x, tile[0], [row, 0])
    tlx.async_descriptor_store(x, tile[0], [row, 64], store_reduce="add")
    tlx.async_descriptor_store_wait(0)


@case(MAPPED)
@mimw.jit
def fence_async_shared(x):
    tlx.fence("async_shared")
    tl.store(x, 1.0)


@case(ANYWHERE)
@mimw.jit
def fence_device_and_system(x):
    tl.store(x, 1.0)
    tlx.fence("gpu")
    tl.store(x + 1, 1.0)
    tlx.fence("sys")
    tl.store(x + 2, 1.0)


@case(ANYWHERE, {"x": "*fp32", "n": "i32"})
@mimw.jit
def async_load(x, n):
    tile = tlx.local_alloc((256, ), tl.float32, 1)
    at = tl.arange(0, 256)
    tlx.async_load(x + at, tile[0], mask=at < n, other=1.0)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tl.store(x + 256 + at, tlx.local_load(tile[0]))


@case((*HOPPER, *AMD), {"x": "*fp32", "a_desc": "tensordesc<fp16[64,64]>", "b_desc": "tensordesc<fp16[64,64]>"})
@mimw.jit
def async_dot(x, a_desc, b_desc):
    a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    full = tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(full[0], 16384)
    tlx.async_descriptor_load(a_desc, a[0], [0, 0], full[0])
    tlx.async_descriptor_load(b_desc, b[0], [0, 0], full[0])
    tlx.barrier_wait(full[0], 0)
    acc = tlx.async_dot(a[0], b[0])
    acc = tlx.async_dot(a[0], tlx.local_trans(b[0]), acc)
    acc = tlx.async_dot_wait(0, acc)
    tl.store(x + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :], acc)


@case(("gfx950", ), {"x": "*bf16"})
@mimw.jit
def buffer_atomic_add_bf16(x):
    tlx.buffer_atomic_add(x, tl.arange(0, 64), 1.0, contiguity=2)


@case(ANYWHERE, {"x": "*i32"})
@mimw.jit
def thread_id(x):
    tl.store(x + tlx.thread_id(0), tlx.thread_id(1))


@case(ANYWHERE, {"x": "*i64"})
@mimw.jit
def clock64(x):
    start = tlx.clock64()
    tl.store(x, tlx.clock64() - start)


@case(MAPPED, {"x": "tensordesc<fp32[32,32]>", "row": "i32"})
@mimw.jit
def desc_load_store(x, row):
    tlx.fence("gpu")
    x.store([row, 32], x.load([row, 0]) + 1)


@case(MAPPED, {"x": "*fp32", "rows": "i32"})
@mimw.jit
def make_tensor_descriptor(x, rows):
    tlx.fence("gpu")
    desc = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [32, 64])
    desc.store([0, 0], tl.zeros((32, 64), tl.float32))


# ---- cluster launch control ------------------------------------------------------------------------------------------

@case(("sm_100a", ), {"x": "*i32"})
@mimw.jit
def clc(x):
    context = tlx.clc_create_context(1, 3)
    tile, turn = tl.program_id(0), 0
    while tile != -1:
        tlx.clc_producer(context, (turn // 3) & 1 ^ 1, k=turn % 3)
        tl.store(x + tile, turn)
        tile = tlx.clc_consumer(context, (turn // 3) & 1, k=turn % 3)
        turn += 1


@case(("sm_100a", ), {"x": "*i32"})
@mimw.jit
def clc_in_tasks(x):
    context = tlx.clc_create_context(2)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tile, phase = tl.program_id(0), 0
            while tile != -1:
                tl.store(x + tile, phase)
                tile, _, _ = tlx.clc_consumer(context, phase, return_3d=True)
                phase ^= 1
        with tlx.async_task(num_warps=1):
            tile, phase = tl.program_id(0), 0
            while tile != -1:
                tlx.clc_producer(context, phase ^ 1)
                tile = tlx.clc_consumer(context, phase)
                phase ^= 1
