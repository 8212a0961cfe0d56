"""Stores of places and strides that a kernel loads: 16 bytes at a time where its numbers allow it, else as they were."""

import re

import numpy as np
import pytest

import mimw
from mimw.compiler.orchestrate import wide_stores
from mimw.compiler.orchestrate.plan import Plan
from mimw.compiler.orchestrate.wide_stores import widened
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import reasons, written
from tests.orchestrate.cases import grouped_addresses
from tests.orchestrate.test_groups import ODD, plain
from tests.orchestrate.test_made_boxes import aligned
from tests.orchestrate.test_orchestrate import case

LOADED = {"grouped_gemm": "(N & 7 == 0) & (at_c & 7 == 0)", "by_pointers": "(ldc & 7 == 0) & (c.to(tl.int64) & 15 == 0)"}
EIGHTS = ((72, 96, 64), (64, 72, 128), (16, 24, 64), (8, 64, 64))       # of multiples of 64 along K, as ODD
WHOLE = ((64, 128, 64), (128, 64, 128), (64, 64, 128))


def at_addresses():
    kernel, grid, args, meta, (memory, *_) = grouped_addresses.pointers(sizes=WHOLE)
    return plain_of(kernel, grid, args, meta, "sm_90a", memory)


def test_the_kernel_asks_and_has_the_store_in_both_ways():
    for name, one in (("grouped_gemm", plain("grouped_gemm", sizes=ODD)), ("by_pointers", at_addresses())):
        one = written(one, Plan(stages=2))
        assert f"if {LOADED[name]}:" in one.text and len(re.findall(r"tl\.store\(", one.text)) == 2, one.text
        assert "a multiple of 8" in "".join(line for line in reasons(one.remarks) if "writes 16 bytes at a time" in line)


@pytest.mark.parametrize("name, sizes", [("grouped_gemm", EIGHTS), ("grouped_gemm", ODD)])
def test_products_are_right(name, sizes):
    """Columns that 8 divides, places that it does not, and odd columns."""
    kernel, grid, args, meta, (out, expected) = case(name, sizes=sizes)
    one = written(plain_of(kernel, grid, args, meta | {"num_warps": 4}, "sm_90a"), Plan(stages=2))
    out[...] = np.nan
    mimw.simulate(one.kernel, grid, *one.arguments(), num_warps=one.num_warps)
    np.testing.assert_allclose(out.astype(np.float32), expected(), rtol=1e-2, atol=5e-2)


def test_a_plan_whose_arrays_begin_anywhere_is_proved():
    proof = prove(written(at_addresses(), Plan(stages=2)), seeds=2, limit=10)
    assert proof.ok and proof.compared, proof


def test_a_number_that_is_no_such_multiple_is_found(monkeypatch):
    its = wide_stores._Writer._multiple
    monkeypatch.setattr(wide_stores._Writer, "_multiple", lambda self, number, of, op: its(self, number, 2 * of, op))
    assert not prove(written(plain("grouped_gemm", sizes=EIGHTS, programs=2), Plan(stages=2)), seeds=1, limit=5).ok


def test_hopper_writes_16_bytes():
    one = written(plain("grouped_gemm"), Plan(stages=2))
    made = mimw.compile(one.kernel, one.plain.launch.grid, *one.arguments(), num_warps=one.num_warps, target="sm_90a")
    quick = [line for line in made.ptx.splitlines() if "st.global.v4" in line]
    assert len(quick) == 64 * 64 * 2 // 16 // (32 * one.num_warps)


@pytest.mark.parametrize("name", ["grouped_pointers", "gemm_pointers", "gemm_persistent", "grouped_descriptors"])
def test_a_promise_or_an_argument_is_not_asked(name):
    """`tl.multiple_of`, and strides of which the host knows what divides them."""
    kernel, grid, args, meta, _ = case(name)
    program = aligned(plain_of(kernel, grid, args, meta, "sm_90a").program)
    assert widened(program).program is program
