"""Layouts of AMD's matrix cores: the values of products in them, the instructions that they become, and what is refused."""

import re
from collections import Counter

import numpy as np
import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.simulate import prepare
from tests.compiling import to_assembly, to_ttgir
from tests.ir.same import same_text

MFMA = tlx.amd_mfma_layout
GFX942, GFX950 = MFMA(3, [32, 32, 8], True, [2, 2]), MFMA(4, [16, 16, 32], True, [2, 2])
ALIGNED = {(place, ): [["tt.divisibility", 16]] for place in range(4)}


@mimw.jit
def product(a, b, c, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, LAYOUT: tl.constexpr, WIDTH: tl.constexpr,
            SHARED: tl.constexpr, TURNED: tl.constexpr):
    """C = A B through shared memory, read in operand layouts; B is (N, K) if TURNED, else (K, N)."""
    dtype: tl.constexpr = tlx.dtype_of(a)
    left: tl.constexpr = tlx.dot_operand_layout(0, LAYOUT, WIDTH)
    right: tl.constexpr = tlx.dot_operand_layout(1, LAYOUT, WIDTH)
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    tiles_a = tlx.local_alloc((M, K), dtype, 1, layout=SHARED)
    if TURNED:
        tiles_b = tlx.local_alloc((N, K), dtype, 1, layout=SHARED)
    else:
        tiles_b = tlx.local_alloc((K, N), dtype, 1, layout=SHARED)
    acc = tlx.zeros((M, N), tl.float32, layout=LAYOUT)
    for step in range(steps):
        tlx.local_store(tiles_a[0], tl.load(a + rows[:, None] * (steps * K) + step * K + depth[None, :]))
        if TURNED:
            tlx.local_store(tiles_b[0], tl.load(b + columns[:, None] * (steps * K) + step * K + depth[None, :]))
            y = tlx.local_load(tlx.local_trans(tiles_b[0]), layout=right)
        else:
            tlx.local_store(tiles_b[0], tl.load(b + (step * K + depth[:, None]) * N + columns[None, :]))
            y = tlx.local_load(tiles_b[0], layout=right)
        acc = tl.dot(tlx.local_load(tiles_a[0], layout=left), y, acc)
    tlx.assert_same_layout(acc, LAYOUT)
    tlx.assert_same_layout(acc * 2, acc)
    tl.store(c + rows[:, None] * N + columns[None, :], tlx.release_layout(acc))


