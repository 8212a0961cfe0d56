"""The disassembler of many kernels at once says what Triton's says of each, and a wrong expectation is reported by name."""

import re

import pytest
import triton.language as tl
from triton.tools.disasm import get_sass

import mimw
from mimw.runtime.compile_kernel import compile_kernel
from tests.machine_code import Expected, disassembled, instructions, matching


@mimw.jit
def sums(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + at) + tl.sum(tl.load(y + at), 0))


@pytest.fixture(scope="module")
def two():
    return [compile_kernel(sums, {"x": "*fp32", "y": "*fp32"}, {"N": size}, "sm_90a") for size in (128, 512)]


def opcodes(lines):
    return [re.sub(r"^@!?\w+ ", "", line).split(" ")[0].rstrip(";") for line in lines]


def test_it_is_what_triton_prints(two):
    both = disassembled([each.stage("cubin") for each in two], "sm_90a")
    for compiled, sass in zip(two, both, strict=True):
        printed = [line.partition("\t")[2] for line in get_sass(compiled.stage("cubin")).splitlines()]
        wanted = [line for line in printed if line.endswith(";")]
        found = sass.splitlines()
        assert opcodes(found)[:len(wanted)] == opcodes(wanted) and set(opcodes(found)[len(wanted):]) <= {"BRA", "NOP"}
    assert instructions(two[0], r"\bSTG") and len(matching(both[1], r"\bLDG")) == 8


def test_a_wrong_expectation_is_named(two):
    expected = Expected()
    for expected.test, compiled, *patterns in (("first", two[0], "STG", ("LDL", 0)), ("second", two[1], "UTMALDG", ("EXIT", 7))):
        expected(compiled, *patterns)
    absent, fewer = expected.failures()
    assert absent == "SASS of second: 0 instructions match 'UTMALDG', not some"
    assert re.fullmatch(r"SASS of second: \d instructions match 'EXIT', not 7", fewer)
