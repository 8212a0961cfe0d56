"""Native code in PTX: what stands in the kernel, in tasks as well, and what is refused with the author's lines."""

import functools
import re
from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx
from mimw.compiler.pipeline import MimwSource, key_of_values, launch_key
from mimw.compiler.triton_port.runtime import ContentKeys
from mimw.errors import LayoutConflict, RawCodeError
from mimw.runtime.compile_kernel import compile_kernel
from mimw.tools.explain import Explanation
from tests.compiling import to_assembly, to_ttgir

Input, InOut, Output = tle.raw.Input, tle.raw.InOut, tle.raw.Output
ptx = functools.partial(tle.raw.dialect, name="ptx")

SCALE = """.func (.param .align 8 .b8 out[40]) scale(.param .b64 alloc, .param .b64 x, .param .b64 first, .param .b64 n,
                                                  .param .b64 step, .param .b32 factor)
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
    ld.param.u64 %rd0, [alloc]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [first]; ld.param.u64 %rd3, [n];
    ld.param.u64 %rd4, [step]; ld.param.f32 %f0, [factor];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; add.u32 %r0, %r0, %r1; sub.u32 %r0, %r0, %r1;
    mul.wide.u32 %rd5, %r0, 4; add.u64 %rd5, %rd5, %rd1;
    ld.f32 %f1, [%rd5]; mul.f32 %f1, %f1, %f0; bar.sync 0; st.f32 [%rd5], %f1;
    st.param.b64 [out+0], %rd0; st.param.b64 [out+8], %rd1; st.param.b64 [out+16], %rd2; st.param.b64 [out+24], %rd3;
    st.param.b64 [out+32], %rd4;
    ret;
}
"""


@ptx(source=SCALE)
def scale(x: InOut[L["memref<?xf32, 3>"]], factor: Input[L["f32"]]): ...


@ptx(source="""
.const .align 4 .b32 table[2] = {1, 2};
.func (.param .b32 out) add(.param .b32 x, .param .b16 h, .param .b64 p, .param .b32 small, .param .b32 bar)
{ .reg .b32 %r<9>; .reg .b16 %h<2>; .reg .b64 %rd<2>;
  ld.param.b32 %r1, [x]; ld.param.b16 %h1, [h]; ld.param.b64 %rd1, [p]; ld.param.b32 %r2, [small]; ld.param.b32 %r4, [bar];
  ld.const.b32 %r3, [table]; add.s32 %r1, %r1, %r3; add.s32 %r1, %r1, %r2; st.global.b32 [%rd1], %r1;
  st.param.b32 [out], %r1; ret; }
""")
def add(x: Input[L["!llvm.ptr<3>"]], h: Input[L["f16"]], p: Output[L["!llvm.ptr<1>"]], small: Input[L["i8"]],
        bar: Input[L["barrier"]]) -> L["i32"]: ...


@mimw.jit
def everything(x, h, small):
    at, bars = tl.arange(0, 128), tlx.alloc_barriers(1)
    tile = tle.raw.call(scale, [tl.load(x + at), 3])
    found = tle.raw.call(add, [tile, h.to(tl.float16), x, small.to(tl.int8), bars[0]])
    tl.store(x + at, tile + found)
    tl.store(x + at, tle.raw.call(scale, [tile, 4]))


def test_a_function_stands_in_place_with_registers_of_its_own():
    """Operands are moved ahead of the block, in which %r1 is the function's; a table has a name of its own, once."""
    compiled = compile_kernel(everything, {"x": "*fp32", "h": "fp32", "small": "i32"})
    text = compiled.stages["ptx"]
    assert len(re.findall(r"^\.const .* raw_[0-9a-f]{16}_table\[2\]", text, re.M)) == 1 and "call.uni" not in text
    blocks = [line for line in text.splitlines() if "raw_a0" in line]
    assert len(blocks) == 3 and all(re.match(r"\s*{ \.reg \.b32 raw_a0; mov\.b32 raw_a0, %r\d+;", line) for line in blocks)
    assert "mov.b64 %rd3, 128; mov.b64 %rd4, 1;" in blocks[0] and "mov.u32 %r1, 128;" in blocks[0]
    assert "setp.ne.u64 raw_moved, raw_piece8, raw_g0; @raw_moved trap;" in blocks[0]
    lines = [line.strip() for line in text.splitlines()]
    for block in blocks:    # a barrier of the task before and behind
        place = lines.index(block.strip())
        assert "bar.sync \t0;" in lines[place - 8:place] and "bar.sync \t0;" in lines[place:place + 4]
    said = Explanation(compiled).sections["Native code, as it is declared"].splitlines()
    assert [line.partition(" (")[0] for line in said] == ["scale", "add", "scale"] and "reads and writes x;" in said[0]
    assert "reads x, writes p; its text was not looked at" in said[1]
    assert "mov.b32 %r1, raw_a0; mov.b16 %h1, raw_a1; mov.b64 %rd1, raw_a2; mov.b32 %r2, raw_a3; mov.b32 %r4, raw_a4;" in blocks[1]


