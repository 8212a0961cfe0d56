"""Products with A in registers and any multiple of 16 of K: simulated, padded, compiled, and on a GPU.

`padded` runs the program that layouts are chosen for, with the author's buffers, and NaN in every idle element of a product.
"""

import re

import numpy as np
import pytest

import mimw
from benchmarks.loops import loops
from mimw.compiler.lowering.hopper.fragments import Fragments
from mimw.compiler.passes.pad_ends import ENDS
from mimw.compiler.pipeline import stages
from mimw.errors import MimwError
from mimw.ir import Op
from mimw.ir.extents import padded
from mimw.ir.layouts import DotOperand, Mma
from mimw.ir.linear import linear_of
from mimw.simulator.words import mma
from mimw.testing.machines import Gpu
from tests.extents.refusals import check_refused
from tests.kernels import register_operands as kernels

FORMS = {
    "176": {}, "160 bf16": dict(n=160, element="bf16"), "48": dict(n=48), "240": dict(n=240), "values of 128": dict(n=176, d=128),
    "values of 96": dict(n=80, d=96), "values of 80": dict(n=160, d=80, element="bf16"),
    "values of 192": dict(n=112, d=192, element="bf16"), "keys last": dict(n=176, d=72, keys_last=True),
    "only N odd": dict(n=64, d=192), "two blocks of rows": dict(n=48, rows=128), "two warpgroups": dict(n=176, rows=128, warps=8),
    "fp8, only N odd": dict(n=64, d=88, element="fp8", keys_last=True),
    "fp8, two warpgroups": dict(n=128, d=24, element="fp8", keys_last=True, rows=128, warps=8),
    "tf32": dict(n=80, element="fp32", keys_last=True), "fp8": dict(n=160, element="fp8", keys_last=True),
}
PRECISE = {"fp8": 8e-2, "bf16": 2e-2}


def close(got, want, meta):
    np.testing.assert_allclose(got, want, atol=PRECISE.get(meta.get("element"), 5e-3))


def fresh(kernel):
    """The kernel without the programs that another form left."""
    kernel.__dict__.pop("_simulated_programs", None)
    return kernel


@pytest.fixture(params=["exact", "padded"])
def form(request, monkeypatch):
    if request.param == "exact":
        return

    def kept(padding, op):
        padding.writer.ops.append(Op(op.name, padding.writer.now(op.args), op.results, op.blocks, op.attrs, op.site))

    def alloc(padding, op):
        padding.made_of[op.result] = padding.arrays.get(op.result)
        kept(padding, op)

    def view(padding, op):
        padding.made_of[op.result] = padding.made_of.get(op.buffer)
        kept(padding, op)

    def product(a, b, start, facts, precision):
        depth, columns = b.shape
        made = mma.matmul(a[:, :depth], b, None if start is None else start[:, :columns], facts.dtype, precision)
        idle = np.nan if made.dtype.kind == "f" else 77
        return np.pad(made, ((0, 0), (0, padded((columns, ))[0] - columns)), constant_values=idle)

    monkeypatch.setattr(mma, "_product", product)
    monkeypatch.setattr(stages, "FRONT", (*stages.FRONT, stages.pad))
    for name, end in dict(local_alloc=alloc, buffer_index=view, buffer_trans=view, tma_load=kept).items():
        monkeypatch.setitem(ENDS, name, end)


@pytest.mark.parametrize("name", FORMS)
def test_the_simulator_gives_numpys_numbers(name, form):
    args, meta, o, want = kernels.launch(**FORMS[name])
    mimw.simulate(fresh(kernels.weighted), (1, ), *args, target="sm_90a", **meta)
    fresh(kernels.weighted)
    close(o, want, FORMS[name])


FROM_MEMORY = {"fp16": {}, "int8": dict(k=96, n=80, type_=np.int8)}


@pytest.mark.parametrize("name", FROM_MEMORY)
def test_a_tile_from_memory(name, form):
    args, meta, c, want = kernels.launch_from_memory(**FROM_MEMORY[name])
    mimw.simulate(fresh(kernels.from_memory), (1, ), *args, target="sm_90a", **meta)
    fresh(kernels.from_memory)
    np.testing.assert_array_equal(c, want)


@pytest.mark.parametrize("name", FROM_MEMORY)
def test_a_tile_from_memory_compiles(name):
    args, meta, *_ = kernels.launch_from_memory(**FROM_MEMORY[name])
    compiled = mimw.compile(kernels.from_memory, (1, ), *args, target="sm_90a", **meta)
    assert len(re.findall(rf"wgmma\.mma_async\S*\.m64n{meta['N']}k", compiled.ptx)) == 3 and compiled.stack_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORMS)
def test_the_gpu_agrees(name):
    args, meta, o, want = kernels.launch(**FORMS[name])
    Gpu().launch(kernels.weighted, (1, ), *args, **meta)
    close(o, want, FORMS[name])


@pytest.mark.gpu
@pytest.mark.parametrize("name", FROM_MEMORY)
def test_the_gpu_agrees_on_a_tile_from_memory(name):
    args, meta, c, want = kernels.launch_from_memory(**FROM_MEMORY[name])
    Gpu().launch(kernels.from_memory, (1, ), *args, **meta)
    np.testing.assert_array_equal(c, want)


