"""The product of pairs whose odd CTA says by an arrival that it is ready: simulated against numpy, planted mistakes, PTX."""

import re

import numpy as np
import pytest

import mimw
from tests.check.tables import found, right
from tests.compiling import to_assembly

from .pair_addmm import launch, pair_addmm


@pytest.mark.parametrize("sizes", [dict(m=264, n=72, k=40, stages=3), dict(m=600, n=96, programs=4), dict(n=64, bn=64, parts=4)],
                         ids=str)
def test_products(sizes):
    (kernel, grid, args, meta), c, wanted = launch(**sizes)
    mimw.simulate(kernel, grid, *args, races=True, **meta)
    np.testing.assert_array_equal(c, wanted)


@pytest.mark.parametrize("left_out", ["", "ARRIVE", "WAIT_BOTH", "WAIT_OWN", "READ_BY_BOTH"])
def test_when_it_is_right(left_out):
    """Iff each CTA waits for its bytes and says so, the even one hears of both, and both epilogues are waited for."""
    made, *_ = launch(n=96, k=32, **{left_out: False} if left_out else {})
    assert right(made, "random") == (not left_out)


@pytest.mark.parametrize("switch, kinds", [("ARRIVE", ("CopyReadEarly", "UnwrittenRead", "DataRace")),
                                           ("READ_BY_BOTH", ("SlotReusedEarly", "DataRace"))])
def test_the_other_cta_that_is_not_ready_is_named(switch, kinds):
    one = found(launch(n=96, k=32, **{switch: False})[0], *kinds)
    assert "CTA (1, 0, 0)" in one.message and len(one.sites) >= 2


def test_assembly():
    """The pair's products behind an arrival in the even CTA."""
    types = dict.fromkeys(("a_desc", "c_desc"), "tensordesc<fp16[128,32]>") | {"b_desc": "tensordesc<fp16[32,32]>"}
    types |= {"bias_ptr": "*fp32"} | dict.fromkeys("MNK", "i32")
    ptx = to_assembly(pair_addmm, types, dict(BM=128, BN=64, BK=32, STAGES=2, PARTS=2), "sm_100a",
                      dict(num_warps=4, ctas_per_cga=(2, 1, 1))).stage("ptx")
    assert ptx.count("tcgen05.mma.cta_group::2.kind::f16") == 2
    assert re.search(r"tcgen05\.alloc\.cta_group::2\S+ \[%r\d+\], 128;", ptx)
    assert len(re.findall(r"mbarrier\.arrive\S*shared::cluster", ptx)) == 2, "for `both`, and for `read`"
