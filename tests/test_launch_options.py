"""Launch options, targets and seeds of the wrong kind: every tool says what they may be, before Python or Triton complains."""

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import LaunchError, SimulatorMisuse, TargetError
from mimw.runtime.compile_kernel import compile_kernel
from mimw.runtime.jit import triton_compile
from tests.compiling import to_assembly

TOOLS = (mimw.simulate, mimw.check, mimw.predict, mimw.compile, mimw.explain)
X = np.zeros(4, np.float32)
WRONG = [(dict(num_warps="4"), "num_warps is '4'; it is a number of warps, a power of two, 1 or more"),
         (dict(num_warps=3), "num_warps is 3; .*a power of two.* such as num_warps=4"), (dict(num_warps=0), "num_warps is 0"),
         (dict(num_warps=4.0), "num_warps is 4.0"), (dict(num_stages="2"), "num_stages is '2'; it is a number of stages"),
         (dict(num_stages=-1), "num_stages is -1"), (dict(num_ctas="1"), "num_ctas is '1'"),
         (dict(maxnreg="5"), "maxnreg is '5'; it is a number of registers a thread"),
         (dict(enable_fp_fusion=3), "enable_fp_fusion is 3; it may be True or False")]


@mimw.jit
def three(x):
    tl.store(x, 3.0)


def named(x, num_warps, seed):
    tl.store(x, num_warps + seed)


@pytest.mark.parametrize("option, text", WRONG)
def test_options_of_the_wrong_kind_are_refused_by_every_tool(option, text):
    for tool in TOOLS:
        with pytest.raises(LaunchError, match=text):
            tool(three, (1, ), X, **option)
    for launch in (lambda: three[(1, )](X, **option), lambda: three.warmup(X, grid=(1, ), **option),
                   lambda: compile_kernel(three, {"x": "*fp32"}, options=option),
                   lambda: triton_compile(triton.compiler.ASTSource(three, {"x": "*fp32"}), options=option)):
        with pytest.raises(LaunchError, match=text):
            launch()


def test_options_of_the_right_kind_are_taken():
    mimw.simulate(three, (1, ), X, num_warps=np.int64(8), num_stages=0, maxnreg=None, enable_fp_fusion=True)
    assert X[0] == 3
    mimw.simulate(mimw.jit(named), (1, ), X, 3, seed=2)      # what the kernel calls num_warps is the kernel's
    mimw.simulate(mimw.jit(named), (1, ), X, num_warps=2.5, seed=2)
    assert X[0] == 4.5


def test_a_target_is_a_name():
    for tool in TOOLS:
        with pytest.raises(TargetError, match="target is 7; it may be the name of one: sm_80, sm_90a"):
            tool(three, (1, ), X, target=7)


@pytest.mark.parametrize("seed", [("nope", 3), "x", 1.5, ((1, 2, 3), )])
def test_a_seed_is_a_number_or_a_schedule(seed):
    with pytest.raises(SimulatorMisuse, match="it may be a whole number, or a schedule: pairs"):
        mimw.simulate(three, (1, ), X, seed=seed)
    with pytest.raises(SimulatorMisuse, match="it may be a whole number, or a schedule: pairs"):
        mimw.check(three, (1, ), X, seeds=[0, seed])
    for seeds in ("abc", 2.0):
        with pytest.raises(SimulatorMisuse, match="seeds is .*; it may be how many, or a list of seeds and schedules"):
            mimw.check(three, (1, ), X, seeds=seeds)


def test_seeds_of_both_kinds_are_taken():
    assert mimw.check(three, (1, ), X, seeds=[np.int64(2), ((3, 1), ), ()]).ok


@pytest.mark.parametrize("value, text", [("x", "got 'x', a str"), (None, "got nothing"), ([1.0], r"got \[1.0\], a list")])
def test_a_descriptor_is_of_an_array(value, text):
    for make in (lambda: mimw.TensorDescriptor.from_tensor(value, [16]), lambda: mimw.TensorDescriptor(value, [16], [1], [16])):
        with pytest.raises(TypeError, match=f"a tensor descriptor is of an array of numpy or torch, and {text}"):
            make()


@mimw.jit
def multiplied(a, b, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tile = tlx.local_alloc((64, 64), tl.float16, 1)
    tlx.local_store(tile[0], tl.load(a + at))
    tl.store(c + at, tl.dot(tlx.local_load(tile[0]), tl.load(b + at)))


@mimw.jit
def multiplied_by_tl(a, b, c):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at)))


AMD = dict(waves_per_eu=2, matrix_instr_nonkdim=16, kpack=2, llvm_fn_attrs="amdgpu-sched-strategy=iterative-ilp,noinline")


@pytest.mark.parametrize("kernel", [multiplied, multiplied_by_tl])
def test_options_of_amd_reach_its_backend(kernel):
    signature = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
    code = {name: to_assembly(kernel, signature, {}, "gfx942", {name: value}) for name, value in AMD.items()}
    plain = to_assembly(kernel, signature, {}, "gfx942", {})
    assert "v_mfma_f32_32x32x8" in plain.stage("amdgcn") and "waves-per-eu" not in plain.stage("llir")
    assert "v_mfma_f32_16x16x16" in code["matrix_instr_nonkdim"].stage("amdgcn")
    assert '"amdgpu-waves-per-eu"="2,2"' in code["waves_per_eu"].stage("llir")
    assert '"amdgpu-sched-strategy"="iterative-ilp"' in code["llvm_fn_attrs"].stage("llir")
    assert "kWidth = 4" in plain.stage("ttgir") and "kWidth = 8" in code["kpack"].stage("ttgir")


@pytest.mark.parametrize("option", AMD)
@pytest.mark.parametrize("kernel", [multiplied, multiplied_by_tl])
def test_options_of_amd_are_unknown_on_nvidia(kernel, option):
    tiles = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((64, 64), np.float32)
    for tool in TOOLS:
        with pytest.raises(KeyError, match=f"Keyword argument {option} was specified but unrecognised"):
            tool(kernel, (1, ), *tiles, target="sm_90a", **{option: AMD[option]})
    mimw.simulate(kernel, (1, ), *tiles, target="gfx942", **{option: AMD[option]})
    assert (tiles[2] == 64).all()