@mimw.jit
def in_tasks(x, F: tl.constexpr):
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tl.store(x + tl.arange(0, 128), tle.raw.call(F, [tl.load(x + tl.arange(0, 128)), 2]))
        with tlx.async_task(num_warps=1):
            at = 128 + tl.arange(0, 32)
            tl.store(x + at, tle.raw.call(F, [tl.load(x + at), 3]))
        with tlx.async_task(num_warps=2):
            at = 256 + tl.arange(0, 64)
            tl.store(x + at, tle.raw.call(F, [tl.load(x + at), 4]))


def test_in_a_task_threads_and_barriers_are_those_of_the_task():
    text = to_assembly(in_tasks, {"x": "*fp32"}, {"F": scale}).stage("ptx")
    blocks = sorted(line for line in text.splitlines() if "raw_a0" in line)
    assert sorted(re.search(r"mul\.f32 %f1, %f1, %f0; (.*?);", line)[1] for line in blocks) == [
        "bar.sync 0, 128", "bar.sync 3, 64", "bar.warp.sync -1"]
    assert all("%tid" not in line for line in blocks)
    assert sorted(re.search(r"mov\.u32 %r1, (\d+);", line)[1] for line in blocks) == ["128", "32", "64"]


def refused(kernel, signature, constants, message, *lines):
    with pytest.raises(RawCodeError, match=message) as caught:
        to_assembly(kernel, signature, constants)
    assert {site.line for site in caught.value.sites} >= set(lines)
    return caught.value


def placed(text: str) -> int:
    """The line of this file that holds the text."""
    return next(number for number, line in enumerate(open(__file__).read().splitlines(), start=1) if text in line)


@ptx(source="""
.func wide(.param .b64 x, .param .b32 f)
{ bar.sync 1, 32; ret; }
""")
def wide(x: InOut[L["!llvm.ptr<3>"]], f: Input[L["f32"]]): ...


@ptx(source="""
.func helper() { bar.sync 0; ret; }
.func calls(.param .b64 x, .param .b32 f) { call.uni helper, (); ret; }
""", extern_func_name="calls")
def calls(x: InOut[L["!llvm.ptr<3>"]], f: Input[L["f32"]]): ...


@pytest.mark.parametrize("fn, message", [(wide, "hardware barrier 1 is the compiler's here: it takes 0 to 3"),
                                         (calls, "`bar.sync 0;` is about all threads of a CTA")])
def test_barriers_of_others_are_refused_in_tasks(fn, message):
    refused(in_tasks, {"x": "*fp32"}, {"F": fn}, message, placed("tle.raw.call(F, [tl.load(x + tl.arange(0, 128)), 2]"))


@mimw.jit
def once(x, F: tl.constexpr):
    at = tl.arange(0, 128)
    tl.store(x + at, tle.raw.call(F, [tl.load(x + at), 2]))


@ptx(source="""
.func f(.param .b64 x, .param .b32 f)
{
    mov.u32 %r1, 3;     // nobody has declared it
    ret;
}
""")
def undeclared(x: InOut[L["memref<?xf32, 3>"]], f: Input[L["f32"]]): ...


@ptx(source=".func f(.param .b64 x, .param .b64 f) { ret; }")
def too_wide(x: InOut[L["!llvm.ptr<3>"]], f: Input[L["f32"]]): ...


@ptx(source=".func f(.param .b64 x) { ret; }")
def too_few(x: InOut[L["memref<?xf32, 3>"]], f: Input[L["f32"]]): ...


@ptx(source=".func (.param .align 8 .b8 r[24]) f(.param .b64 x, .param .b32 f) { ret; }")
def other_structure(x: InOut[L["!llvm.ptr<3>"]], f: Input[L["f32"]]): ...


@ptx(source=".shared .b32 mine[4];\n.func f() { ret; }")
def own_memory(x: InOut[L["!llvm.ptr<3>"]], f: Input[L["f32"]]): ...


@pytest.mark.parametrize("fn, message, text", [
    (undeclared, "ptxas: ", "// nobody has declared it"), (too_wide, "is 32 bits wide, and the function's", ""),
    (too_few, "the function has 1 parameters, and the declaration gives 6", ""),
    (other_structure, "structure of 24 bytes, and the descriptors of the 1 memrefs", ""),
    (own_memory, r"a variable in \.shared", '@ptx(source=".shared')])
def test_code_that_does_not_fit_is_refused_with_both_lines(fn, message, text):
    error = refused(once, {"x": "*fp32"}, {"F": fn}, message, placed("tle.raw.call(F, [tl.load(x + at), 2]"))
    assert not text or placed(text) in {site.line for site in error.sites}


