"""Arrivals and bytes from other CTAs count in the checks, where it is known which CTAs bring them; else the checks are silent."""

import pytest
import triton
import triton.language as tl

import mimw
import mimw.tlx as tlx
from mimw.errors import BytesNeverSent, BytesNotExpected, TooFewArrivals, TooManyArrivals, WaitCycle
from mimw.runtime.compile_kernel import compile_kernel
from tests.kernels.multicast_ring import HALF, RIGHT, exchange, ring


def compiled(kernel, cluster=2, target="sm_90a", **constants):
    signature = {"x_desc": "tensordesc<fp16[32,64]>", "y_ptr": "*fp16", "rounds": "i32", "who": "i32"}
    signature = {name: signature[name] for name in kernel.arg_names if name in signature}
    return compile_kernel(kernel, signature, constants, target, options={"ctas_per_cga": (cluster, 1, 1)})


def refused(kind, kernel, *facts, **options):
    with pytest.raises(triton.CompilationError) as caught:
        compiled(kernel, **options)
    error = caught.value.__cause__
    assert type(error) is kind, error
    assert all(fact in str(error) for fact in facts), error


def test_a_ring_over_two_ctas():
    compiled(ring, **RIGHT)


@pytest.mark.parametrize("kind, facts, change", [
    (BytesNeverSent, (f"{3 * HALF} bytes are expected, {HALF} bytes from each of 2 CTAs are copied",
                      "a barrier gets what every CTA of the cluster sends to it"), dict(EXPECT=3 * HALF)),
    (BytesNotExpected, (f"{HALF} bytes are expected, {HALF} bytes from each of 2 CTAs are copied",), dict(EXPECT=HALF)),
    (BytesNeverSent, ("'full' of CTA 1 of each cluster", f"{2 * HALF} bytes are expected, 0 bytes are copied"), dict(TARGETS=[0])),
    (TooFewArrivals, ("'empty' are not released: a phase takes 2 arrivals; a round brings one arrive of task 'default'", ),
     dict(TELL="own")),
    (TooFewArrivals, ("a phase takes 2 arrivals; a round brings one arrive of task 'default'", ), dict(TELL="other")),
    (TooFewArrivals, ("a phase takes 3 arrivals", ), dict(ARRIVALS=3)),
], ids=lambda case: case.__name__ if isinstance(case, type) else "")
def test_rings_that_cannot_go_round(kind, facts, change):
    refused(kind, ring, *facts, **RIGHT | change)


@pytest.mark.parametrize("change", [dict(EXPECT=3 * HALF), dict(TELL="other")])
def test_ctas_that_go_round_differently_are_left_to_the_simulator(change):
    """The loop starts at the CTA's own program id, so what comes from the other one in a round is not known."""
    compiled(ring, **RIGHT | change | dict(RANKED=True))


@mimw.jit
def told(who, y_ptr, COUNT: tl.constexpr, ARRIVE: tl.constexpr, HOW: tl.constexpr):
    """CTA 0 waits for COUNT arrivals, of which every CTA brings ARRIVE."""
    bar = tlx.alloc_barriers(1, arrive_count=COUNT)
    rank = tlx.cluster_cta_rank()
    if HOW == "all tell 0":
        tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=0)
    elif HOW == "others tell 0":
        if rank != 0:
            tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=0)
    elif HOW == "by predicate":
        tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=0, pred=rank != 0)
    elif HOW == "by program":
        if tl.program_id(0) % 4 != 0:
            tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=0)
    elif HOW == "somebody":
        tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=who)
    elif HOW == "some":
        if rank != who:
            tlx.barrier_arrive(bar, ARRIVE, remote_cta_rank=0)
    if rank == 0:
        tlx.barrier_wait(bar, 0)
        tl.store(y_ptr, 1.0)


@pytest.mark.parametrize("how, most", [("all tell 0", 4), ("others tell 0", 3), ("by predicate", 3), ("by program", 3),
                                       ("somebody", 4), ("some", None)])
def test_a_barrier_of_one_cta(how, most):
    """In a cluster of 4, right up to as many arrivals as can come; `some` says nothing of who comes, so nothing is refused."""
    for count in (most or 9, 2 * (most or 9)):
        compiled(told, 4, COUNT=count, ARRIVE=-(-count // (most or 9)), HOW=how)
    if most:
        refused(TooFewArrivals, told, f"waits for {most + 1} arrivals, {most} can come", f"one arrive from each of {most} CTAs",
                cluster=4, COUNT=most + 1, ARRIVE=1, HOW=how)


def test_the_cta_that_is_meant_is_named():
    refused(TooFewArrivals, told, "'bar' of CTA 0 of each cluster waits for 5 arrivals", cluster=4, COUNT=5, ARRIVE=1,
            HOW="all tell 0")


def test_two_ctas_that_bring_one_each_are_not_two_at_once():
    compiled(told, 4, COUNT=1, ARRIVE=1, HOW="all tell 0")
    refused(TooManyArrivals, told, "takes 1 arrival a phase", "arrives 2 times at once", cluster=4, COUNT=1, ARRIVE=2,
            HOW="all tell 0")


@pytest.mark.parametrize("copy", [True, False])
def test_bytes_of_remote_copies_and_stores(copy):
    compiled(exchange, FIRST=True, BYTES=128, COPY=copy)
    refused(BytesNeverSent, exchange, "256 bytes are expected, 128 bytes are copied", FIRST=True, BYTES=256, COPY=copy)
    refused(BytesNotExpected, exchange, "64 bytes are expected, 128 bytes are copied", FIRST=True, BYTES=64, COPY=copy)


def test_arrivals_behind_the_wait_of_every_cta():
    refused(WaitCycle, exchange, "behind the wait", FIRST=False, BYTES=128, COPY=True)
