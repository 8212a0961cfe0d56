"""What the words of cluster launch control become: PTX and SASS, in tasks and outside, alone and in clusters."""

import re

import pytest
import triton.language as tl

import mimw
import mimw.tlx as tlx
from tests.kernels.one_word import CASES

from .harness import Case

ALONE = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
ALL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
CHIPS = ("sm_100a", "sm_103a", "sm_120a")


def lines(text, pattern):
    """What of each line of a text begins with the pattern, in order."""
    return [found[0] for line in text.splitlines() if (found := re.search(pattern, line))]


def compiled(name, cluster=None, chip="sm_100a"):
    case, _ = CASES[name]
    return case.compiled(chip, **({} if cluster is None else {"ctas_per_cga": cluster}))


@pytest.mark.long(everywhere=True, but=[
    "None-clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128-SELFCAST-sm_100a-clc",
    "None-clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128-SELFCAST-sm_103a-clc_in_tasks",
    "cluster1-request_1-BROADCAST-sm_120a-clc"])
@pytest.mark.parametrize("name", ["clc", "clc_in_tasks"])
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("cluster, request_, kind", [(None, ALONE, "SELFCAST"), ((2, 1, 1), ALL, "BROADCAST")])
def test_one_request(name, chip, cluster, request_, kind, sass_has):
    done = compiled(name, cluster, chip)
    assert lines(done.stage("ptx"), r"clusterlaunchcontrol\.try_cancel\S+") == [request_]
    sass_has(done, ("UGETNEXTWORKID", 1), rf"UGETNEXTWORKID\.{kind}\b")


@pytest.mark.parametrize("name", ["clc", "clc_in_tasks"])
@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
def test_an_answer_is_fenced_before_it_is_given_back(name, cluster):
    """Between the read of an answer, in the generic proxy, and the arrival that lets the next one be written, in the asynchronous
    one; whatever of the program id is asked for, is asked for only where a request was granted."""
    text = compiled(name, cluster).stage("ptx")
    arrive = r"mbarrier\.arrive\.shared::cta" if cluster is None else r"mbarrier\.arrive\.release\.\w+\.shared::cluster"
    asking = r"query_cancel\.is_canceled|@\w+ clusterlaunchcontrol\.query_cancel"
    found = lines(text, rf"ld\.shared\.v2\.b64|{asking}|fence\.proxy\.async\S+|{arrive}")
    found = found[found.index("ld.shared.v2.b64"):]
    asked = ["@taken clusterlaunchcontrol.query_cancel"] * 3
    one = ["ld.shared.v2.b64", "query_cancel.is_canceled", *asked, "fence.proxy.async.shared::cta;"]
    each = [*one, re.search(arrive, text)[0]]
    assert found == each * (1 if name == "clc" else 2)


@pytest.mark.parametrize("name", ["clc", "clc_in_tasks"])
def test_a_cluster_meets_before_and_after(name):
    """No answer lands in a CTA that has not made its barriers, or has left."""
    text = compiled(name, (2, 1, 1)).stage("ptx")
    before, after = text.split(ALL)
    assert "fence.mbarrier_init.release.cluster" in before
    assert text.count("barrier.cluster.arrive.release.aligned") >= 2 and "barrier.cluster.wait.acquire.aligned" in before
    assert ".reqnctapercluster 2, 1, 1" in text or ".reqnctapercluster 2" in text


def test_one_thread_of_the_first_cta_asks():
    text = compiled("clc", (2, 1, 1)).stage("ptx")
    request = text[:text.index(ALL)].rpartition("{")[2]
    assert re.search(r"elect\.sync\s+_\|leader", request) and "setp.ne.and.s32 on" in request and "@on " in request


@mimw.jit
def beside(x, BARRIERS: tl.constexpr):
    """An odd number of barriers of 8 bytes beside responses of 16."""
    bars = tlx.alloc_barriers(BARRIERS)
    context = tlx.clc_create_context(1, 1)
    more = tlx._alloc_clc_responses(3)
    tlx.clc_producer(context, 1)
    tlx.barrier_expect_bytes(bars[0], 16)
    tlx._clc_issue(more[2], bars[0])
    tlx.barrier_wait(bars[0], 0)
    taken, _, _ = tlx._clc_query(more[2])
    tl.store(x, taken + tlx.clc_consumer(context, 0))


@pytest.mark.parametrize("barriers", [1, 2, 3])
def test_answers_lie_at_multiples_of_16_bytes(barriers):
    """PTX ISA, clusterlaunchcontrol.try_cancel: the address is naturally aligned."""
    text = Case(beside, {"x": "*i32"}, {"BARRIERS": barriers}).compiled("sm_100a").stage("ptx")
    places = {int(found or 0) for found in re.findall(r"ld\.shared\.v2\.b64\s+\{[^}]*\}, \[global_smem(?:\+(\d+))?\]", text)}
    assert len(places) == 2 and not any(place % 16 for place in places), places
