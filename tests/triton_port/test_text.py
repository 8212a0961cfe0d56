"""The door to MLIR through its text: a round trip, a table of rewrites, and what the text says of locations and layouts."""

import re

import pytest
import triton.language as tl

import mimw
from mimw import tlx
from mimw.compiler.triton_port.codegen import mlir_context
from mimw.compiler.triton_port.text import ModuleText, Rewrite, located, module_of, rewritten
from tests.compiling import to_ttgir

TEXT = """#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("kernel.py":3:0)
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%arg0: i32) {
    %0 = arith.addi %arg0, %arg0 : i32 loc(#loc5)
    %1 = arith.muli %0, %0 : i32 loc(#loc7)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("kernel.py":4:8)
#loc2 = loc("kernel.py":5:8)
#loc5 = loc("sum.17"(#loc1))
#loc6 = loc("product.18"(#loc2))
#loc7 = loc(fused[#loc2, #loc6, #loc5])
"""


@pytest.fixture
def module():
    return module_of(TEXT, mlir_context())


def test_a_module_goes_through_text_and_back(module):
    assert str(module_of(str(module), module.context)) == str(module)


def test_the_first_rewrite_that_matches_a_whole_line_replaces_it(module):
    table = (Rewrite(re.compile(r"(.*)arith\.addi(.*)"), lambda line: f"{line[1]}arith.subi{line[2]}", times=1),
             Rewrite(re.compile(r".*arith\..*i .*"), lambda line: line[0].replace("muli", "xori")),
             Rewrite(re.compile(r"arith"), lambda line: "never: that is no whole line"))
    text = str(rewritten(module, table))
    assert "arith.subi" in text and "arith.xori" in text and "arith.addi" not in text and "arith.muli" not in text


@pytest.mark.parametrize("pattern, times", [(r".*arith.*", 1), (r".*arith.*", 3), (r".*scf.*", 1)])
def test_another_number_of_lines_than_expected(module, pattern, times):
    with pytest.raises(RuntimeError, match=f"expected {times} lines like .* found"):
        rewritten(module, (Rewrite(re.compile(pattern), lambda line: line[0], times), ))


def test_what_the_text_says():
    text = ModuleText(TEXT)
    assert text.numbers == {"#loc": -1, "#loc1": -1, "#loc2": -1, "#loc5": 17, "#loc6": 18, "#loc7": 18}
    assert text.positions == {"#loc": ("kernel.py", 3, 0), "#loc1": ("kernel.py", 4, 8), "#loc2": ("kernel.py", 5, 8),
                              "#loc5": ("kernel.py", 4, 8), "#loc6": ("kernel.py", 5, 8)}
    assert text.layouts["#blocked"].startswith("#ttg.blocked<{sizePerThread = [1]")
    assert text.number("#loc5") == 17 and text.number('"sum.19"("kernel.py":4:8)') == 19 and text.number("unknown") == -1


@pytest.mark.parametrize("line, parts", [
    ("%0 = arith.addi %a, %b : i32 loc(#loc5)", ("%0 = arith.addi %a, %b : i32", "#loc5")),
    ('tt.return loc("x.1"(#loc2))', ("tt.return", '"x.1"(#loc2)')), ("scf.yield", ("scf.yield", ""))])
def test_code_and_location_of_a_line(line, parts):
    assert located(line) == parts


@mimw.jit
def batched(x):
    tile = tlx.local_alloc((2, 16, 16), tl.float16, 1)
    tlx.local_store(tile[0], tl.full((2, 16, 16), 3, tl.float16))
    sums = tl.sum(tl.dot(tlx.local_load(tile[0]), tlx.local_load(tile[0])), 0)
    tl.store(x + tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :], sums)


def test_layouts_of_wmma_with_three_dimensions_are_read_back():
    """Triton's parser ends the process at the text that its own printer gives."""
    text = to_ttgir(batched, {"x": "*fp32"}, target="gfx1250").ttgir
    assert "rank" not in next(line for line in text.splitlines() if "#ttg.amd_wmma" in line)
    assert "tt.dot" in str(module_of(text, mlir_context()))
