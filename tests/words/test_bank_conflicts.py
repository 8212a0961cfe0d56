"""Transposes through a buffer whose layout is free: the elements are right in whatever layout the compiler finds."""

import re
from collections import Counter

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.compiler.constraints.bank_conflicts import free_buffers
from mimw.runtime.compile_kernel import compile_kernel
from mimw.tools.explain import Explanation
from mimw.tools.explain.conflicts import HEADING
from tests.compiling import to_assembly, to_ttgir

DIVISIBLE = {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}


@mimw.jit
def turn(x, y, M: tl.constexpr, N: tl.constexpr, PLAIN: tl.constexpr):
    """Every block of a column of blocks, transposed through the buffers of a ring in turn."""
    if PLAIN:
        tiles = tlx.local_alloc((M, N), tlx.dtype_of(x), 2, layout=tlx.swizzled_layout.make_default(2))
    else:
        tiles = tlx.local_alloc((M, N), tlx.dtype_of(x), 2)
    m, n = tl.arange(0, M), tl.arange(0, N)
    for i in range(3):
        tile = tiles[i % 2]
        tlx.local_store(tile, tl.load(x + i * M * N + m[:, None] * N + n[None, :]))
        tl.store(y + i * M * N + n[:, None] * M + m[None, :], tlx.local_load(tlx.local_trans(tile)))


@mimw.jit
def turn_in_tasks(x, y, M: tl.constexpr, N: tl.constexpr, PLAIN: tl.constexpr):
    """One task writes, another reads: their registers are laid out for different numbers of warps."""
    tile = tlx.local_alloc((M, N), tlx.dtype_of(x), 1)
    full = tlx.alloc_barriers(1)
    m, n = tl.arange(0, M), tl.arange(0, N)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.barrier_wait(full[0], 0)
            m, n = tl.arange(0, M), tl.arange(0, N)
            tl.store(y + n[:, None] * M + m[None, :], tlx.local_load(tlx.local_trans(tile[0])))
        with tlx.async_task(num_warps=2):
            m, n = tl.arange(0, M), tl.arange(0, N)
            tlx.local_store(tile[0], tl.load(x + m[:, None] * N + n[None, :]))
            tlx.barrier_arrive(full[0])


SHAPES = [(64, 64), (32, 128), (128, 32), (16, 16), (64, 8)]
TYPES = [np.int8, np.float16, np.float32, np.int64]


@pytest.mark.long(but=["int8-*", "float16-shape[024]", "float32-shape[13]", "int64-shape[024]"], everywhere=True)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_transposes(machine, dtype, shape):
    x = np.random.default_rng(0).integers(-100, 100, (3, *shape)).astype(dtype)
    y = np.zeros((3, *shape[::-1]), dtype)
    machine.launch(turn, (1, ), x, y, *shape, False)
    assert (y == x.transpose(0, 2, 1)).all()


@pytest.mark.long(everywhere=["float16-shape2", "float32-shape2", "int64-shape1", "int8-shape0"])
@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("dtype", TYPES)
def test_transposes_between_tasks(machine, dtype, shape):
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    y = np.zeros(shape[::-1], dtype)
    machine.launch(turn_in_tasks, (1, ), x, y, *shape, False)
    assert (y == x.T).all()


def compiled(kernel, element, shape, plain=False):
    return to_ttgir(kernel, {"x": f"*{element}", "y": f"*{element}"}, {"M": shape[0], "N": shape[1], "PLAIN": plain},
                    attrs=DIVISIBLE)


def wavefronts(kernel):
    """(in the layout that was found, in the default one), out of the reason given."""
    (reason, ) = [reason for value, reason in kernel.layouts.reasons.items() if value in kernel.layouts.shared]
    words = reason.split()
    return int(words[words.index("take") + 1]), int(words[words.index("and", words.index("take")) + 1])


@pytest.mark.long(everywhere=True, but=[
    "fp16-shape1-4-turn", "fp32-shape4-2-turn_in_tasks", "i64-shape3-3-turn", "i8-shape2-8-turn"])
@pytest.mark.parametrize("kernel", ["turn", "turn_in_tasks"])
@pytest.mark.parametrize("element, shape, most", [("fp32", (64, 64), 2), ("fp16", (64, 64), 4), ("i8", (64, 64), 8),
                                                  ("i64", (64, 64), 3), ("fp32", (128, 32), 2)])
def test_a_transpose_takes_few_wavefronts(kernel, element, shape, most):
    """At best one for each 128 bytes, read and written; `most` times that in what is found, more than twice that before."""
    found = compiled(globals()[kernel], element, shape)
    size = {"i8": 1, "fp16": 2, "fp32": 4, "i64": 8}[element]
    warps = (4, 4) if kernel == "turn" else (4, 2)
    ideal = sum(shape[0] * shape[1] * size // 128 // count for count in warps)
    after, before = wavefronts(found)
    assert after <= most * ideal and before > 2 * after
    assert "#ttg.shared_linear" in found.stages["ttgir"] or "#ttg.swizzled_shared" in found.stages["ttgir"]


def test_a_pinned_buffer_stays_as_it_is():
    """The author's layout is no offer to find a better one."""
    found = compiled(turn, "fp32", (64, 64), plain=True)
    assert not free_buffers(found.program) and "pins it" in next(iter(found.layouts.reasons.values()))


@mimw.jit
def straight(x, y):
    tile = tlx.local_alloc((64, 64), tl.float32, 1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(x + at))
    tl.store(y + at, tlx.local_load(tile[0]))


def test_without_conflicts_the_default_stays():
    found = to_ttgir(straight, {"x": "*fp32", "y": "*fp32"}, attrs=DIVISIBLE)
    assert free_buffers(found.program) and "default of its shape" in found.layouts.reasons.values()


@mimw.jit
def also_by_dot(x, y):
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tile[0], tl.load(x + at))
    turned = tlx.local_load(tlx.local_trans(tile[0]))
    tl.store(y + at, turned + tlx.async_dot_wait(0, tlx.async_dot(tile[0], tile[0], out_dtype=tl.float16)))


