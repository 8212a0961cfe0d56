"""Copies by AMD's tensor data mover on gfx1250: values on the simulator, instructions in the binary; nothing has run on a chip."""

import re

import numpy as np
import pytest
import triton.language as tl
from triton.compiler.errors import CompilationError

import mimw
import mimw.tlx as tlx
from mimw.errors import DataRace, KernelWarning, SimulationError, UnfinishedAtExit
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir
from tests.kernels.data_mover import by_methods, copied, copied_back, fused, multiplied, ring_sums, ringed, rings, slotted

GFX = "gfx1250"
COPIED = {"x": "*fp16", "y": "*fp16", "M": "i32", "N": "i32", "row": "i32", "column": "i32"}
RINGED = {"x_desc": "tensordesc<fp16[64,64]>", "y_desc": "tensordesc<fp16[64,64]>", "n": "i32"}


def instructions(compiled, pattern):
    """The names of the instructions that match, in order."""
    lines = (line.split(";")[0].split() for line in compiled.stage("amdgcn").splitlines())
    return [" ".join(line) for line in lines if line and re.match(pattern, line[0])]


@pytest.mark.long(but=["-1-0-float64", "0--3-int8", "3-5-float16", "30-17-float32", "40-0-int8"], everywhere=True)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.float64])
@pytest.mark.parametrize("row, column", [(0, 0), (3, 5), (30, 17), (-1, 0), (0, -3), (40, 0)])
def test_a_block_and_back(dtype, row, column):
    """What is behind the tensor's edges is 0, and not written; what begins in front of it is wholly outside."""
    x = (np.arange(40 * 50) % 100).astype(dtype).reshape(40, 50)
    y = np.zeros_like(x)
    for seed in range(2):
        y[:] = 0
        mimw.simulate(copied, (1, ), x, y, 40, 50, row, column, 16, 32, True, target=GFX, seed=seed, races=True)
        assert (y == copied_back(x, row, column, 16, 32)).all()


def test_bounds_that_are_not_clamped():
    """The tensor reaches as far from the block as it did from its start: a row goes on in the next one, and memory ends."""
    x = np.arange(40 * 32).astype(np.float32).reshape(40, 32)
    y = np.zeros_like(x)
    mimw.simulate(copied, (1, ), x, y, 40, 32, 8, 16, 16, 32, False, target=GFX)
    assert (y.reshape(-1)[8 * 32 + 16:][:16 * 32] == x.reshape(-1)[8 * 32 + 16:][:16 * 32] + 1).all()
    with pytest.raises(SimulationError, match="reads"):
        mimw.simulate(copied, (1, ), x, y, 40, 32, 30, 0, 16, 32, False, target=GFX)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_ring(n, seed):
    kernel, grid, args, meta = rings(n)
    mimw.simulate(kernel, grid, *args, **meta, seed=seed, races=True)
    assert (args[1].base.array == ring_sums(args)).all()


@pytest.mark.parametrize("switches, kind", [
    (dict(PENDING=2), "CopyReadEarly"), (dict(EARLY=True), "CopyReadEarly"), (dict(AGAIN=False), "SourceOverwritten"),
    (dict(FINISH=False), "UnfinishedAtExit")], ids=["weak wait", "refilled early", "overwritten", "left"])
def test_what_is_not_waited_for_is_found(switches, kind):
    kernel, grid, args, meta = rings(**switches)
    with pytest.raises((DataRace, UnfinishedAtExit)) as caught:
        mimw.simulate(kernel, grid, *args, **meta, races=True)
    assert type(caught.value).__name__ == kind
    report = mimw.check(kernel, grid, *args, **meta, seeds=2, shrink=False)
    assert kind in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("on", [0, 1])
def test_a_fused_load(on):
    x, y = ((np.arange(16 * 32) % m).astype(np.float16).reshape(16, 32) for m in (7, 11))
    z = np.zeros_like(x)
    mimw.simulate(fused, (1, ), x, y, z, on, 16, 32, target=GFX, races=True)
    assert (z == x + on * y).all()