@pytest.mark.long(but=["tf32"], everywhere=True)
@pytest.mark.parametrize("name", FORMS)
def test_what_the_loop_holds(name):
    """An instruction a step of either product, four registers of A each, powers of the author's columns only."""
    args, meta, *_ = kernels.launch(**FORMS[name])
    compiled = mimw.compile(kernels.weighted, (1, ), *args, target="sm_90a", **meta)
    n, d, blocks = meta["N"], meta["D"], meta["ROWS"] // 16 // meta["WARPS"]
    depth = {"fp32": 8, "fp8": 32}.get(FORMS[name].get("element"), 16)
    second = re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\S+ \{[^}]*\}, \{([^}]*)\}, db", compiled.ptx)
    assert {(int(wide), int(k), words.count(",") + 1) for wide, k, words in second} == {(d, depth, 4)}
    assert len(second) == n // depth * blocks
    (loop, ) = loops(compiled.sass)
    assert loop.count(rf"[HQ]GMMA\.64x{n}x16\S+") == 4 * blocks and loop.products == 4 * blocks + len(second)
    assert loop.count("MUFU.EX2") == blocks * (n // 2 + 2), "what is idle has no power; two rows shrink"
    assert loop.count("SHFL.BFLY") == blocks * 8 and compiled.stack_bytes == 0
    if depth == 16:
        assert not loop.count("SHFL.IDX|STSM|LDSM|STS|LDS"), "the weights stay where they are"


@pytest.mark.long(but=["176", "fp8, two warpgroups"], everywhere=True)
@pytest.mark.parametrize("name", ["176", "fp8, only N odd", "fp8, two warpgroups"])
def test_the_product_itself_packs_its_operand(name):
    """Triton moves conversions of layouts across elementwise assembly: one that packed neighbours packed others than those along
    K, where the first product has powers of two only. The product takes elements, in the layout of its operand."""
    args, meta, *_ = kernels.launch(**FORMS[name])
    ttgir = mimw.compile(kernels.weighted, (1, ), *args, target="sm_90a", **meta).ttgir
    element = "i8" if FORMS[name].get("element") == "fp8" else "i16"
    given = [line for line in ttgir.splitlines() if "ttg.inline_asm" in line and f"m64n{meta['D']}k" in line]
    wanted = rf"tensor<{meta['ROWS']}x{padded((meta['N'], ))[0]}x{element}, #ttg\.dot_op<{{opIdx = 0, parent = #mma\d*, kWidth"
    assert given and all(re.search(wanted, line.split(" : ")[-1].split(" -> ")[0]) for line in given)
    assert "elementwise_inline_asm" not in ttgir


def fragment(word: int, lane: int, each: int) -> tuple[int, int]:
    """(row, first column) of a word of `each` elements of a lane: PTX ISA, "Register Fragments for wgmma.mma_async"."""
    return lane // 4 + 8 * (word % 2), (lane % 4 + 4 * (word // 2)) * each


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_words_are_the_fragments_of_the_isa(bits):
    """Each word that an instruction takes holds the elements that PTX asks for, of both blocks of rows."""
    each, depth = 32 // bits, 256 // bits
    held = linear_of(DotOperand(0, Mma((4, 1), (16, 64, depth)), each), (128, 256))
    count = 1 << len(held.registers)
    found = Fragments(0, bits, count // 2)
    for block, step, warp, lane in ((0, 0, 0, 0), (0, 3, 1, 5), (1, 0, 3, 31), (1, 5, 2, 18)):
        names = list(map(int, re.findall(r"\$(\d+)", " ".join(found.packed(block, step)) or found.at(block, step))))
        assert len(names) == 4 * each
        for word in range(4):
            row, column = fragment(word, lane, each)
            for element in range(each):
                assert place(held, names[word * each + element], lane, warp) == (
                    64 * block + 16 * warp + row, step * depth + column + element)


def place(layout, register: int, lane: int, warp: int) -> tuple[int, int]:
    """The coordinates of one register of a thread."""
    steps = [basis for bases, number in ((layout.registers, register), (layout.lanes, lane), (layout.warps, warp))
             for bit, basis in enumerate(bases) if number >> bit & 1]
    return tuple(sum(step[axis] for step in steps) for axis in (0, 1))


def test_a_wait_left_out_is_found():
    args, meta, *_ = kernels.launch(steps=2)
    assert mimw.check(kernels.weighted, (1, ), *args, target="sm_90a", **meta).ok
    with pytest.raises(MimwError, match="race|before|unwritten"):
        mimw.simulate(kernels.weighted, (1, ), *args, target="sm_90a", **meta, WAITS=False)


REFUSED = {
    "sums of 16 bits": (kernels.half_sums, dict(K=176, N=64), "sums of fp16"),
    "K of 8": (kernels.half_sums, dict(K=168, N=64), "multiple of 16"),
    "fp8 of 16": (kernels.of_fp8, dict(K=176, N=64), "multiple of 32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_there_is_not_says_so_with_its_line(name):
    kernel, meta, said = REFUSED[name]
    check_refused(kernel, said, "register_operands.py", **meta)