def compiled(target, layout, width=8, dtype="fp16", shared=None, turned=True, shape=(64, 64, 64), by=to_assembly, warps=4):
    constants = dict(zip("MNK", shape), LAYOUT=layout, WIDTH=width, SHARED=shared, TURNED=turned)
    return by(product, {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32", "steps": "i32"}, constants, target, {"num_warps": warps},
              attrs=ALIGNED)


def instructions(kernel):
    """How often each instruction stands in the AMDGCN."""
    return Counter(re.findall(r"^\t([a-z]\w+)", kernel.stage("amdgcn"), re.MULTILINE))


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("target, layout", [("gfx942", GFX942), ("gfx950", GFX950), ("sm_90a", GFX950)])
def test_values(target, layout, turned):
    """A layout changes no number, on whatever chip the simulator stands for."""
    random = np.random.default_rng(3)
    a, b = random.integers(-3, 4, (64, 96)).astype(np.float16), random.integers(-3, 4, (32, 96)).astype(np.float16)
    c = np.zeros((64, 32), np.float32)
    mimw.simulate(product, (1, ), a, b if turned else np.ascontiguousarray(b.T), c, 3, 64, 32, 32, layout, 8, None, turned,
                  target=target)
    assert (c == a.astype(np.float32) @ b.T.astype(np.float32)).all()


def test_the_text_of_a_program():
    """Layouts, registers of sums and slices are read back as they are printed."""
    tile = np.zeros((64, 64), np.float16)
    for kernel, arguments in ((product, (tile, tile, tile.astype(np.float32), 1, 64, 64, 64, GFX950, 8, None, False)),
                              (chained, (tile, tile, tile, tile.astype(np.float32), GFX950, GFX950))):
        same_text(prepare(kernel, (1, ), arguments, {}, "gfx950"))


@pytest.mark.long(but=["gfx942-layout1-*", "gfx950-layout[2456]-*"], everywhere=True)
@pytest.mark.parametrize("target, layout, dtype, width, read, product", [
    ("gfx942", GFX942, "fp16", 8, "ds_read_b128", "v_mfma_f32_32x32x8_f16"),
    ("gfx942", MFMA(3, [16, 16, 16], True, [2, 2]), "bf16", 8, "ds_read_b128", "v_mfma_f32_16x16x16_bf16"),
    ("gfx950", GFX950, "fp16", 8, "ds_read_b128", "v_mfma_f32_16x16x32_f16"),
    ("gfx950", MFMA(4, [32, 32], True, [2, 2]), "bf16", 8, "ds_read_b128", "v_mfma_f32_32x32x16_bf16"),
    ("gfx950", MFMA(4, [16, 16, 32], False, [4, 1]), "fp8e4nv", 8, r"ds_read\w*_b64", "v_mfma_f32_16x16x32_fp8_fp8"),
    ("gfx950", MFMA(4, [16, 16, 32], True, [1, 4]), "fp8e5", 16, "ds_read_b128", "v_mfma_f32_16x16x32_bf8_bf8"),
    ("gfx950", MFMA(4, [16, 16, 16], True, [2, 2], tiles_per_warp=[2, 1]), "fp16", 4, r"ds_read\w*_b64",
     "v_mfma_f32_16x16x16_f16")])
def test_instructions(target, layout, dtype, width, read, product):
    found = instructions(compiled(target, layout, width, dtype))
    assert found[product] and all(name == product for name in found if "mfma" in name)
    assert any(re.fullmatch(read, name) for name in found) and not {"ds_read_u16", "ds_read_u8", "ds_read_b32"} & set(found)


def test_a_transposed_read_on_gfx950():
    """Of operands whose K does not lie together, in rows that the author pins; gfx942 has no such instruction."""
    rows = tlx.swizzled_layout.make_default(2)
    assert instructions(compiled("gfx950", GFX950, shared=rows, turned=False))["ds_read_b64_tr_b16"]
    assert any(name.startswith("ds_read_u16") for name in instructions(compiled("gfx942", GFX942, shared=rows, turned=False)))


@pytest.mark.parametrize("target, layout", [("gfx942", GFX942), ("gfx950", GFX950)])
def test_a_binary(target, layout):
    assert compiled(target, layout, by=compile_kernel).stage("hsaco")[:4] == b"\x7fELF"


PADDED = tlx.padded_shared_layout_encoding.with_identity_for([(64, 8)], [64, 64])
TURNED_ROWS = tlx.shared_linear_layout_encoding(
    [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]])


@pytest.mark.long(but=["gfx942-layout0-padded", "gfx950-layout1-linear"], everywhere=True)
@pytest.mark.parametrize("shared", [PADDED, TURNED_ROWS], ids=["padded", "linear"])
@pytest.mark.parametrize("target, layout", [("gfx942", GFX942), ("gfx950", GFX950)])
def test_sixteen_bytes_of_pinned_buffers_are_one_read(target, layout, shared):
    """Reads of K-contiguous operands, 8 elements a lane, and the stores of 8 that fill the buffers."""
    found = instructions(compiled(target, layout, shared=shared))
    assert found["ds_read_b128"] and found["ds_write_b128"]
    assert {name for name in found if name.startswith(("ds_read", "ds_write"))} == {"ds_read_b128", "ds_write_b128"}


@mimw.jit
def copied(x, y, SHARED: tl.constexpr, EIGHT: tl.constexpr):
    tiles = tlx.local_alloc((64, 64), tl.float16, 1, layout=SHARED)
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tlx.local_store(tiles[0], tl.load(x + at))
    tl.store(y + at, tlx.local_load(tiles[0], layout=EIGHT))


@pytest.mark.parametrize("shared", [PADDED, TURNED_ROWS], ids=["padded", "linear"])
def test_sixteen_bytes_on_gfx1250(shared):
    lanes = tlx.layout(((32, 4), (8, 4)), ((8, 256), (1, 1024)))
    found = instructions(to_assembly(copied, {"x": "*fp16", "y": "*fp16"}, {"SHARED": shared, "EIGHT": lanes}, "gfx1250",
                                     {"num_warps": 4}, attrs=ALIGNED))
    assert found["ds_load_b128"] == 4
    assert not [name for name in found if name.startswith("ds_load") and name != "ds_load_b128"]


