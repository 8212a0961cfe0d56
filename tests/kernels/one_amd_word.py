"""The smallest kernel of each word that only AMD's chips have, and the targets on which it compiles: more `CASES` of one_word.py.

Shapes: tiles of 64 or (64, 64) elements, one program. Each kernel is right.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tlx as tlx

from .one_word import AMD, ANYWHERE, CASES, CDNA, MOVER, case

__all__ = ["AMD", "ANYWHERE", "CASES"]


@case(MOVER, {"x": "tensordesc<fp16[64,64]>", "row": "i32"})
@mimw.jit
def async_amd_descriptor_load(x, row):
    tiles = tlx.local_alloc((64, 64), tl.float16, 3)
    tlx.amd_descriptor_prefetch_tensor(x, [row, 64], pred=row > 0, speculative=True)
    there = tlx.update_tensor_descriptor(x, add_offsets=[row, 0], clamp_bounds=True)
    tlx.async_amd_descriptor_load(there, tiles[0], pred=row > 0)
    tlx.async_amd_descriptor_load_fused([(there, tiles[1], 1), (x, tiles[2], 2)])
    tlx.async_amd_descriptor_wait(0)


@case(MOVER, {"x": "tensordesc<fp16[64,64]>", "row": "i32"})
@mimw.jit
def async_amd_descriptor_store(x, row):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.zeros((64, 64), tl.float16))
    tlx.async_amd_descriptor_store(x, tile[0], [row, 0])
    tlx.async_amd_descriptor_wait(0)


@case(AMD, {"x": "*fp16", "y": "*fp16"})
@mimw.jit
def buffer_load(x, y):
    at = tl.arange(0, 64)
    tlx.buffer_store(tlx.buffer_load(x, at, mask=at < 48, other=1.0, cache=".cg"), y, at, mask=at < 48)


@case(AMD, {"x": "*i32", "y": "*fp16"})
@mimw.jit
def buffer_load_contiguity(x, y):
    at = tl.arange(0, 64)
    tlx.buffer_store(tlx.buffer_load(y, tl.load(x + at), contiguity=16), y, at)


@case(CDNA, {"x": "*fp32"})
@mimw.jit
def buffer_atomic_add(x):
    at = tl.arange(0, 64)
    tlx.buffer_store(tlx.buffer_atomic_add(x, at, 1.0, mask=at < 48), x, at)


@case(CDNA, {"x": "*fp16", "n": "i32"})
@mimw.jit
def buffer_atomic_add_fp16(x, n):
    at = tl.arange(0, 64)
    tlx.buffer_atomic_add(x, at, 1.0, mask=at < n, sem="relaxed", scope="cta", contiguity=2)


@case(AMD, {"x": "*fp32"})
@mimw.jit
def buffer_load_to_local(x):
    tile, at = tlx.local_alloc((64, ), tl.float32, 1), tl.arange(0, 64)
    tlx.buffer_load_to_local(tile[0], x, at, mask=at < 48, other=2.0)
    tlx.async_load_commit_group()
    tlx.async_load_wait_group(0)
    tlx.buffer_store(tlx.local_load(tile[0]), x, at)
