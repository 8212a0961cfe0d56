"""PTX is taken apart as it is written, and what would change the kernel around it is refused with its line."""

import re
from pathlib import Path

import pytest

import mimw.tle as tle
from mimw.compiler.native.ptx import Param, PtxError, parse
from mimw.compiler.native.unit import chosen, unit_of
from tests.compiling import to_assembly
from tests.kernels import raw_cuda

MODULE = """
//
// Generated
.version 9.0
.target sm_90a
.address_size 64
    // .globl f
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.visible .func (.param .b32 func_retval0) helper(.param .b32 helper_param_0)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [helper_param_0];   /* a comment; with a semicolon */
    st.param.b32 [func_retval0+0], %r1;
    ret;
}
.visible .func add(.param .b64 .ptr .global .align 4 add_param_0, .param .align 8 .b8 add_param_1[16], .param .b32 add_param_2)
.noinline
{
    .loc 1 2 3
    ret;
}
"""


def test_a_text_is_taken_apart():
    module = parse(MODULE)
    assert (list(module.functions), list(module.variables), list(module.declared)) == (["helper", "add"], ["table"], ["vprintf"])
    assert module.functions["add"].parameters == (Param("add_param_0", 64), Param("add_param_1", 8, 16), Param("add_param_2", 32))
    assert module.functions["helper"].result == Param("func_retval0", 32) and module.functions["add"].line == 17


@pytest.mark.parametrize("text, line, message", [
    ("\n.visible .entry k() { ret; }", 2, "a kernel"),
    ("\n\n.shared .align 4 .b8 tile[64];", 3, r"a variable in \.shared"),
    (".extern .shared .b8 tile[];", 1, r"a variable in \.shared"),
    (".func f() { ret;", 1, "is not closed"),
    (".func f() { ret; }\n.func f() { ret; }", 2, "a second function f"),
    (".extern .func g();", 1, "declared and not defined"),
    (".maxnreg 32;", 1, "outermost"),
    (".func f()\n{\n  exit;\n}", 3, "`exit`"),
    (".func f()\n{\n  @%p1 exit;\n}", 3, "`exit`"),
    (".func f()\n{ setmaxnreg.dec.sync.aligned.u32 24; }", 2, "setmaxnreg"),
    (".func f(.param .texref t) { ret; }", 1, "is no parameter"),
    ("hello", 1, "not ended"),
])
def test_what_is_refused(text, line, message):
    with pytest.raises(PtxError, match=message) as caught:
        parse(text)
    assert caught.value.line == line


def of(text, name="f", key="k"):
    module = parse(text)
    return unit_of(module, chosen(module, "", name), key)


WORDS = {"tid": "%tid.x", "ntid": "128", "sync": "bar.sync 0", "result": "OUT"}


def test_a_body_stands_in_place_under_names_of_its_own():
    """A function called as an instruction is, a label with a dollar, a table, a thread's number, a barrier, a number returned."""
    unit = of("""
.const .align 4 .b32 table[2] = {1, 2};
.func (.param .b32 out) add(.param .b32 x, .param .b64 p)
{ .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p1;
  ld.param.u32 %r1, [x]; ld.param.u64 %rd1, [p];
  mov.u32 %r2, %tid.x; add.s32 %r1, %r1, %r2; setp.eq.s32 %p1, %r1, 0; @%p1 bra $L_1;
  ld.const.b32 %r2, [table]; bar.sync 0; barrier.sync 0; st.param.b32 [out+0], %r1; ret;
$L_1: mov.u32 %r1, %ntid.x; st.param.b32 [out], %r2; ret; }""", "add")
    text = unit.call(["A", "B"], WORDS)
    assert text == (
        "{ .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p1; mov.b32 %r1, A; mov.b64 %rd1, B; mov.u32 %r2, %tid.x; "
        "add.s32 %r1, %r1, %r2; setp.eq.s32 %p1, %r1, 0; @%p1 bra raw_k__L_1; ld.const.b32 %r2, [raw_k_table]; bar.sync 0; "
        "bar.sync 0; mov.b32 OUT, %r1; bra raw_k_end; raw_k__L_1: mov.u32 %r1, 128; mov.b32 OUT, %r2; raw_k_end: }")
    assert unit.module == ".const .align 4 .b32 raw_k_table[2] = {1, 2};" and unit.returns == 32


def test_a_structure_among_the_parameters_is_called():
    unit = of(".func f(.param .align 2 .b8 h[2], .param .b64 p) { ret; }")
    assert unit.body is None and unit.module.startswith(".func raw_k_f(") and unit.widths == (16, 64)
    text = unit.call(["H", "P"], WORDS)
    assert ".param .align 2 .b8 raw_in0[2]; st.param.b16 [raw_in0], H;" in text and "call.uni raw_k_f, (raw_in0, raw_in1);" in text


def test_helpers_are_declared_before_they_call_each_other():
    unit = of(".func f() { call.uni g, (); ret; }\n.func g() { call.uni h, (); ret; }\n.func h() { bar.sync 0; ret; }")
    assert unit.module.splitlines()[:2] == [".func raw_k_g();", ".func raw_k_h();"] and "call.uni raw_k_g" in unit.body
    assert unit.cta_wide == ("bar.sync 0;", )


@pytest.mark.parametrize("names, wanted, name, found", [
    (["_Z3addPf"], "", "add", "_Z3addPf"), (["a", "b"], "b", "x", "b"), (["only"], "", "other", "only"),
    (["_Z3addPf", "_Z4add2Pf"], "", "add", "_Z3addPf"), (["_ZN2ns3addEv"], "add", "x", "_ZN2ns3addEv")])
def test_which_function_is_called(names, wanted, name, found):
    module = parse("\n".join(f".func {one}() {{ ret; }}" for one in names))
    assert chosen(module, wanted, name).name == found


@pytest.mark.parametrize("names, wanted, message", [
    (["a", "b"], "", "no function is called f; the source defines a, b"), (["a"], "c", "no function is called c"),
    (["_Z1fi", "_Z1fPf"], "", "2 functions are called f")])
def test_no_such_function(names, wanted, message):
    module = parse("\n".join(f".func {one}() {{ ret; }}" for one in names))
    with pytest.raises(PtxError, match=message):
        chosen(module, wanted, "f")


def test_what_a_compiler_of_cuda_made_stands_in_a_warp_specialised_product():
    """epilogue.ptx is what NVRTC 13.0 made of the epilogue in tests/kernels/raw_cuda.py: no compiler is needed. Its instructions
    stand in the task, none of them a call, with the task's own threads."""
    source = (Path(__file__).parent / "epilogue.ptx").read_text()
    by_ptx = tle.raw.dialect(name="ptx", source=source, extern_func_name="epilogue")(raw_cuda.epilogue.fn)
    signature = {"a": "tensordesc<fp16[64, 64]>", "b": "tensordesc<fp16[64, 128]>", **dict.fromkeys(("bias", "c"), "*fp32"),
                 **dict.fromkeys("NK", "i32")}
    sizes = {"BM": 64, "BN": 128, "BK": 64, "STAGES": 2, "EPILOGUE": by_ptx}
    text = to_assembly(raw_cuda.gemm, signature, sizes).stage("ptx")
    (block, ) = (line for line in text.splitlines() if "raw_a0" in line)
    assert "wgmma.mma_async" in text and "call.uni" not in text and "%tid" not in block and "ex2.approx" in block
    assert "v4.f32" in block and re.search(r"mov\.u32 %r\d+, 128;", block)