def test_what_the_tensor_core_reads_stays_as_it_wants_it():
    found = to_ttgir(also_by_dot, {"x": "*fp16", "y": "*fp16"}, attrs=DIVISIBLE)
    assert not free_buffers(found.program)


# ---- AMD -----------------------------------------------------------------------------------------------------------

@pytest.mark.long(but=["gfx942-64", "gfx950-48"], everywhere=True)
@pytest.mark.parametrize("chip, least", [("gfx942", 64), ("gfx950", 48), ("gfx1250", 48)])
def test_a_transpose_on_amd_takes_few_wavefronts(chip, least):
    """16 KiB written and read by 4 waves, 128 bytes a wavefront, 256 where reads of 16 bytes (on gfx1250 writes) are that fast."""
    pinned, found = (compile_kernel(turn, {"x": "*fp32", "y": "*fp32"}, {"M": 64, "N": 64, "PLAIN": plain}, target=chip,
                                    attrs=DIVISIBLE) for plain in (True, False))
    after, before = wavefronts(found)
    assert after <= 2 * least and before > 5 * after and found.stages["hsaco"]
    counts = [line.split()[:4:3] for line in Explanation(pinned).sections[HEADING].splitlines()]
    assert counts == [["0", "local_store"], ["31", "local_load"]]
    assert HEADING in Explanation(found).sections and f"{after} wavefronts a warp" in Explanation(found).sections[HEADING]


@mimw.jit
def by_matrix_cores(x, y, z, PLAIN: tl.constexpr):
    if PLAIN:
        a = tlx.local_alloc((64, 64), tl.float16, 1, layout=tlx.swizzled_layout.make_default(2))
        b = tlx.local_alloc((64, 64), tl.float16, 1, layout=tlx.swizzled_layout.make_default(2))
    else:
        a, b = tlx.local_alloc((64, 64), tl.float16, 1), tlx.local_alloc((64, 64), tl.float16, 1)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(a[0], tl.load(x + at))
    tlx.local_store(b[0], tl.load(y + at))
    tl.store(z + at, tl.dot(tlx.local_load(a[0]), tlx.local_load(b[0])))


PRODUCT = {"x": "*fp16", "y": "*fp16", "z": "*fp32"}


def test_operands_of_matrix_cores_are_laid_out_for_their_reads():
    """gfx950 reads A 16 bytes a lane, and B's columns by reads that turn blocks: in the layouts that are found as in plain rows,
    but in half the wavefronts and less."""
    pinned, found = (to_assembly(by_matrix_cores, PRODUCT, {"PLAIN": plain}, target="gfx950", attrs=DIVISIBLE)
                     for plain in (True, False))
    reads = [Counter(re.findall(r"^\s*(ds_read\w+)", kernel.stages["amdgcn"], re.MULTILINE)) for kernel in (pinned, found)]
    assert reads[0]["ds_read_b128"] == reads[1]["ds_read_b128"] > 0
    assert reads[0]["ds_read_b64_tr_b16"] == reads[1]["ds_read_b64_tr_b16"] > 0
    told = {(line.split()[3], line.split()[4]): line for line in Explanation(pinned).sections[HEADING].splitlines()}
    assert told["local_load", "a"].endswith("operand A of a matrix instruction") and told["local_load", "a"].split()[0] == "7"
    by_buffer = {alloc.name: now for alloc, now in found.layouts.wavefronts.items()}
    assert by_buffer["a"][0] * 2 < by_buffer["a"][1] and by_buffer["b"][0] < by_buffer["b"][1]


def test_columns_of_an_operand_on_gfx942_lie_together():
    """It has no reads that turn blocks: two bytes a lane, unless the layout has what a lane takes in a row."""
    pinned, found = (to_assembly(by_matrix_cores, PRODUCT, {"PLAIN": plain}, target="gfx942", attrs=DIVISIBLE)
                     for plain in (True, False))
    assert "ds_read_u16" in pinned.stages["amdgcn"] and "ds_read_u16" not in found.stages["amdgcn"]


def test_reads_that_turn_blocks_on_gfx1250_are_not_followed():
    found = to_assembly(by_matrix_cores, PRODUCT, {"PLAIN": False}, target="gfx1250", attrs=DIVISIBLE)
    assert {alloc.name for alloc in found.layouts.wavefronts} == {"a"} and "ds_load_tr16_b128" in found.stages["amdgcn"]
    (told, ) = [line for line in Explanation(found).sections[HEADING].splitlines() if "local_load" in line]
    assert told.split()[0] == "?" and "operand B" in told
