"""Registers of matrix cores: kept, handed over, committed and sliced tiles keep their numbers, and become what the words say."""

import re

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

CHIPS = ("gfx942", "gfx950", "gfx1250")
ALIGNED = {(place, ): [["tt.divisibility", 16]] for place in range(4)}
MFMA = {"gfx942": tlx.amd_mfma_layout(3, [32, 32, 8], True, [2, 2]), "gfx950": tlx.amd_mfma_layout(4, [16, 16, 32], True, [2, 2])}


@mimw.jit
def kept(x, y, KIND: tl.constexpr, GROUP: tl.constexpr, HAND_OVER: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tl.load(x + at)
    if HAND_OVER:
        tile = tlx.amd_register_handoff(tile + tile, KIND)
    else:
        tile = tlx.amd_register_resident(tile + tile, KIND, GROUP)
    tl.store(y + at, tile)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "gfx950", "gfx1250"])
@pytest.mark.parametrize("hand_over", [False, True])
def test_kept_values(target, hand_over):
    x = np.random.default_rng(1).random((64, 64), np.float32)
    y = np.zeros_like(x)
    mimw.simulate(kept, (1, ), x, y, "agpr", 4, hand_over, target=target)
    assert (y == 2 * x).all()


@pytest.mark.long(but=["gfx942-1-bf16-8", "gfx942-1-fp16-8", "gfx950-32-i32-16", "gfx950-4-fp32-16"], everywhere=True)
@pytest.mark.parametrize("dtype, registers", [("fp32", 16), ("fp16", 8), ("bf16", 8), ("i32", 16)])
@pytest.mark.parametrize("target, group", [("gfx942", 1), ("gfx950", 4), ("gfx950", 32)])
def test_accumulation_registers(target, group, dtype, registers):
    """Every register of a lane becomes an accumulation register, from which it is stored."""
    kernel = to_assembly(kept, {"x": f"*{dtype}", "y": f"*{dtype}"}, dict(KIND="agpr", GROUP=group, HAND_OVER=False), target,
                         {"num_warps": 4}, attrs=ALIGNED)
    text, together = kernel.stage("amdgcn"), min(group, registers)
    assert text.count("\tv_accvgpr_write_b32") == registers and re.search(r"\tglobal_store_dwordx4 \S+, a\[", text)
    constraints = ",".join(["=a"] * together + list(map(str, range(together))))
    assert kernel.stage("llir").count(f'asm "", "{constraints}"') == registers // together


@pytest.mark.long(but=["gfx1250-True", "gfx942-False", "gfx950-True"], everywhere=True)
@pytest.mark.parametrize("hand_over", [False, True])
@pytest.mark.parametrize("target", CHIPS)
def test_vector_registers(target, hand_over):
    kernel = compile_kernel(kept, {"x": "*fp16", "y": "*fp16"}, dict(KIND="vgpr" if hand_over else "agpr", GROUP=2,
                            HAND_OVER=hand_over), target, {"num_warps": 4})
    assert kernel.stage("hsaco")[:4] == b"\x7fELF"
    assert ("accvgpr" in kernel.stage("amdgcn")) == (not hand_over and target != "gfx1250")


@mimw.jit
def scheduled(a, b, c, LAYOUT: tl.constexpr, ROLE: tl.constexpr, CLASS: tl.constexpr, FRESH: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    acc = tl.load(c + at)
    if LAYOUT is not None:
        acc = tlx.require_layout(acc, LAYOUT)
    acc = tlx.amd_scheduled_mfma(tl.load(a + at), tl.load(b + at), acc, ROLE, resident_operand=0, accumulator_register_class=CLASS,
                                 initialize=FRESH)
    tl.store(c + at, tlx.amd_mfma_commit(acc))


TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}


def operands():
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    return a, b, random.integers(-3, 4, (64, 64)).astype(np.float32)


@pytest.mark.parametrize("target", ["sm_90a", *CHIPS])
@pytest.mark.parametrize("fresh", [False, True])
def test_scheduled_values(target, fresh):
    a, b, c = operands()
    wanted = a.astype(np.float32) @ b.astype(np.float32) + (0 if fresh else c)
    mimw.simulate(scheduled, (1, ), a, b, c, None, "persistent", None, fresh, target=target)
    assert (c == wanted).all()


@pytest.mark.long(everywhere=True, but=[
    "gfx942-True-persistent-None-a", "gfx950-False-persistent-vgpr-v", "gfx950-False-transient-agpr-a"])
@pytest.mark.parametrize("role, kind, letter", [("persistent", None, "a"), ("transient", None, "v"), ("transient", "agpr", "a"),
                                                ("persistent", "vgpr", "v")])
