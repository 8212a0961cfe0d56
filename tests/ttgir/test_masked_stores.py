"""A masked store by assembly is read where each register goes to the byte of its element, and refused where one does not."""

import re

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.compiler.ttgir import read_ttgir
from mimw.errors import NotYet
from mimw.runtime.ttgir import compiled_launch
from mimw.simulator import run


@mimw.jit
def kernel(x, y, m):
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 32)[None, :]
    there = tle.gpu.alloc([16, 32], tl.float16)
    number = rows * 32 + columns
    tl.store(tle.gpu.local_ptr(there), tl.full([16, 32], 7, tl.float16))
    tl.store(tle.gpu.local_ptr(there), tl.load(x + number), mask=number < m)
    tl.store(y + number, tl.load(tle.gpu.local_ptr(there)))


def _compiled():
    x, y = np.arange(512, dtype=np.float16), np.zeros(512, np.float16)
    return compiled_launch(kernel, (1, ), (x, y, 77), {"num_warps": 1}, "sm_90a"), x, y


def test_the_elements_below_the_mask():
    (launch, reading), x, y = _compiled()
    assert "@on st.shared" in reading.text
    assert any(op.name == "local_store" and op.mask is not None for op in launch.program.walk())
    run(launch.program, launch.grid, launch.values, seed=0)
    np.testing.assert_array_equal(y, np.where(np.arange(512) < 77, x, 7))


ELSEWHERE, OTHERS = "where the buffer has another element", "other registers than its flags"


@pytest.mark.parametrize("pattern, edit, why", [
    (r"xor\.b32 at, home, (\d+);", lambda found: f"xor.b32 at, home, {int(found[1]) ^ 64};", ELSEWHERE),
    (r"and\.b32 part, \$0, (\d+);", lambda found: f"and.b32 part, $0, {int(found[1]) ^ 1};", ELSEWHERE),
    (r"setp\.ne\.u32 on, \$(\d+), 0;", lambda found: f"setp.ne.u32 on, ${int(found[1]) + 1}, 0;", OTHERS),
])
def test_another_byte_is_refused(pattern, edit, why):
    (_, reading), _, _ = _compiled()
    last = list(re.finditer(pattern, reading.text))[-1]
    text = reading.text[:last.start()] + edit(last) + reading.text[last.end():]
    assert text != reading.text
    with pytest.raises(NotYet, match=why):
        read_ttgir(text, "edited.ttgir")
