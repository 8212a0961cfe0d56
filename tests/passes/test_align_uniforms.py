"""What divides a number or an address is told again behind `assume_uniform`."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.compiling import to_ttgir


@mimw.jit
def handed_on(x, n, y):
    base, row = tlx.assume_uniform(x + tl.program_id(0) * n), tlx.assume_uniform(tl.program_id(0))
    tl.store(y, tl.load(base + row))


@pytest.mark.parametrize("divisor, told", [(16, ["16"]), (2, ["8"]), (1, [])])
def test_an_address_is_told_of_and_a_number_without_divisor_is_not(divisor, told):
    """In bytes, of fp32; the parameters themselves have the same attribute in a line of their own."""
    attrs = {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", divisor]]} if divisor > 1 else None
    ttgir = to_ttgir(handed_on, {"x": "*fp32", "n": "i32", "y": "*fp32"}, {}, "gfx950", attrs=attrs).stage("ttgir")
    body = "\n".join(line for line in ttgir.splitlines() if "tt.func" not in line)
    assert re.findall(r"tt\.divisibility = (?:dense<)?(\d+)", body) == told