@pytest.mark.parametrize("target, pinned", [("gfx942", True), ("gfx950", True), ("gfx950", False)])
def test_the_class_of_a_sum(target, pinned, role, kind, letter):
    """The matrix instructions write registers of the kind that the author says, or that the role has."""
    constants = dict(LAYOUT=MFMA[target] if pinned else None, ROLE=role, CLASS=kind, FRESH=False)
    text = to_assembly(scheduled, TYPES, constants, target, {"num_warps": 4}, attrs=ALIGNED).stage("amdgcn")
    written = re.findall(r"^\tv_mfma_f32_(\S+) (\w)\[", text, re.MULTILINE)
    shape = "32x32x8_f16" if target == "gfx942" else "16x16x32_f16" if pinned else "32x32x16_f16"
    assert written and set(written) == {(shape, letter)}


@pytest.mark.long(everywhere=True, but=[
    "persistent-a-tile0-16x16x32_fp8_fp8", "persistent-a-tile1-16x16x128_f8f6f4", "transient-v-None-32x32x64_f8f6f4",
    "transient-v-tile2-32x32x64_f8f6f4"])
@pytest.mark.parametrize("tile, name", [((16, 16, 32), "16x16x32_fp8_fp8"), ((16, 16, 128), "16x16x128_f8f6f4"),
                                        ((32, 32, 64), "32x32x64_f8f6f4"), (None, "32x32x64_f8f6f4")])
@pytest.mark.parametrize("role, letter", [("persistent", "a"), ("transient", "v")])
def test_fp8(tile, name, role, letter):
    """As long as the author says; without a layout the longest, which Triton takes for tl.dot, too."""
    layout = tile and tlx.amd_mfma_layout(4, tile, True, [2, 2])
    text = compile_kernel(long_fp8, {"a": "*fp8e4nv", "b": "*fp8e4nv", "c": "*fp32"}, {"LAYOUT": layout, "ROLE": role}, "gfx950",
                          {"num_warps": 4}, attrs=ALIGNED).stage("amdgcn")
    assert set(re.findall(r"^\tv_mfma_f32_(\S+) (\w)\[", text, re.MULTILINE)) == {(name, letter)}


@mimw.jit
def long_fp8(a, b, c, LAYOUT: tl.constexpr, ROLE: tl.constexpr):
    rows, depth = tl.arange(0, 64)[:, None], tl.arange(0, 128)
    acc = tl.zeros((64, 64), tl.float32)
    if LAYOUT is not None:
        acc = tlx.require_layout(acc, LAYOUT)
    y = tl.load(b + depth[:, None] * 64 + tl.arange(0, 64)[None, :])
    for i in tl.static_range(2):
        acc = tlx.amd_scheduled_mfma(tl.load(a + i * 64 * 128 + rows * 128 + depth[None, :]), y, acc, ROLE)
    tl.store(c + rows * 64 + tl.arange(0, 64)[None, :], acc)


