"""A kernel without our words is Triton's: the same PTX and the same AMDGCN, byte for byte up to source locations."""

import re

import numpy as np
import pytest
import triton
import triton.language as tl

import mimw
from mimw.compiler.pipeline import gpu_target
from mimw.compiler.triton_port.runtime import ASTSource, stock_compile
from mimw.target import target as find_target
from tests.compiling import stopping, to_assembly, to_ttgir
from tests.kernels.undecorated import KERNELS

OPTIONS = {"enable_fp_fusion": True}


def without_locations(assembly: str) -> str:
    """The code of a PTX or AMDGCN text: no `.loc`, no debug sections, no comments."""
    code = assembly.split(".section\t.debug")[0]
    lines = (re.sub(r"\s*(//|;).*", "", line) for line in code.splitlines())
    return "\n".join(line for line in lines if line.strip() and not re.match(r"\s*\.(loc|file)\b|\$L__tmp|\.Ltmp", line))


def stock(function, signature, constexprs, target, options=OPTIONS):
    kernel = triton.jit(function)
    signature = {**signature, **dict.fromkeys(constexprs, "constexpr")}
    constants = {(kernel.arg_names.index(name), ): value for name, value in constexprs.items()}
    with stopping():
        return stock_compile(ASTSource(kernel, {name: signature[name] for name in kernel.arg_names}, constants),
                             target=gpu_target(find_target(target)), options=dict(options))


@pytest.mark.parametrize("name", KERNELS)
def test_ptx_is_triton_s(name):
    function, signature, constexprs = KERNELS[name]
    ours = to_assembly(mimw.jit(function), signature, constexprs, "sm_90a", OPTIONS)
    theirs = stock(function, signature, constexprs, "sm_90a")
    assert ours.stage("ttir") == theirs.asm["ttir"]
    assert ours.program is None and ".visible .entry" in ours.stage("ptx")
    assert without_locations(ours.stage("ptx")) == without_locations(theirs.asm["ptx"])


@pytest.mark.parametrize("name", ["softmax", "matmul"])
def test_amdgcn_is_triton_s(name):
    function, signature, constexprs = KERNELS[name]
    ours = to_assembly(mimw.jit(function), signature, constexprs, "gfx942", OPTIONS)
    theirs = stock(function, signature, constexprs, "gfx942")
    assert "s_endpgm" in ours.stage("amdgcn")
    assert without_locations(ours.stage("amdgcn")) == without_locations(theirs.asm["amdgcn"])


def test_options_reach_triton():
    function, signature, constexprs = KERNELS["softmax"]
    options = dict(num_warps=8, maxnreg=64, enable_fp_fusion=False)
    ours = to_assembly(mimw.jit(function), signature, constexprs, "sm_90a", options)
    assert ".reqntid 256" in ours.stage("ptx") and ".maxnreg 64" in ours.stage("ptx")
    theirs = stock(function, signature, constexprs, "sm_90a", options)
    assert without_locations(ours.stage("ptx")) == without_locations(theirs.asm["ptx"])


def test_the_comparison_sees_a_difference():
    function, signature, constexprs = KERNELS["softmax"]
    one, other = (stock(function, signature, dict(BLOCK=size), "sm_90a").asm["ptx"] for size in (512, 1024))
    assert without_locations(one) != without_locations(other)


def maker(c):
    factor = tl.constexpr(c)

    @triton.jit
    def scaled(v):
        return v * factor

    return scaled


THREE, FIVE = maker(3.0), maker(5.0)


@triton.jit
def applied(f: tl.constexpr, v):
    return f(v)


@mimw.jit
def by_both(x, y):
    at = tl.arange(0, 128)
    tl.store(y + at, THREE(tl.load(x + at)) + FIVE(tl.load(x + at)) + THREE(1.0))


@mimw.jit
def by_both_as_arguments(x, y):
    at = tl.arange(0, 128)
    tl.store(y + at, applied(THREE, tl.load(x + at)) + applied(FIVE, tl.load(x + at)) + applied(THREE, 1.0))


@pytest.mark.parametrize("kernel", [by_both, by_both_as_arguments])
def test_two_closures_of_one_text_are_two_functions(kernel):
    """Triton names a function by module, name and types, and would call the first for both."""
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    mimw.simulate(kernel, (1, ), x, y)
    found = to_ttgir(kernel, {"x": "*fp32", "y": "*fp32"}, {}, "sm_90a", OPTIONS)
    assert (y == 11).all()
    assert sorted(re.findall(r"constant (?:dense<)?([35])\.0+e\+00>? : tensor", found.stage("ttgir"))) == ["3", "5"]
