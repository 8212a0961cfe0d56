"""What the reader refuses, with the line; where reports say that a fault is; and that no reader goes untested."""

import re
from pathlib import Path

import numpy as np
import pytest

import mimw
from mimw.compiler.ttgir import read_ttgir, readable
from mimw.errors import LayoutConflict, MissingFence, NotYet, SimulatorMisuse, TtgirError
from tests.ttgir.modules import kernel, ran
from tests.ttgir.test_products import made

STORE = "tt.store %o, %n : !tt.ptr<i32>"
PARAMS = "%n: i32, %o: !tt.ptr<i32>"
OUT = np.zeros(1, np.int32)


def refused(text: str, error: type, words: str, line: int) -> None:
    with pytest.raises(error, match=words) as told:
        read_ttgir(text, "k.ttgir")
    assert f"k.ttgir:{line}" in str(told.value)


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_an_op_without_a_reader():
    text = kernel(PARAMS, "%c = math.ctpop %n : i32\n" + STORE)
    refused(text, NotYet, "math.ctpop has no meaning in the simulator(.|\n)*%0 = math.ctpop", line_of(text, "math.ctpop"))


def test_a_type_without_a_meaning():
    text = kernel(PARAMS, "%c = arith.constant 1 : i7\n" + STORE)
    refused(text, NotYet, "the type i7 has no meaning", line_of(text, "i7"))


def test_text_that_is_no_mlir():
    refused("this is no module\n", TtgirError, "MLIR cannot read this", 1)
    text = kernel(PARAMS, "%c = arith.addi %n, %absent : i32\n" + STORE)
    refused(text, TtgirError, "MLIR cannot read this: use of undeclared SSA value", line_of(text, "%absent"))


def test_two_kernels_and_none():
    other = "  tt.func public @other() {\n    tt.return\n  }\n"
    refused(kernel(PARAMS, STORE, more=other), TtgirError, "2 public functions: k, other", 1)
    refused(kernel(PARAMS, STORE).replace("func public", "func private"), TtgirError, "0 public functions: none", 1)


@pytest.mark.parametrize("op", ["ttng.cluster_barrier", "ttng.fence_mbarrier_init_release_cluster"])
def test_ops_of_clusters_are_none_of_a_module_of_one_cta(op):
    text = kernel(PARAMS, op)
    refused(text, TtgirError, "requires ttg.num-ctas > 1", line_of(text, op))


def test_arguments_that_do_not_fit():
    text = kernel(PARAMS.replace("i32,", "i32 {tt.divisibility = 16 : i32},", 1), STORE)
    with pytest.raises(SimulatorMisuse, match="k has 2 arguments, n, o, and 1 are given"):
        ran(text, 16)
    with pytest.raises(SimulatorMisuse, match="n is compiled as a multiple of 16, and is not"):
        ran(text, 17, OUT)
    ran(text, 32, OUT)
    assert OUT[0] == 32


def test_a_descriptor_is_one_argument():
    """The extents and strides behind it are its own."""
    one = made("GEMM by TMA, sm_90")
    assert read_ttgir(one.text).arguments == 4 == len(one.launches[0].args)


LOCATIONS = {
    'loc("k.py":7:5)': ["k.py:7"], 'loc("acc"("k.py":7:5))': ["k.py:7"],
    'loc(callsite("helper.py":3:4 at "k.py":9:1))': ["helper.py:3", "k.py:9"],
    'loc(callsite("x"("helper.py":3:4) at callsite("middle.py":5:2 at "y"("k.py":9:1))))': ["helper.py:3", "middle.py:5", "k.py:9"],
    'loc(fused["k.py":7:5, "other.py":8:1])': ["k.py:7"]}


@pytest.mark.parametrize("written", LOCATIONS)
def test_places_of_findings(written):
    """A store outside the array is said to be at the author's line, with the calls that led there."""
    body = f"%c9 = arith.constant 9 : i32\n%p = tt.addptr %o, %c9 : !tt.ptr<i32>, i32\ntt.store %p, %n : !tt.ptr<i32> {written}"
    (finding, ) = mimw.check_ttgir(kernel(PARAMS, body), (1, ), 3, OUT.copy(), seeds=1, jobs=1, rounds=False).findings
    assert finding.kind == "OutOfBounds"
    site = finding.sites[0]
    chain = [site] if isinstance(site, dict) else site.chain()
    assert [f"{one.file}:{one.line}" for one in chain] == LOCATIONS[written]


def test_a_place_without_an_author_is_in_the_text_itself():
    text = kernel(PARAMS, "%c9 = arith.constant 9 : i32\n%p = tt.addptr %o, %c9 : !tt.ptr<i32>, i32\n" + STORE.replace("%o", "%p"))
    (finding, ) = mimw.check_ttgir(text, (1, ), 3, OUT.copy(), file="k.ttgir", seeds=1, jobs=1, rounds=False).findings
    assert (finding.sites[0].file, finding.sites[0].line) == ("k.ttgir", line_of(text, "tt.store"))


def test_tensor_maps_have_their_fence_and_their_swizzle():
    text, (given, *_) = made("GEMM, own descriptors, sm_90").text, made("GEMM, own descriptors, sm_90").launches
    with pytest.raises(LayoutConflict, match="swizzle_mode 2, 64 bytes(.|\n)*swizzlingByteWidth = 128") as told:
        mimw.check_ttgir(text.replace("swizzle_mode = 3", "swizzle_mode = 2", 1), (1, 1), *given.args)
    assert "of_a = tl.make_tensor_descriptor" in str(told.value)
    with pytest.raises(MissingFence, match="no fence of that proxy"):
        mimw.check_ttgir(re.sub(r".*tensormap_fenceproxy_acquire.*\n", "", text, count=1), (1, 1), *given.args)


def test_a_layout_that_mlir_refuses_is_told_at_the_author_s_line():
    text = made("GEMM by TMA, sm_90").text
    other = text.replace("!tt.tensordesc<64x64xf16, #shared>", "!tt.tensordesc<64x64xf16, #edited>").replace(
        "module attributes", "#edited = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16}>\n"
        "module attributes")
    with pytest.raises(TtgirError, match="ttgir_edit_kernels.py:\\d+: MLIR cannot read this: 'ttng.async_tma_copy.*must match"):
        read_ttgir(other, "k.ttgir")


def test_no_reader_goes_untested():
    """Each op with a reader is named in a test of this folder."""
    texts = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [name for name in sorted(readable()) if not re.search(rf"{re.escape(name)}(?![\w.])", texts)] == []