@mimw.jit
def halves_of_a_product(a, b, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    acc = tlx.amd_scheduled_mfma(tl.load(a + at), tl.load(b + at), tl.zeros((64, 64), tl.float32), "persistent")
    acc = tlx.amd_mfma_commit(acc)
    for half in tl.static_range(2):
        part = tlx.extract_slice(acc, [32, 64], [half * 32, 0])
        tl.store(c + (half * 32 + tl.arange(0, 32))[:, None] * 64 + tl.arange(0, 64)[None, :], part)


@pytest.mark.parametrize("target", CHIPS)
def test_slices_of_a_product_whose_layout_nobody_named(target):
    """The layout that the product has by itself gives each lane elements of both halves, and is no pin of the author's."""
    a, b, c = operands()
    mimw.simulate(halves_of_a_product, (1, ), a, b, c, target=target)
    assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()
    compile_kernel(halves_of_a_product, TYPES, {}, target, {"num_warps": 4}, attrs=ALIGNED)


def test_whole_numbers_are_summed_as_such():
    a = np.ones((64, 64), np.int8)
    with pytest.raises(CompilationError, match="a product of int8 is summed as int32, and acc holds fp32"):
        mimw.simulate(scheduled, (1, ), a, a, np.zeros((64, 64), np.float32), None, "persistent", None, False, target="gfx950")


def test_a_fresh_sum_reads_nothing():
    """`initialize` leaves no load of the sum's old value, and the sum lies where that lay."""
    constants = dict(LAYOUT=MFMA["gfx950"], ROLE="persistent", CLASS=None, FRESH=True)
    ttgir = to_ttgir(scheduled, TYPES, constants, "gfx950", {"num_warps": 4}, attrs=ALIGNED).stages["ttgir"]
    assert ttgir.count("tt.load") == 2 and re.search(r'tt.dot .* \{amdg.cd_regclass = "a"\} .* -> tensor<64x64xf32, #mma>', ttgir)


@pytest.mark.parametrize("target", CHIPS)
def test_scheduled_compiles_to_a_binary(target):
    constants = dict(LAYOUT=None, ROLE="persistent", CLASS=None, FRESH=False)
    kernel = compile_kernel(scheduled, TYPES, constants, target, {"num_warps": 4}, attrs=ALIGNED)
    assert kernel.stage("hsaco")[:4] == b"\x7fELF"
    assert "sched_barrier mask(0x00000000)" in kernel.stage("amdgcn")


def test_the_text_of_a_program():
    for fresh in (False, True):
        same_text(prepare(scheduled, (1, ), (*operands(), MFMA["gfx950"], "persistent", None, fresh), {}, "gfx950"))
    x = np.zeros((64, 64), np.float32)
    same_text(prepare(sliced, (1, ), (x, x, None, 32, 16, 0, 16), {}, "gfx950"))
    same_text(prepare(kept, (1, ), (x, x, "agpr", 4, True), {}, "gfx950"))


@mimw.jit
def committed(a, b, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    left, right = tl.load(a + at), tl.load(b + at)
    acc = tl.dot(left, right, tl.load(c + at))
    acc, (left, right) = tlx.amd_mfma_commit(acc, preserve=(left, right))
    tl.store(c + at, tlx.amd_mfma_commit((tl.dot(left, right, acc), ))[0])


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
def test_committed_values(target):
    a, b, c = operands()
    wanted = 2 * (a.astype(np.float32) @ b.astype(np.float32)) + c
    mimw.simulate(committed, (1, ), a, b, c, target=target)
    assert (c == wanted).all()


def test_one_boundary_for_each_commit():
    """And no tile changes its class of registers on the way through it."""
    text = to_assembly(committed, TYPES, {}, "gfx950", {"num_warps": 4}, attrs=ALIGNED).stage("amdgcn")
    assert text.count("sched_barrier mask(0x00000000)") == 2 and "accvgpr" not in text


@mimw.jit
def sliced(x, y, LAYOUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ROW: tl.constexpr, COLUMN: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tl.load(x + at)
    if LAYOUT is not None:
        tile = tlx.require_layout(tile, LAYOUT)
    part = tlx.extract_slice(tile, (ROWS, COLUMNS), (ROW, COLUMN))
    if LAYOUT is not None:
        tlx.assert_same_layout(part * 1, part)
        tlx.dump_layout(part)
    tl.store(y + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :], part)


BOXES = [(32, 32, 32, 0), (8, 16, 8, 48), (64, 32, 0, 16), (16, 64, 3, 0), (1, 64, 5, 0), (64, 64, 0, 0)]


@pytest.mark.parametrize("target", ["sm_90a", "gfx950"])
@pytest.mark.parametrize("box", [*BOXES, (2, 4, 2, 60)])
def test_sliced_values(target, box):
    rows, columns, row, column = box
    x, y = np.arange(64 * 64, dtype=np.float32).reshape(64, 64), np.zeros((rows, columns), np.float32)
    mimw.simulate(sliced, (1, ), x, y, None, *box, target=target)
    assert (y == x[row:row + rows, column:column + columns]).all()


@pytest.mark.long(but=["gfx1250-box9", "gfx942-box2", "gfx950-box10", "gfx950-box8", "sm_90a-box1"], everywhere=True)
@pytest.mark.parametrize("target, box", [*((target, box) for target in ("sm_90a", *CHIPS) for box in BOXES[::3]),
                                         ("gfx950", BOXES[1]), ("gfx1250", BOXES[4]), ("gfx950", BOXES[5])])
def test_any_slice_compiles(target, box):
    """Triton's verifier takes the layout that was found, and no element moves between the lanes in the slice itself."""
    ttgir = to_ttgir(sliced, {"x": "*fp32", "y": "*fp32"}, dict(zip(("LAYOUT", "ROWS", "COLUMNS", "ROW", "COLUMN"), (None, *box))),
                     target, {"num_warps": 4}).stages["ttgir"]
    assert ("amdg.extract_slice" in ttgir) == (target in CHIPS)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_slice_of_an_accumulator_is_free(capfd, target):
    box = dict(LAYOUT=MFMA[target], ROWS=64, COLUMNS=32 if target == "gfx950" else 64, ROW=0, COLUMN=0)
    if target == "gfx950":
        box |= dict(ROWS=32, ROW=32, COLUMN=32)
    ttgir = to_ttgir(sliced, {"x": "*fp32", "y": "*fp32"}, box, target, {"num_warps": 4}, attrs=ALIGNED).stages["ttgir"]
    assert re.search(r"amdg.extract_slice .*64x64xf32, #mma> to tensor<\w+xf32, #mma>", ttgir)
    assert "amd_mfma" in capfd.readouterr().err


def test_a_slice_that_the_pinned_layout_does_not_have():
    with pytest.raises(CompilationError) as caught:
        to_ttgir(sliced, {"x": "*fp32", "y": "*fp32"}, dict(LAYOUT=MFMA["gfx950"], ROWS=16, COLUMNS=32, ROW=0, COLUMN=16), "gfx950",
                 {"num_warps": 4})
    said = str(caught.value)
    assert "would move elements between lanes" in said and "an element of every 32 x 32" in said
    assert re.search(r"test_matrix_registers.py:\d+", said) and "release_layout the tile before" in said
