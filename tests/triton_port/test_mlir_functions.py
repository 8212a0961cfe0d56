"""Functions of MLIR text: what they do to memory by MLIR's word, and what stands in the place of a call."""

import os
import re

import pytest

from mimw.compiler.triton_port.mlir_complaints import MlirProblem, complaints
from mimw.compiler.triton_port.mlir_effects import facts
from mimw.compiler.triton_port.mlir_functions import Machine, MlirSource, body, new_context
from mimw.compiler.triton_port.mlir_splice import Splice, spliced
from mimw.compiler.triton_port.text import module_of

_POINTERS = """tt.func @f(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %r: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %x = arith.constant 1.0 : f32
  %end = scf.for %i = %c0 to %n step %c1 iter_args(%at = %p) -> (!tt.ptr<f32>) : i32 {
    %v = tt.load %at : !tt.ptr<f32>
    %next = tt.addptr %at, %c1 : !tt.ptr<f32>, i32
    scf.yield %next : !tt.ptr<f32>
  }
  %c = arith.cmpi slt, %n, %c1 : i32
  %either = scf.if %c -> (!tt.ptr<f32>) {
    scf.yield %end : !tt.ptr<f32>
  } else {
    scf.yield %q : !tt.ptr<f32>
  }
  tt.store %either, %x : !tt.ptr<f32>
  tt.return
}"""
_NOTHING, _READ, _WRITTEN = frozenset(), frozenset(("read", )), frozenset(("write", ))


def _source(text, entry="f", warps=4):
    return MlirSource("\n" * text.count("\n"), text, entry, (), Machine(warps))


def test_accesses_through_loops_and_branches():
    """`%end` is a part of p, so the store writes p or q; r is never touched."""
    assert facts(_source(_POINTERS)) == ((_READ | _WRITTEN, _WRITTEN, _NOTHING, _NOTHING), False)


@pytest.mark.parametrize("line, pure", [
    ("%y = arith.addf %x, %x : tensor<64xf32>", True),
    ('tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %x : tensor<64xf32>', False),
    ('%y = tt.elementwise_inline_asm "mov.b32 $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true} '
     '%x : tensor<64xf32> -> tensor<64xf32>', True)])
def test_what_only_computes(line, pure):
    assert facts(_source(f"tt.func @f(%x: tensor<64xf32>) {{\n  {line}\n  tt.return\n}}")) == ((_NOTHING, ), pure)


def test_tiles_get_the_layouts_of_the_warps_that_call():
    text = "tt.func @f(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {\n  tt.return %x : tensor<8x256xf32>\n}"
    for warps, split in ((4, "[1, 4]"), (8, "[1, 8]"), (16, "[2, 8]")):
        made = body(_source(text, warps=warps), new_context())
        assert f"warpsPerCTA = {split}" in str(made.parameters[0]) and str(made.results[0]) == str(made.parameters[0])


def test_a_complaint_has_the_line_of_the_bodies():
    with pytest.raises(MlirProblem) as caught:
        facts(_source("\n\ntt.func @f(%x: i32) {\n  %y = arith.addi %x %x : i32\n  tt.return\n}"))
    assert (caught.value.line, caught.value.column, caught.value.what) == (4, 21, "expected ','")


def test_a_body_in_the_place_of_two_calls():
    """Values and aliases have names of their own, ops the number of the call and the author's line."""
    context = new_context()
    source = _source("tt.func @f(%x: i32) -> (i32, i32) {\n"
                     '  tt.print "%arg0 #l" {hex = false, isSigned = array<i32: 1>} : %x : i32\n'
                     "  %y = arith.addi %x, %x : i32\n  tt.return %y, %x : i32, i32\n}")
    made = body(source, context)
    module = module_of("""module attributes {"ttg.num-warps" = 4 : i32} {
      tt.func private @raw.7(i32) -> (i32, i32)
      tt.func public @kernel(%a: i32) {
        %b:2 = tt.call @raw.7(%a) : (i32) -> (i32, i32)
        tt.print " " {hex = false, isSigned = array<i32: 1>} : %b#1 : i32
        tt.return
      }
    }""", context)
    whole = spliced(module, {"raw.7": Splice(made.text, 7, lambda line, column: ("user.py", *source.position(line, column)))})
    text = str(whole)
    assert "tt.call" not in text and "@raw" not in text and 'tt.print "%arg0 #l"' in text
    for op, line in (("arith.addi", 3), ("builtin.unrealized_conversion_cast", 4)):
        (alias, ) = re.findall(rf"{op} .* loc\((#loc\d+)\)", text)
        (name, inside) = re.search(rf'^{alias} = loc\("(.*)"\((#loc\d+)\)\)$', text, re.MULTILINE).groups()
        assert name == "mlir.7" and re.search(rf'^{inside} = loc\("user.py":{line}:', text, re.MULTILINE)


def test_what_others_say_meanwhile_is_said(capfd):
    with complaints():
        os.write(2, b"a warning of another thread")
    assert capfd.readouterr().err == "a warning of another thread"
