"""The border of functions in MLIR text: what is read of a text without MLIR's parser, and where its lines stand."""

import pytest

from mimw.ir import Buffer, Pointer, Scalar, Tensor
from mimw.ir.mlir_text import MlirError, MlirText
from mimw.ir.mlir_types import buffer_alias, in_some_layout, spelled, type_of
from tests.every import every

_TEXT = """// a brace in a comment {
#l = #ttg.blocked<{sizePerThread = [1],
  threadsPerWarp = [32]}>
!tile = tensor<4x64xbf16>
module {
  func.func public @first(%x: !tile, %p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %b: !ttg.memdesc<8x8xf8E5M2>) -> (!tile, i32) {
    tt.print "} return" : %x : !tile  return %x, %i : !tile, i32
  }
  tt.func @second() {
    tt.return
  }
}
"""


def test_the_border_of_functions():
    text = MlirText(_TEXT)
    first, second = text.functions
    assert [(one.name, one.type) for one in first.parameters] == [
        ("x", Tensor(Scalar("bf16"), (4, 64))), ("p", Pointer(Scalar("fp32"))), ("b", Buffer(Scalar("fp8e5"), (8, 8)))]
    assert first.results == (Tensor(Scalar("bf16"), (4, 64)), Scalar("i32")) and first.line == 6
    assert first.signature == "(%x: tensor<4x64xbf16>, %p: !tt.ptr<f32>, %b: !ttg.memdesc<8x8xf8E5M2>) -> (tensor<4x64xbf16>, i32)"
    assert (second.name, second.parameters, second.results) == ("second", (), ())
    assert text.called("", "second") is second and text.called("first", "second") is first
    with pytest.raises(MlirError, match="first, second"):
        text.called("", "third")


def test_the_text_as_mlir_has_it_keeps_lines():
    """Aliases apart, no module around the functions, one spelling; strings and comments stay as they are."""
    text = MlirText(_TEXT)
    lines = text.bodies.split("\n")
    assert len(lines) == len(_TEXT.split("\n")) == len(text.aliases.split("\n"))
    assert lines[6] == '    tt.print "} return" : %x : !tile  tt.return %x, %i : !tile, i32' and not lines[4].strip()
    assert "tt.func public @first" in lines[5] and "!ttg_memdesc_8x8xf8E5M2_" in lines[5] and "memdesc<" not in text.bodies
    assert text.aliases.split("\n")[1:4] == _TEXT.split("\n")[1:4] and not any(lines[1:4])
    here, there = lines[6].index("%x, %i"), _TEXT.split("\n")[6].index("%x, %i")
    assert text.position(7, here + 1) == (7, there + 1) and text.position(7, 5) == (7, 5) and text.position(99, 1)[0] == len(lines)


@every(["i1", "f16", "bf16", "f8E4M3FN", "!tt.ptr<i64>", "tensor<8xf32>", "tensor<2x4x!tt.ptr<bf16>>",
                                     "!ttg.memdesc<64x32xf16>", "!ttg.memdesc<1xi64>"])
def test_types_there_and_back(written):
    type_ = type_of(written)
    assert spelled(type_) == written
    if written.startswith("!ttg"):
        assert len(buffer_alias(type_)) == len(written)
        assert in_some_layout(type_).startswith(written[:-1] + (", #ttg.nvmma" if "16" in written else ", #ttg.swiz"))


@every(["index", "tensor<8xindex>", "memref<8xf32>", "tensor<?xf32>", "vector<4xf32>",
                                     "!tt.ptr<f32, 3>"])
def test_types_that_do_not_cross(written):
    assert type_of(written) is None