@mimw.jit
def wmma(a, b, c, K: tl.constexpr, WARPS: tl.constexpr, TILES: tl.constexpr):
    rows, depth = tl.arange(0, 64), tl.arange(0, K)
    x, y = tl.load(a + rows[:, None] * K + depth[None, :]), tl.load(b + rows[None, :] * K + depth[:, None])
    acc = tlx.require_amd_wmma_layout(tl.zeros((64, 64), tl.float32), warp_bases=WARPS, reg_bases=TILES)
    acc = tl.dot(x, y, acc)
    tlx.dump_layout(acc)
    tl.store(c + rows[:, None] * 64 + rows[None, :], acc)


WARPS, TILES = ((0, 2), (2, 0)), ((0, 1), (1, 0))


@pytest.mark.parametrize("dtype, depth, instruction", [("fp16", 64, "v_wmma_f32_16x16x32_f16"),
                                                       ("fp8e4nv", 128, "v_wmma_f32_16x16x128_fp8_fp8")])
def test_wmma(capfd, dtype, depth, instruction):
    types = {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32"}
    kernel = to_assembly(wmma, types, {"K": depth, "WARPS": WARPS, "TILES": TILES}, "gfx1250", {"num_warps": 4}, attrs=ALIGNED)
    assert instructions(kernel)[instruction] == 64 * 64 // (4 * 16 * 16) * depth // int(re.search(r"x(\d+)_f", instruction)[1])
    assert "cute: ((_16,_2,_2,_2),(_8,_2,_2)):((_64,_8,_32,_2048),(_1,_16,_1024))" in capfd.readouterr().err


def test_wmma_values():
    a, b = (np.random.default_rng(seed).integers(-3, 4, (64, 32)).astype(np.float16) for seed in (1, 2))
    c = np.zeros((64, 64), np.float32)
    mimw.simulate(wmma, (1, ), a, b, c, 32, WARPS, TILES, target="gfx1250")
    assert (c == a.astype(np.float32) @ b.T.astype(np.float32)).all()


@mimw.jit
def required(x, y, LAYOUT: tl.constexpr, PIN: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tlx.require_layout(tl.load(x + at), LAYOUT, pin=PIN)
    tlx.dump_layout(tile)
    tl.store(y + at, tile + tl.sum(tile, 1)[:, None])


@pytest.mark.parametrize("pin", [True, False])
def test_required_and_shown(capfd, pin):
    to_ttgir(required, {"x": "*fp32", "y": "*fp32"}, {"LAYOUT": GFX950, "PIN": pin}, "gfx950", {"num_warps": 4})
    type_, cute = capfd.readouterr().err.splitlines()[1:3]
    assert "#ttg.amd_mfma<{version = 4, warpsPerCTA = [2, 2], instrShape = [16, 16, 32], isTransposed = true}>" in type_
    assert cute == "//   cute: ((_16,_4,_2,_2),(_4,_2,_2)):((_64,_4,_16,_1024),(_1,_32,_2048))"


REFUSED = {
    "another vendor": ("sm_90a", GFX950, {}, "sm_90a cannot hold a tile in mfma.*version 4 of MFMA is of gfx950"),
    "another version": ("gfx942", GFX950, {}, "version 4 of MFMA is of gfx950; that of gfx942 is 3"),
    "a chip of WMMA": ("gfx1250", GFX950, {}, "gfx1250 cannot hold a tile in mfma"),
    "no chip": ("gfx950", MFMA(2, [16, 16, 32], True, [2, 2]), {}, "version 2 of MFMA is of no chip here"),
    "other warps": ("gfx950", MFMA(4, [16, 16, 32], True, [2, 1]), {}, "is for 2 warps; this task has 4"),
    "another rank": ("gfx950", MFMA(4, [16, 16, 32], True, [1, 2, 2]), {}, "is for tiles of rank 3"),
    "another K": ("gfx950", MFMA(4, [16, 16, 64], True, [2, 2]), {},
                  "no matrix core instruction 16x16x64 multiplies fp16 by fp16: those of 16x16 have K = 16 or 32.\n"
                  "Mend: write K = 32"),
    "K of gfx950": ("gfx942", MFMA(3, [16, 16, 32], True, [2, 2]), {}, "those of 16x16 have K = 16"),
    "fp8 on gfx942": ("gfx942", MFMA(3, [16, 16, 32], True, [2, 2]), {"dtype": "fp8e4nv"}, "no instruction has 16x16 for fp8e4nv"),
    "little K": ("gfx950", GFX950, {"shape": (64, 64, 16)}, "multiplies 32 along K at a time; this product has 16"),
    "few rows": ("gfx950", MFMA(4, [32, 32, 16], True, [2, 2]), {"shape": (16, 64, 64)}, "32 along M at a time"),
    "blocks of four": ("gfx950", MFMA(4, [64, 4, 64], True, [4, 1]), {}, "have 4 neighbours along K in a lane, not 8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    target, layout, given, text = REFUSED[case]
    with pytest.raises(CompilationError) as caught:
        compiled(target, layout, by=to_ttgir, **given)
    said = str(caught.value)
    assert re.search(text, said) and re.search(r"test_amd_layouts.py:\d+", said) and "Mend: " in said


@mimw.jit
def disagreeing(x, y, LAYOUT: tl.constexpr, OTHER: tl.constexpr, WIDTH: tl.constexpr, INDEX: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    left = tlx.require_layout(tl.load(x + at), tlx.dot_operand_layout(INDEX, LAYOUT, 8))
    right = tlx.require_layout(tl.load(x + at), tlx.dot_operand_layout(1, OTHER, WIDTH))
    tl.store(y + at, tl.dot(left, right))


@pytest.mark.parametrize("other, width, index, text", [
    (MFMA(4, [16, 16, 32], True, [4, 1]), 8, 0, "in layouts of different accumulators"),
    (GFX950, 4, 0, "operand A .* 8 neighbours"),
    (GFX950, 8, 1, "operand A of a product lies as operand B")])
def test_operands_that_disagree(other, width, index, text):
    with pytest.raises(CompilationError, match=text):
        to_ttgir(disagreeing, {"x": "*fp16", "y": "*fp32"}, dict(LAYOUT=GFX950, OTHER=other, WIDTH=width, INDEX=index), "gfx950",
                 {"num_warps": 4})


@mimw.jit
def chained(q, k, v, o, LAYOUT: tl.constexpr, SUMS: tl.constexpr):
    """Attention without its softmax: a sum of one product is operand A of the next one, which sums in another layout."""
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    turned = tl.arange(0, 64)[None, :] * 64 + tl.arange(0, 64)[:, None]
    scores = tl.dot(tl.load(q + at), tl.load(k + turned), tlx.zeros((64, 64), tl.float32, layout=LAYOUT))
    scores = scores - tl.max(scores, 1)[:, None]
    sums = tl.dot(scores.to(tl.float16), tl.load(v + at), tlx.zeros((64, 64), tl.float32, layout=SUMS))
    tl.store(o + at, sums)


def test_a_sum_becomes_an_operand():
    arguments = dict(LAYOUT=MFMA(4, [32, 32, 16], True, [2, 2]), SUMS=GFX950)
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32"}
    found = instructions(to_assembly(chained, types, arguments, "gfx950", {"num_warps": 4}, attrs=ALIGNED))
    assert found["v_mfma_f32_32x32x16_f16"] == 4 and found["v_mfma_f32_16x16x32_f16"] == 8
    q, k, v = (np.random.default_rng(seed).integers(-2, 3, (64, 64)).astype(np.float16) for seed in range(3))
    o = np.zeros((64, 64), np.float32)
    mimw.simulate(chained, (1, ), q, k, v, o, *arguments.values(), target="gfx950")
    scores = q.astype(np.float32) @ k.T.astype(np.float32)
    assert (o == (scores - scores.max(1, keepdims=True)) @ v.astype(np.float32)).all()


@mimw.jit
def by_pointers_of_an_operand(x, y, LAYOUT: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(y + at, tl.load(tlx.require_layout(x + at, LAYOUT)))


def test_pointers_as_an_operand():
    """Triton takes a tile there through shared memory, in which it has no place for pointers."""
    x, y = np.arange(4096, dtype=np.float32).reshape(64, 64), np.zeros((64, 64), np.float32)
    layout = tlx.dot_operand_layout(0, GFX950, 8)
    mimw.simulate(by_pointers_of_an_operand, (1, ), x, y, layout, target="gfx950")
    assert (y == x).all()
    compile_kernel(by_pointers_of_an_operand, {"x": "*fp32", "y": "*fp32"}, {"LAYOUT": layout}, "gfx950", {"num_warps": 4})
