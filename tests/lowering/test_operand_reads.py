"""Tiles that are cast or turned on their way to a product: wide reads of shared memory, and none byte by byte."""

import re
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.testing import compare
from tests.compiling import to_assembly, to_ttgir

_TYPES = {"*fp8e4nv": tl.float8e4nv, "*fp8e5": tl.float8e5, "*i8": tl.int8, "*bf16": tl.bfloat16}


@mimw.jit
def scores(q, k, out, trips, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, KEYS: tl.constexpr, WIDE: tl.constexpr,
           TURNED: tl.constexpr, P: tl.constexpr):
    """out = the sum over blocks of q k^T, or of (q k^T) k if P. k's blocks (N, D) lie in shared memory as they come, KEYS each
    element; WIDE is the type that the product is to take, or None for that of k."""
    rows, columns, keys = tl.arange(0, M), tl.arange(0, D), tl.arange(0, N)
    block = tlx.local_alloc((N, D), KEYS, 1)
    queries = tl.load(q + rows[:, None] * D + columns[None, :])
    acc = tl.zeros((M, D if P else N), tl.float32)
    for trip in range(trips):
        tl.debug_barrier()
        tlx.local_store(block[0], tl.load(k + (trip * N + keys[:, None]) * D + columns[None, :]))
        tl.debug_barrier()
        if TURNED == "view":
            right = tlx.local_load(tlx.local_trans(block[0]))
        else:
            right = tl.trans(tlx.local_load(block[0]))
        if WIDE is not None:
            right = right.to(WIDE)
        s = tl.dot(queries, right, None if P else acc)
        if P:
            weights = s.to(KEYS) if WIDE is None else s.to(WIDE)
            values = tlx.local_load(block[0])
            acc = tl.dot(weights, values if WIDE is None else values.to(WIDE), acc)
        else:
            acc = s
    at = rows[:, None] * acc.shape[1] + tl.arange(0, acc.shape[1])[None, :]
    tl.store(out + at, acc)


def compiled(q="*bf16", k="*fp8e4nv", m=16, wide=tl.bfloat16, turned="view", p=False, target="sm_90a"):
    constexprs = {"M": m, "N": 64, "D": 64, "KEYS": _TYPES[k], "WIDE": wide, "TURNED": turned, "P": p}
    return to_assembly(scores, {"q": q, "k": k, "out": "*fp32", "trips": "i32"}, constexprs, target,
                       attrs={(at, ): [["tt.divisibility", 16]] for at in range(3)})


@pytest.mark.parametrize("case, wanted", [
    (dict(), {"ldmatrix": 2, "ldmatrix.trans": 0}),   # fp8 keys: four bytes along K are four numbers of mma.sync's operand
    (dict(k="*i8", turned="tile"), {"ldmatrix": 2, "ldmatrix.trans": 0}),
    (dict(k="*bf16", wide=None, turned="tile"), {"ldmatrix": 8, "ldmatrix.trans": 0}),
    (dict(p=True), {"ldmatrix.trans": 4}),                               # values: 16 bytes at a time, turned as 16-bit numbers
    (dict(q="*fp8e4nv", wide=None, p=True), {"ldmatrix.trans": 4}),      # Triton makes fp16 of fp8 for mma.sync
    (dict(m=64, p=True), {"wgmma": 8, "ldmatrix": 0, "stmatrix": 0}),    # wgmma reads both from shared memory
])
def test_nothing_is_read_or_written_byte_by_byte(case, wanted):
    ptx = compiled(**case).stage("ptx")
    assert not re.findall(r"(?:ld|st)\.shared\.(?:[busf](?:8|16)|v2\.[busf]8)\b", ptx)
    found = Counter(f"{name}.trans" if ".trans" in rest else name
                    for name, rest in re.findall(r"\b(ldmatrix|stmatrix|wgmma)\.((?!fence|commit|wait)\S+)", ptx))
    assert {name: found[name] for name in wanted} == wanted


def test_matrices_of_amd_are_read_four_bytes_at_a_time():
    """CDNA 3: four bytes along K are a thread's share of a product of 16-bit numbers. Values are turned, as 16-bit numbers. Layouts
    of two products that follow each other have parts that MLIR does not print."""
    assembly = compiled(target="gfx942", p=True).stage("amdgcn")
    assert re.search(r"\bds_read(2|2st64)?_b32", assembly) and not re.search(r"\bds_(read_[ui]8|write_b8|write_b16)", assembly)


@mimw.jit
def untouched(x, y, out, KEYS: tl.constexpr):
    """A tile that is stored, too, and one whose layout is pinned, are multiplied."""
    rows, columns = tl.arange(0, 16), tl.arange(0, 64)
    at = rows[:, None] * 64 + columns[None, :]
    block = tlx.local_alloc((16, 64), KEYS, 1)
    other = tlx.local_alloc((16, 64), tl.bfloat16, 1)
    tlx.local_store(block[0], tl.load(x + at))
    tlx.local_store(other[0], tl.load(y + at))
    stored = tlx.local_load(block[0])
    pinned = tlx.local_load(other[0], layout=tlx.layout(((128, ), (8, )), ((8, ), (1, ))))
    tl.store(x + 1024 + at, stored)
    s = tl.dot(stored.to(tl.bfloat16), tl.trans(pinned))
    tl.store(out + rows[:, None] * 16 + tl.arange(0, 16)[None, :], s)


def test_only_tiles_of_one_product_are_touched():
    """What is stored as well, and what its author has pinned, stays as it was read."""
    ttgir = to_ttgir(untouched, {"x": "*fp8e4nv", "y": "*bf16", "out": "*fp32"}, {"KEYS": tl.float8e4nv}, "sm_90a").stage("ttgir")
    layouts = re.findall(r"ttg\.local_load .*mutable> -> tensor<16x64x\w+, (#\w+)>", ttgir)
    names = dict(re.findall(r"^(#\w+) = #ttg\.(\w+)<", ttgir, re.MULTILINE))
    assert [names[layout] for layout in layouts] == ["blocked", "linear"]


@pytest.mark.parametrize("m, wide, p", [(16, tl.bfloat16, False), (16, tl.float16, True), (64, tl.bfloat16, True)])
def test_products_of_bytes(machine, m, wide, p):
    """Small integers, so that sums are the same in any order."""
    draw, number = np.random.default_rng(0), {tl.bfloat16: ml_dtypes.bfloat16, tl.float16: np.float16}[wide]
    q, k = draw.integers(-1, 2, (m, 64)).astype(number), draw.integers(-1, 2, (128, 64)).astype(ml_dtypes.float8_e4m3fn)
    out, wide_k = np.zeros((m, 64), np.float32), k.astype(np.float32)
    machine.launch(scores, (1, ), q, k, out, 2, m, 64, 64, tl.float8e4nv, wide, "view", p)
    parts = [q.astype(np.float32) @ block.T for block in np.split(wide_k, 2)]
    compare(out, sum(part @ block for part, block in zip(parts, np.split(wide_k, 2))) if p else sum(parts))
