"""Pinned layouts in the final TTGIR, and what `dump_layout` prints."""

import re
import textwrap
from pathlib import Path

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.runtime.compile_kernel import compile_kernel
from tests.compiling import to_assembly, to_ttgir
from tests.processes import python

LAYOUT = tlx.layout(((32, 4), 4), ((4, 128), 1))


@mimw.jit
def pinned(x, LAYOUT: tl.constexpr, PIN: tl.constexpr):
    at = tl.arange(0, 512)
    tile = tlx.require_layout(tl.load(x + at), LAYOUT, pin=PIN)
    for _ in range(3):
        tile = (tile * 2).to(tl.float32)
    tl.store(x + at, tile + tl.sum(tile, 0))


def test_a_pin_survives_tritons_passes():
    layout = tlx.layout(((32, 4), 4), ((1, 32), 128))
    ttgir = to_ttgir(pinned, {"x": "*fp32"}, {"LAYOUT": layout, "PIN": True}).stages["ttgir"]
    anchor = re.search(r"%([\w.]+) = ttg.inline_asm .* -> (tensor<512xf32, #\w+>)", ttgir)
    carried = re.search(r"scf.for .*iter_args\(.* = %([\w.]+)\) -> \((tensor<.*?>)\)", ttgir)
    assert carried.groups() == anchor.groups()
    assert re.search(rf"arith.mulf %[\w.]+, %cst : {re.escape(anchor[2])}", ttgir)


@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1250"])
def test_a_pin_survives_on_amd(target):
    lanes = 32 if target == "gfx1250" else 64
    layout = tlx.layout(((lanes, 4), 128 // lanes), ((1, lanes), 4 * lanes))
    compiled = to_assembly(pinned, {"x": "*fp32"}, {"LAYOUT": layout, "PIN": True}, target, {"num_warps": 4})
    anchor = re.search(r"%[\w.]+ = ttg.inline_asm .* -> (tensor<512xf32, #\w+>)", compiled.stages["ttgir"])
    assert re.search(rf"arith.mulf %[\w.]+, %cst : {re.escape(anchor[1])}", compiled.stages["ttgir"])


@mimw.jit
def pinned_wide(x, LAYOUT: tl.constexpr):
    at = tl.arange(0, 512)
    tl.store(x + at, tlx.require_layout(tl.load(x + at), LAYOUT) + 1)


@pytest.mark.long(but=["gfx1250-fp16", "gfx1250-fp64", "gfx950-i64", "gfx950-i8"], everywhere=True)
@pytest.mark.parametrize("dtype", ["i64", "fp64", "fp16", "i8"])
@pytest.mark.parametrize("target", ["gfx950", "gfx1250"])
def test_a_pin_of_any_width_compiles_on_amd(target, dtype):
    lanes = 32 if target == "gfx1250" else 64
    layout = tlx.layout(((lanes, 4), 128 // lanes), ((1, lanes), 4 * lanes))
    text = to_assembly(pinned_wide, {"x": f"*{dtype}"}, {"LAYOUT": layout}, target, {"num_warps": 4}).stages["ttgir"]
    assert ("ttg.inline_asm" in text) == dtype.endswith("64")


def test_a_hint_leaves_no_trace_in_the_code():
    assert "inline_asm" not in to_ttgir(pinned, {"x": "*fp32"}, {"LAYOUT": LAYOUT, "PIN": False}).stages["ttgir"]


@mimw.jit
def dump(x, KIND: tl.constexpr, LAYOUT: tl.constexpr):
    at = tl.arange(0, 64)
    if KIND == "tile":
        tlx.dump_layout(at)
    elif KIND == "pinned":
        tlx.dump_layout(tlx.require_layout(at, LAYOUT) + 1)
    elif KIND == "accumulator":
        tile = tlx.local_alloc((64, 64), tl.float16, 1)
        tlx.dump_layout(tlx.async_dot_wait(0, tlx.async_dot(tile[0], tile[0])))
    elif KIND == "vector":
        tlx.dump_layout(tlx.local_alloc((64, ), tl.float32, 1)[0])
    elif KIND == "transposed":
        tile = tlx.local_alloc((64, 64), tl.float16, 1)
        tlx.dump_layout(tlx.local_trans(tile[0]))
    else:
        tlx.dump_layout(tlx.local_alloc((16, 64), tl.float16, 1, layout=LAYOUT)[0])
    tl.store(x + at, at)


SHOWN = [
    ("tile", None, r"tensor<64xi32, #ttg.blocked<.*>>", "((_32,_2,_2),_1):((_1,_32,_0),_0)"),
    ("pinned", tlx.layout(((32, 4), 2), ((2, 0), 1)), r"tensor<64xi32, #ttg.linear<.*>>", "((_32,_4),_2):((_2,_0),_1)"),
    ("accumulator", None, r"tensor<64x64xf32, #ttg.nvidia_mma<.*>>", "((_4,_8,_4),(_2,_2,_8)):((_2,_64,_1024),(_1,_512,_8))"),
    ("vector", None, r"!ttg.memdesc<64xf32, .*>", "_64:_1"),
    ("transposed", None, r"!ttg.memdesc<64x64xf16, .*>", "Swizzle<3,3,3> o (_64,_64):(_1,_64)"),
    ("buffer", None, r"!ttg.memdesc<16x64xf16, .*>", "Swizzle<3,3,3> o (_16,_64):(_64,_1)"),
    ("buffer", tlx.swizzled_layout(2, 2, 5), r"!ttg.memdesc<16x64xf16, .*>", "Swizzle<2,2,5> o (_16,_64):(_64,_1)"),
    ("buffer", tlx.swizzled_layout.make_default(2), r"!ttg.memdesc<16x64xf16, .*>", "_1024:_1"),
    ("buffer", tlx.swizzled_layout(0, 0, 0, [0, 1]), r"!ttg.memdesc<16x64xf16, .*>", "(_16,_64):(_64,_1)"),
    ("buffer", tlx.padded_shared_layout_encoding.with_identity_for([(64, 8)], [16, 64]), r"!ttg.memdesc<16x64xf16, .*>",
     "padded(8 after 64)"),
]


@pytest.mark.parametrize("kind, layout, type_, cute", SHOWN)
def test_dump(capfd, monkeypatch, kind, layout, type_, cute):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    compile_kernel(dump, {"x": "*i32"}, {"KIND": kind, "LAYOUT": layout})
    first, second, third = capfd.readouterr().err.splitlines()
    assert re.fullmatch(rf"// tlx.dump_layout @ {re.escape(__file__)}:\d+:\d+", first)
    assert re.fullmatch(rf"//   type: {type_}", second)
    assert third == f"//   cute: {cute}"


def test_maps_are_tritons():
    """In a process of its own: Triton keeps the Python classes that this asks it for, and complains at exit."""
    script = Path(__file__).with_name("linear_maps.py")
    run = python(script, PYTHONPATH=str(Path(mimw.__file__).parents[1]))
    said = textwrap.shorten(run.stdout + run.stderr, 2000)
    assert run.stdout.splitlines()[-3:] == ["19 equal cuda:90", "3346 equal hip:gfx950", "216 equal tables of scales"], said