@pytest.mark.parametrize("row", [0, 8, 60, -1])
def test_the_methods_of_descriptors(row):
    x = np.arange(64 * 32).astype(np.float16).reshape(64, 32) % 97
    y = np.full((16, 32), 5, np.float16)
    mimw.simulate(by_methods, (1, ), mimw.TensorDescriptor.from_tensor(x, [16, 32]), y, row, 16, 32, target=GFX, races=True)
    want = np.zeros((16, 32), np.float16)
    if row >= 0:
        want[:len(x[row:row + 16])] = x[row:row + 16] * 2
    assert (y == want).all()


@mimw.jit
def cube(x, y, a, b, c, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [a, b, c], [b * c, c, 1], [A, B, C])
    target = tl.make_tensor_descriptor(y, [a, b, c], [b * c, c, 1], [A, B, C])
    tiles = tlx.local_alloc((A, B, C), tlx.dtype_of(x), 2)
    tlx.async_amd_descriptor_load(source, tiles[1], [1, 0, 2])
    tlx.async_amd_descriptor_wait(0)
    tlx.async_amd_descriptor_store(target, tiles[1], [0, 1, 0])
    tlx.async_amd_descriptor_wait(0)


def test_three_dimensions():
    x = np.arange(4 * 8 * 16, dtype=np.float32).reshape(4, 8, 16)
    y, want = np.zeros_like(x), np.zeros_like(x)
    want[:2, 1:5, :8] = x[1:3, :4, 2:10]
    mimw.simulate(cube, (1, ), x, y, 4, 8, 16, 2, 4, 8, target=GFX, races=True)
    assert (y == want).all()
    types = {"x": "*bf16", "y": "*bf16", "a": "i32", "b": "i32", "c": "i32"}
    compiled = compile_kernel(cube, types, {"A": 2, "B": 4, "C": 16}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF" and len(instructions(compiled, "tensor_")) == 2


def test_descriptors_in_slots():
    """Read past the caches, behind a fence of the writer: they are numbers in global memory."""
    x = (np.arange(5 * 16 * 64) % 512).astype(np.float16).reshape(5, 16, 64)
    y, want = np.full_like(x, -1), x.copy()
    for g in range(5):
        want[g, 16 - g:] = 0
    mimw.simulate(slotted, (1, ), x, y, 16, 5, 16, 64, target=GFX, races=True)
    assert (y == want).all()
    types = {"x": "*fp16", "y": "*fp16", "rows": "i32", "n": "i32"}
    compiled = compile_kernel(slotted, types, {"ROWS": 16, "COLS": 64}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF" and compiled.metadata.global_scratch_size == 256
    assert len(instructions(compiled, "tensor_load_to_lds")) == 1
    loads = [line for line in instructions(compiled, "global_load_b64") if "scope:SCOPE_SYS" in line]
    assert len(loads) == 4 and instructions(compiled, "global_wb")


@mimw.jit
def bounded(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """A block with other bounds than the tensor's; then one that copies nothing, and one that does again."""
    desc = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    tile = tlx.local_alloc((BM, BN), tl.float32, 1)
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    narrow = tlx.update_tensor_descriptor(desc, add_offsets=[2, 0], set_bounds=[3, 5])
    tlx.async_amd_descriptor_load(narrow, tile[0])
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + at, tlx.local_load(tile[0]))
    off = tlx.update_tensor_descriptor(desc, pred=False)
    tlx.async_amd_descriptor_load(off, tile[0], [1, 0])
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + BM * BN + at, tlx.local_load(tile[0]))
    tlx.async_amd_descriptor_load(off, tile[0], [1, 0], pred=True)
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + 2 * BM * BN + at, tlx.local_load(tile[0]))


def test_bounds_and_predicates():
    x, y = np.arange(16 * 32, dtype=np.float32).reshape(16, 32) + 1, np.zeros((3, 8, 16), np.float32)
    mimw.simulate(bounded, (1, ), x, y, 16, 32, 8, 16, target=GFX, races=True)
    want = np.zeros((8, 16), np.float32)
    want[:3, :5] = x[2:5, :5]
    assert (y[0] == want).all() and (y[1] == want).all() and (y[2] == x[1:9, :16]).all()


# ---- the binary ------------------------------------------------------------------------------------------------------------

MOVES = r"tensor_|s_wait_tensorcnt|s_barrier_wait"


