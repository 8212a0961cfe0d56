"""The storage map of `mimw explain`: the final offsets, checked against Triton's allocation itself."""

import inspect
import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.storage import compiled_rows, shared_plan
from mimw.compiler.triton_port.allocation import Piece, allocation
from mimw.runtime.compile_kernel import compile_kernel
from mimw.tools.explain.memory import memory_text


@mimw.jit
def load_in(tile, x, N: tl.constexpr):
    scratch = tlx.local_alloc((N, ), tl.float32, 1)
    tlx.local_store(scratch[0], tl.load(x + tl.arange(0, N)))
    tlx.local_store(tile, tlx.local_load(scratch[0]) + 1)


@mimw.jit
def several(x, y):
    """Two helpers' buffers of different sizes, live one after the other; a ring that tasks share; a reduction's scratch."""
    small, large = tlx.local_alloc((64, ), tl.float32, 1), tlx.local_alloc((256, ), tl.float32, 1)
    load_in(small[0], x, 64)
    load_in(large[0], x, 256)
    ring, full = tlx.local_alloc((32, 32), tl.float16, 3), tlx.alloc_barriers(3)
    total = tl.sum(tlx.local_load(large[0]))
    tl.store(y, total)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[1], 0)
            at = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
            tl.store(y + at, tlx.local_load(ring[1]).to(tl.float32))
        with tlx.async_task(num_warps=4):
            tlx.local_store(ring[1], tl.zeros((32, 32), tl.float16))
            tlx.barrier_arrive(full[1])


@pytest.fixture(scope="module")
def compiled():
    return compile_kernel(several, {"x": "*fp32", "y": "*fp32"})


def _rows(text):
    found = re.findall(r"^ *(\d+) \.\. +(\d+)  (\S.*?)  +(buffer|barriers|scratch)", text, re.MULTILINE)
    return [(name, kind, int(start), int(end)) for start, end, name, kind in found]


def test_every_allocation_is_at_its_final_offset(compiled):
    rows = _rows(memory_text(compiled))
    given = sorted((piece.start, piece.end) for piece in allocation(compiled.stage("ttgir")).pieces if piece.is_buffer)
    assert sorted((start, end) for _, kind, start, end in rows if kind != "scratch") == given
    sizes = {name: end - start for name, kind, start, end in rows if name != "scratch"}
    assert (sizes["small"], sizes["large"], sizes["ring"], sizes["full"]) == (256, 1024, 6144, 24)


def test_the_map_reaches_to_the_end_and_names_scratch(compiled):
    rows = _rows(memory_text(compiled))
    assert max(end for *_, end in rows) == compiled.metadata.shared
    scratch = {name: end - start for name, kind, start, end in rows if kind == "scratch"}
    source = inspect.getsource(several.fn).splitlines()
    line = several.starting_line_number + source.index("    total = tl.sum(tlx.local_load(large[0]))")
    assert scratch[f"reduce of test_memory.py:{line}"] == 16 and scratch["starting the tasks"] > 0


def test_what_triton_drops_has_no_place(compiled):
    plan = shared_plan(compiled.program)
    (row, ) = compiled_rows(compiled.program, plan, [Piece("tt.reduce", "", 3, 1, 0, 1)])
    assert (row.name, row.entry, row.size) == ("reduce of line 3", None, 1)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_amds_allocator_is_asked_as_well(target):
    amd = compile_kernel(alone, {"x": "*fp32"}, target=target)
    assert "0 .. 256  tile" in memory_text(amd)
    assert max(end for *_, end in _rows(memory_text(amd))) == amd.metadata.shared == allocation(amd.stage("ttgir"), target).total


@mimw.jit
def alone(x):
    tile = tlx.local_alloc((64, ), tl.float32, 1)
    at = tl.arange(0, 64)
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(x + at, tlx.local_load(tile[0]))


@pytest.mark.parametrize("element", ["fp8e4b8", "fp8e5b16"])
def test_floats_that_only_gfx942_has(element):
    @mimw.jit
    def copied(x, y):
        at, tile = tl.arange(0, 256), tlx.local_alloc((256, ), tlx.dtype_of(x), 1)
        tlx.local_store(tile[0], tl.load(x + at))
        tl.store(y + at, tlx.local_load(tile[0]).to(tl.float32))

    compiled = compile_kernel(copied, {"x": f"*{element}", "y": "*fp32"}, {}, "gfx942")
    assert ("tile", "buffer", 0, 256) in _rows(memory_text(compiled))
