"""What the words of cluster launch control record and refuse."""

import pytest
import triton.language as tl

import mimw.tlx as tlx
from mimw.errors import KernelError, TargetError
from mimw.ir import LaunchFacts

from .harness import Kernel


@pytest.fixture
def kernel():
    return Kernel("sm100")


def names(kernel):
    return [op.name for op in kernel.program().walk() if op.name != "constant"]


def test_a_context(kernel):
    context = kernel(tlx.clc_create_context, 3, 2)
    context._set_name(kernel.builder, "clc")
    assert kernel.text() == [
        "%'clc.empty' = alloc_barriers count=2, arrive_count=3 clc='empty' : barrier<x 2>",
        "%'clc.full' = alloc_barriers count=2, arrive_count=1 clc='full' : barrier<x 2>",
        "%'clc.responses' = local_alloc buffer<i64[2] x 2> : buffer<i64[2] x 2>"]
    assert (context.clc_mbars_empty.num, context.clc_mbars_full.num, context.clc_responses.num) == (2, 2, 2)
    assert kernel(tlx.clc_create_context, 1).clc_responses.num == 1


def test_a_producer(kernel):
    context = kernel(tlx.clc_create_context, 1, 2)
    kernel(tlx.clc_producer, context, 1, k=kernel.tensor("k", tl.int32))
    assert names(kernel)[3:] == ["barrier_index", "barrier_index", "buffer_index", "barrier_wait", "barrier_expect", "clc_issue"]
    assert [op.bytes for op in kernel.program().walk() if op.name == "barrier_expect"] == [16]


def test_a_consumer(kernel):
    context = kernel(tlx.clc_create_context, 1)
    tile = kernel(tlx.clc_consumer, context, kernel.tensor("phase", tl.int32))
    assert isinstance(tile, tl.tensor) and tile.dtype == tl.int32 and not tile.type.is_block()
    assert names(kernel)[3:] == ["barrier_index", "barrier_index", "buffer_index", "barrier_wait", "clc_query", "icmpNE", "fence",
                                 "barrier_arrive"]
    (arrive, ) = (op for op in kernel.program().walk() if op.name == "barrier_arrive")
    assert arrive.predicate is not None
    place = kernel(tlx.clc_consumer, context, 0, return_3d=True)
    assert len(place) == 3 and all(one.dtype == tl.int32 for one in place)


@pytest.mark.parametrize("cluster, multi, issue, arrive, ranks", [
    ((2, 1, 1), True, "clc_issue_all", "remote_arrive", (0, 1)), ((2, 2, 1), True, "clc_issue_all", "remote_arrive", (0, 1, 2, 3)),
    ((2, 1, 1), False, "clc_issue", "barrier_arrive", None), ((1, 1, 1), True, "clc_issue", "barrier_arrive", None)])
def test_clusters(kernel, cluster, multi, issue, arrive, ranks):
    """The first CTA waits and asks for all; each expects the answer, and gives its stage back to the first."""
    kernel.builder.launch_facts = LaunchFacts(cluster)
    context = kernel(tlx.clc_create_context, 1)
    kernel(tlx.clc_producer, context, 1, multi)
    kernel(tlx.clc_consumer, context, 0, multi)
    ops = {op.name: op for op in kernel.program().walk()}
    assert issue in ops and arrive in ops
    assert ("cluster_cta_rank" in ops) == (issue == "clc_issue_all")
    if ranks:
        assert ops[issue].ranks == ranks and ops[issue].predicate is not None and ops["barrier_expect"].predicate is None
        assert [op.predicate is not None for op in kernel.program().walk() if op.name == "barrier_wait"] == [True, False]


def test_the_internal_words(kernel):
    responses, bar = kernel(tlx._alloc_clc_responses, 2), kernel(tlx.alloc_barriers, 1)
    assert responses.num == 2 and isinstance(responses, tlx.clc_response)
    kernel(tlx._clc_issue, kernel(tlx.local_view, responses, 1), bar)
    assert len(kernel(tlx._clc_query, kernel(tlx.local_view, responses, 0))) == 3
    kernel(tlx._clc_query, kernel(tlx._alloc_clc_responses, 1))     # an array of one is one
    with pytest.raises(KernelError, match="index 2 is out of range"):
        kernel(tlx.local_view, responses, 2)
    with pytest.raises(KernelError, match="a single clc_response cannot be indexed"):
        kernel(tlx.local_view, kernel(tlx.local_view, responses, 0), 0)
    for word, args in ((tlx._clc_issue, (bar, )), (tlx._clc_query, ())):
        with pytest.raises(KernelError, match="`response` must be one response, but it is an array of 2"):
            kernel(word, responses, *args)
        with pytest.raises(KernelError, match="`response` must be a clc_response"):
            kernel(word, bar, *args)


@pytest.mark.parametrize("word, args, error, text", [
    (tlx.clc_create_context, (0, ), ValueError, "num_consumers must be a positive constexpr int"),
    (tlx.clc_create_context, (1, 0), ValueError, "num_stages must be a positive constexpr int"),
    (tlx._alloc_clc_responses, (0, ), ValueError, "num must be a positive constexpr int"),
    (tlx.clc_producer, (None, 0), KernelError, "`context` must come from clc_create_context"),
    (tlx.clc_consumer, (1, 0), KernelError, "`context` must come from clc_create_context")])
def test_wrong_arguments(kernel, word, args, error, text):
    with pytest.raises(error, match=text):
        kernel(word, *args)


@pytest.mark.parametrize("word, parameter, first", [(tlx.clc_producer, "p_producer", 1), (tlx.clc_consumer, "p_consumer", 0)])
def test_phases(kernel, word, parameter, first):
    context = kernel(tlx.clc_create_context, 1)
    with pytest.raises(TypeError, match=f"`{parameter}` is missing.*\nMend: begin with {first}"):
        kernel(word, context)
    with pytest.raises(KernelError, match="`phase` must be 0 or 1, got 2"):
        kernel(word, context, 2)
    with pytest.raises(KernelError, match="index 1 is out of range"):
        kernel(word, context, 0, k=1)


@pytest.mark.parametrize("arch, error", [("sm90", TargetError), ("sm80", TargetError), ("gfx942", NotImplementedError)])
def test_chips_without_launch_control(arch, error):
    for word, args in ((tlx.clc_create_context, (1, )), (tlx.clc_producer, (None, 0)), (tlx.clc_consumer, (None, 0)),
                       (tlx._alloc_clc_responses, (1, )), (tlx._clc_issue, (None, None)), (tlx._clc_query, (None, ))):
        with pytest.raises(error, match=f"tlx.{word.__name__} (needs cluster launch control, .*Blackwell|is not available on)"):
            Kernel(arch)(word, *args)