@mimw.jit
def swizzled(d):
    tile, bar = tlx.local_alloc((64, 64), tl.float16, 1), tlx.alloc_barriers(1)
    tlx.barrier_expect_bytes(bar[0], 8192)
    tlx.async_descriptor_load(d, tile[0], [0, 0], bar[0])
    tlx.barrier_wait(bar[0], 0)
    tle.raw.call_smem(looks, [tile[0]])


@ptx(source=".func looks(.param .b64 x) { ret; }")
def looks(x): ...


def test_a_swizzled_buffer_is_refused():
    with pytest.raises(LayoutConflict, match="raw_reads wants its elements in order.*native code takes it row after row"):
        to_ttgir(swizzled, {"d": "tensordesc<fp16[64, 64]>"})


@ptx(source="""
.func (.param .align 8 .b8 out[40]) narrow(.param .b32 alloc, .param .b32 x, .param .b64 first, .param .b64 n, .param .b64 step,
                                           .param .b32 factor)
{ .reg .b32 %r<2>; ld.param.b32 %r0, [x]; st.param.b32 [out+8], %r0; ret; }
""")
def narrow_pointers(x: InOut[L["memref<?xf32, 3>"]], factor: Input[L["f32"]]): ...


def test_a_structure_of_pointers_into_shared_memory():
    """As clang makes it where such pointers have 32 bits: the function is called, and the lower half compared."""
    text = compile_kernel(once, {"x": "*fp32"}, {"F": narrow_pointers}).stages["ptx"]
    assert "call.uni (raw_out), raw_" in text and "ld.param.b64 raw_piece8, [raw_out+8];" in text
    assert "cvt.u32.u64 raw_low, raw_piece8; setp.ne.u32 raw_moved, raw_low, raw_a0; @raw_moved trap;" in text


def test_a_barrier_is_within_the_declared_scope():
    narrow = tle.hardware_constraint(threads_dim=1, sync_scope="warp")(ptx(source=SCALE)(scale.fn))
    error = refused(once, {"x": "*fp32"}, {"F": narrow}, "declared sync_scope is 'warp', and the code has a barrier of the block")
    assert "sync_scope='block'" in error.hint


def test_a_deferred_file_that_never_came(tmp_path):
    @tle.raw.dialect(name="cuda", file=str(tmp_path / "later.cu"), deferred=True, extern_func_name="f", reference=lambda x, f: None)
    def later(*args): ...

    @mimw.jit
    def kernel(x):
        at = tl.arange(0, 128)
        tl.store(x + at, tle.raw.call(later, [tl.load(x + at), 2], output_indices=[0]))

    mimw.simulate(kernel, (1, ), np.zeros(128, np.float32))
    refused(kernel, {"x": "*fp32"}, {}, "its source, .*later.cu, is not there")


def test_a_function_that_returns_nothing_has_no_result():
    @ptx(source=".func f(.param .b64 x, .param .b32 f) { ret; }")
    def f(x: Input[L["!llvm.ptr<3>"]], f: Input[L["f32"]]) -> L["f32"]: ...

    refused(once, {"x": "*fp32"}, {"F": f}, "the declared result is fp32, 32 bits, and the function returns none")


def test_what_changes_in_a_file_changes_the_keys(tmp_path):
    """Of launches in the process, of the cache on disk, of included files; tests/tle/test_raw_kernels.py has a GPU's run."""
    source, header = tmp_path / "scale.ptx", tmp_path / "tile.h"
    source.write_text(SCALE)
    header.write_text("1")
    later = tle.raw.dialect(name="ptx", file=str(source))(scale.fn)
    cuda = tle.raw.dialect(name="cuda", source=f'#include "{header}"\n')(scale.fn)

    @mimw.jit
    def naming(x):
        tle.raw.call_smem(later, [tle.gpu.alloc([128], tl.float32), 2])

    by_name, by_argument = ContentKeys(launch_key(naming)), ContentKeys(of=key_of_values)
    given = ((("constexpr", later), ), "options")

    def keys():
        return by_name.get(((), "options")), by_argument.get(given), MimwSource(naming, {"x": "*fp32"}).hash(), cuda.cache_key

    before = keys()
    assert keys() == before
    source.write_text(SCALE.replace("mul.f32", "add.f32"))
    header.write_text("2")
    assert all(now != then for now, then in zip(keys(), before, strict=True))
    assert by_argument.get(given) != by_argument.get(((("constexpr", scale), ), "options"))


def test_on_amd_it_is_refused():
    with pytest.raises(mimw.errors.TargetError, match="tle.raw.call of ptx is not available on gfx942"):
        to_assembly(once, {"x": "*fp32"}, {"F": scale}, "gfx942")