def test_the_instructions_of_a_copy():
    """Each wave waits for its part, then all meet; and all meet before what they wrote is stored."""
    compiled = compile_kernel(copied, COPIED, {"BM": 64, "BN": 64, "CLAMP": True}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    steps = [line.split()[0] for line in instructions(compiled, MOVES)]
    assert steps[:3] == ["tensor_load_to_lds", "s_wait_tensorcnt", "s_barrier_wait"]
    assert steps[-4:] == ["s_barrier_wait", "tensor_store_from_lds", "s_wait_tensorcnt", "s_barrier_wait"]
    assert "clamp_bounds" in compiled.stage("ttgir") and instructions(compiled, "global_prefetch_b8")


def test_a_ring_waits_for_all_but_the_newest():
    """A slot is filled again only when all waves have read it: they meet between the read and the copy."""
    compiled = compile_kernel(ringed, RINGED, {"BM": 64, "BN": 64}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    text = compiled.stage("amdgcn")
    loop = text[text.index("Loop Header"):]
    steps = re.findall(r"^\s(s_barrier_wait|tensor_load_to_lds|s_wait_tensorcnt 0x1|ds_load)", loop[:loop.index("s_cbranch")], re.M)
    first = steps.index("tensor_load_to_lds")
    assert "s_barrier_wait" in steps[:first] and steps[first + 1:first + 4] == ["s_wait_tensorcnt 0x1", "s_barrier_wait", "ds_load"]
    assert compiled.metadata.tensordesc_meta == [{"block_size": [64, 64], "elem_bits": 16}] * 2


def test_a_fused_load_is_one_instruction():
    compiled = compile_kernel(fused, {"x": "*fp16", "y": "*fp16", "z": "*fp16", "on": "i32"}, {"BM": 64, "BN": 64}, GFX,
                              {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF" and len(instructions(compiled, "tensor_load_to_lds")) == 1
    assert "warp_used_hints = array<i32: 3, 12>" in compiled.stage("ttgir")


@pytest.mark.parametrize("layout", [None, tlx.padded_shared_layout_encoding.with_identity_for([[64, 8]], [64, 64])],
                         ids=["rows", "padded"])
def test_a_product_of_tiles_that_the_mover_brings(layout):
    """Matrix instructions read what is there 16 bytes at a time, with a padding or without, and nothing spills."""
    random = np.random.default_rng(0)
    x, w = (random.integers(-3, 4, (64, 256)).astype(np.float16) for _ in range(2))
    y = np.zeros((64, 64), np.float32)
    mimw.simulate(multiplied, (1, ), x, w, y, 64, 64, 256, 64, layout, target=GFX, races=True)
    assert (y == x.astype(np.float32) @ w.astype(np.float32).T).all()
    compiled = compile_kernel(multiplied, {"x": "*fp16", "w": "*fp16", "y": "*fp32"},
                              {"M": 64, "N": 64, "K": 256, "B": 64, "LAYOUT": layout}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF" and instructions(compiled, "tensor_load_to_lds")
    assert instructions(compiled, "v_wmma_f32_16x16x32_f16") and instructions(compiled, "ds_load_b128")
    assert not instructions(compiled, "ds_load_u16|scratch_") and ("padded_shared" in compiled.stage("ttgir")) == bool(layout)
    assert "s_wait_tensorcnt 0x2" in instructions(compiled, "s_wait_tensorcnt")


def test_the_methods_compile():
    types = {"x_desc": "tensordesc<fp16[16,32]>", "y": "*fp16", "row": "i32"}
    compiled = compile_kernel(by_methods, types, {"BM": 16, "BN": 32}, GFX, {"num_warps": 4})
    assert compiled.stage("hsaco")[:4] == b"\x7fELF"
    assert [line.split()[0] for line in instructions(compiled, "tensor_")] == ["tensor_load_to_lds", "tensor_store_from_lds"]


# ---- layouts ---------------------------------------------------------------------------------------------------------------

@mimw.jit
def pinned(x_desc, y, LAYOUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    tile = tlx.local_alloc((BM, BN), tl.float16, 1, layout=LAYOUT)
    tlx.async_amd_descriptor_load(x_desc, tile[0], [0, 0])
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], tlx.local_load(tile[0]))


def _pinned(layout):
    return to_ttgir(pinned, {"x_desc": "tensordesc<fp16[64,64]>", "y": "*fp16"}, {"LAYOUT": layout, "BM": 64, "BN": 64}, GFX,
                    {"num_warps": 4})


@pytest.mark.parametrize("layout", [tlx.padded_shared_layout_encoding.with_identity_for([[64, 8]], [64, 64]),
                                    tlx.swizzled_shared_layout_encoding.make_default(2)])
def test_rows_and_padded_rows_are_written(layout, recwarn):
    found = re.findall(r"#shared = (#ttg.\w+)", _pinned(layout).stage("ttgir"))
    assert found == ["#ttg.padded_shared" if isinstance(layout, tlx.padded_shared_layout_encoding) else "#ttg.swizzled_shared"]
    assert not [one for one in recwarn if issubclass(one.category, KernelWarning)]


@pytest.mark.parametrize("layout, why", [
    (tlx.swizzled_layout(3, 3, 3), "writes no swizzle"),
    (tlx.padded_shared_layout_encoding.with_identity_for([[64, 8], [512, 8]], [64, 64]), "one interval only"),
    (tlx.padded_shared_layout_encoding.with_identity_for([[4096, 8]], [64, 64]), "2 to 256 words"),
    (tlx.padded_shared_layout_encoding.with_identity_for([[64, 1]], [64, 64]), "1 to 128 words"),
    (tlx.padded_shared_layout_encoding.with_identity_for([[64, 8]], [64, 64], [0, 1]), "plain rows")])
def test_another_layout_is_warned_of(layout, why):
    with pytest.warns(UserWarning, match=why):
        compiled = _pinned(layout)
    assert "#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1" in compiled.stage("ttgir")


def test_nan_is_no_padding():
    @mimw.jit
    def padded(x, n, BN: tl.constexpr):
        desc = tl.make_tensor_descriptor(x, [n, BN], [BN, 1], [16, BN], padding_option="nan")
        tile = tlx.local_alloc((16, BN), tl.float32, 1)
        tlx.async_amd_descriptor_load(desc, tile[0], [0, 0])
        tlx.async_amd_descriptor_wait(0)

    with pytest.raises(CompilationError, match="pads with NaN, and the data mover"):
        to_ttgir(padded, {"x": "*fp32", "n": "i32"}, {"BN": 32}, GFX, {"num_warps": 4})
    x = np.zeros((64, 64), np.float16)
    desc = mimw.TensorDescriptor(x, [64, 64], [64, 1], [16, 32], padding="nan")
    with pytest.raises(SimulationError, match="pads with NaN"):
        mimw.simulate(by_methods, (1, ), desc, np.zeros((16, 32), np.float16), 0, 16, 32, target=GFX)


def test_parts_of_rows_are_refused():
    @mimw.jit
    def columns(x_desc, BN: tl.constexpr):
        tile = tlx.local_alloc((64, 2 * BN), tl.float16, 1)
        tlx.async_amd_descriptor_load(x_desc, tlx.local_slice(tile[0], [0, BN], [64, BN]), [0, 0])
        tlx.async_amd_descriptor_wait(0)

    with pytest.raises(CompilationError, match="whose elements lie one after the other"):
        to_ttgir(columns, {"x_desc": "tensordesc<fp16[64,64]>"}, {"BN": 64}, GFX, {"num_warps": 4})


@mimw.jit
def halves(x_desc, y, BM: tl.constexpr, BN: tl.constexpr):
    tile = tlx.local_alloc((2 * BM, BN), tl.float16, 1)
    for half in tl.static_range(2):
        tlx.async_amd_descriptor_load(x_desc, tlx.local_slice(tile[0], [half * BM, 0], [BM, BN]), [(1 - half) * BM, 0])
    tlx.async_amd_descriptor_wait(0)
    tl.store(y + tl.arange(0, 2 * BM)[:, None] * BN + tl.arange(0, BN)[None, :], tlx.local_load(tile[0]))


def test_rows_of_a_buffer():
    x, y = np.arange(64 * 32).astype(np.float16).reshape(64, 32) % 97, np.zeros((64, 32), np.float16)
    mimw.simulate(halves, (1, ), mimw.TensorDescriptor.from_tensor(x, [32, 32]), y, 32, 32, target=GFX, races=True)
    assert (y == np.concatenate([x[32:], x[:32]])).all()
    text = to_assembly(halves, {"x_desc": "tensordesc<fp16[32,32]>", "y": "*fp16"}, {"BM": 32, "BN": 32}, GFX, {"num_warps": 4})
    assert text.stage("amdgcn").count("tensor_load_to_lds") == 2
