"""LLVM IR to PTX: optimised, with the functions of libdevice; an error has the author's line, and the process goes on."""

import pytest

from mimw.compiler.native import unit_of_code
from mimw.errors import RawCodeError
from mimw.ir.raw_code import RawCode
from mimw.target import target

TEXT = """
define float @power(float %x, ptr addrspace(3) %p) {
  %y = call fastcc float @half(float %x)
  %z = call float @__nv_expf(float %y)
  store float %z, ptr addrspace(3) %p
  ret float %z
}
define internal fastcc float @half(float %x) {
  %y = fmul float %x, 0.5
  ret float %y
}
declare float @__nv_expf(float)
"""


def made(text):
    return unit_of_code(RawCode("power", "llvm", text, "power.ll", 10), target("sm_90a"))


def test_a_text_becomes_one_block():
    unit = made(TEXT)
    assert unit.widths == (32, 32) and unit.returns == 32 and unit.module == ""
    assert "ex2.approx" in unit.body and "st.shared.b32" in unit.body and "call" not in unit.body


@pytest.mark.parametrize("text, message, line", [
    (TEXT.replace("float %x, 0.5", "float %w, 0.5"), "LLVM: use of undefined value '%w'", 18),
    ("declare void @f()", "the text defines no function", 10)])
def test_what_is_refused(text, message, line):
    with pytest.raises(RawCodeError, match=message) as caught:
        made(text)
    assert (caught.value.sites[0].file, caught.value.sites[0].line) == ("power.ll", line)
