"""What random programs showed to be wrong in automatic orchestration, each on the smallest program that shows it."""

import numpy as np
import pytest

import mimw
from mimw.compiler.orchestrate.plan import Plan
from mimw.errors import OutOfSharedMemory
from mimw.runtime.fits import check_fits
from mimw.tools.orchestrate.loaded import most_counted
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written
from tests.orchestrate.found_by_fuzzing import CASES

STAYS = {"a while": "its address, or how often it runs, follows from desc.load"}


@pytest.mark.parametrize("name", CASES)
def test_it_is_equal_to_plain_and_clean(name):
    kernel, args, plan = CASES[name]
    one = written(plain_of(kernel, (1, ), args, {"num_warps": 4}, "sm_90a"), plan)
    assert not one.wrong and not one.refused, (one.wrong, one.refused)
    if name in STAYS:
        assert any(STAYS[name] in remark.message for remark in one.remarks)
    assert one.kernel is not None, one.remarks
    assert ("async_descriptor_store(" in one.text) == (name == "a store that runs on")
    proof = prove(one, seeds=2, limit=10)
    assert proof.ok or name in STAYS and "depends on data" in proof.wrong, proof
    assert all(not line["different"] for line in proof.compared)


def test_slots_are_fewer_where_scratch_takes_their_place():
    """The sums change their layout through shared memory, which nobody knows before layouts are there."""
    describe = mimw.TensorDescriptor.from_tensor
    x, y, r = (np.zeros(shape, np.float16) for shape in ((128, 1024), (1024, 64), (128, 64)))
    args = describe(x, [128, 64]), describe(y, [64, 64]), describe(r, [128, 64]), np.zeros((128, 64), np.float32), 1024
    plain = plain_of(CASES["sums that change their layout"][0], (1, ), args, {"num_warps": 4}, "sm_90a")
    one = written(plain, Plan())
    slots = max(ring.stages for ring in one.made.rings.roots)
    assert one.plan.stages == slots and one.kernel is not None
    deep = written(plain, Plan(stages=slots + 1))
    with pytest.raises(OutOfSharedMemory):
        check_fits(deep.launch().specialisation, deep.launch().program)


def test_products_of_computed_rows_end_in_their_trip():
    kernel, args, plan = CASES["computed rows"]
    one = written(plain_of(kernel, (1, ), args, {"num_warps": 4}, "sm_90a"), plan)
    assert one.kernel is not None and not one.made.rings.trailing and "async_dot_wait(1, " not in one.text


def test_counting_rounds_leaves_the_arrays_of_the_caller_alone():
    describe = mimw.TensorDescriptor.from_tensor
    x, y, c = (np.ones(shape, np.float16) for shape in ((128, 1024), (1024, 64), (128, 64)))
    args = describe(x, [128, 64]), describe(y, [64, 64]), describe(c, [128, 64]), np.array([1024], np.int32)
    one = written(plain_of(CASES["as long as an array says"][0], (1, ), args, {"num_warps": 4}, "sm_90a"), Plan())
    assert one.kernel is not None and most_counted(one) == 16
    assert most_counted(one, 4) == 5        # and the run ends there
    assert (c == 1).all() and (x == 1).all()
