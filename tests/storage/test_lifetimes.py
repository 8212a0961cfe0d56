"""Bytes and lifetimes in shared memory."""

from mimw.compiler.storage import shared_plan
from tests.analysis.building import BF16, F32, Kernel, ring_copy


def test_a_ring():
    plan = shared_plan(ring_copy().program())
    assert [(entry.name, entry.kind, entry.count, entry.tile_bytes, entry.bytes, entry.pinned) for entry in plan.entries] == [
        ("tiles", "buffer", 4, 16384, 65536, True), ("full", "barriers", 4, 8, 32, True), ("free", "barriers", 4, 8, 32, True)]
    assert (plan.total, plan.peak) == (65600, 65600)


def lifetimes(build):
    k = Kernel()
    build(k)
    return [(entry.name, entry.first, entry.last, entry.pinned) for entry in shared_plan(k.program()).entries]


def test_from_the_allocation_to_the_last_use_through_views():
    def build(k):
        array = k.buffers("array", 2)
        k.op("local_load", k.one(array, 1), None)
        k.number(5)

    assert lifetimes(build) == [("array", 0, 3, False)]


def test_a_use_in_a_loop_lasts_as_long_as_the_loop():
    def build(k):
        outside = k.buffers("outside", 0)
        with k.loop(4):
            inside = k.buffers("inside", 0)
            k.op("local_load", outside, None)
            k.op("local_load", inside, None)
            k.number(0)

    assert lifetimes(build) == [("outside", 0, 9, False), ("inside", 5, 7, False)]


def test_what_cannot_be_followed_is_pinned():
    def build(k):
        buffer = k.buffers("carried", 0)
        with k.loop(4, [buffer]) as (_, (carried, )):
            k.carry(carried)
        k.number(1)

    assert lifetimes(build) == [("carried", 0, 6, True)]


def test_the_peak_is_less_than_the_sum_where_lives_do_not_meet():
    k = Kernel()
    for name, element in (("a", F32), ("b", BF16)):
        k.op("local_load", k.buffers(name, 0, (64, 64), element), None)
    plan = shared_plan(k.program())
    assert (plan.total, plan.peak) == (24576, 16384)
    assert [entry.name for entry in plan.at_peak] == ["a"]


def test_no_shared_memory():
    plan = shared_plan(Kernel().program())
    assert (plan.entries, plan.total, plan.peak, plan.at_peak) == ((), 0, 0, ())
