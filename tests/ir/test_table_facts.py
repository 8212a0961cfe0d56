"""No row leaves out a fact: what an op does to each buffer and each barrier that it takes, and in which CTA."""

import pytest

from mimw.ir import OPS, ops
from mimw.ir.core import Op, Value
from mimw.ir.types import I32
from mimw.target import FEATURES
from tests.every import every

COSTS = "free move int float compare convert division special approximate dot shared global sync".split()
KINDS = {"wait", "test", "arrive", "expect", "announce", "complete", "commit", "meet", "init", "invalidate"}


def of_kind(row, *words):
    """The operands of a row whose declaration has one of the words."""
    return {one.name for one in row.operands if any(word in one.text for word in words)}


@every(OPS)
def test_every_buffer_is_read_written_seen_or_only_mentioned(name):
    row = OPS[name]
    stated = {*row.reads, *row.writes, *row.mentions, *filter(None, [row.view_of])}
    buffers = of_kind(row, "Buffer", "Storage")
    assert buffers <= stated, f"{name} takes {buffers - stated}: add `reads`, `writes`, `view_of` or `mentions`"
    assert {*row.reads, *row.writes} <= buffers, f"{name} has no such buffers"
    assert not set(row.mentions) & {*row.reads, *row.writes}


@every(OPS)
def test_every_barrier_is_used_or_seen(name):
    row = OPS[name]
    barriers = of_kind(row, "Barrier")
    barriers -= set(row.mentions)
    assert barriers <= {"barrier"}, "the facts about a barrier are about the operand of that name"
    assert bool(barriers) == bool(row.barrier or row.view_of == "barrier"), f"{name}: add `barrier` or `view_of`"
    assert row.barrier in KINDS | {""} and (row.barrier == "complete") == bool(row.brings)


LIES = {"view", "free", "tile", "block", "gathered", "lhs", "rhs", "left", "right", "columns", "rows", "elements", "bytes", "alike",
        "picked", "flat", "packed", "moved"}
GONE = {"local_ptr"}  # before layouts are chosen


@every(OPS)
def test_every_buffer_lies_somehow(name):
    """The layout solver reads how an op wants a buffer to lie, of each operand that is a buffer and not only mentioned."""
    row = OPS[name]
    buffers = of_kind(row, "Buffer") - set(row.mentions)
    if row.view_of and row.allocates or name in GONE:
        buffers = set()
    assert set(row.lies) == buffers, f"{name}: add `lies` for {buffers - set(row.lies)}"
    assert set(row.lies.values()) <= LIES
    assert ("block" in row.lies.values()) <= ("descriptor" in row.params)
    assert list(row.lies.values()).count("alike") in (0, 2)


@every(OPS)
def test_no_operand_hides_an_attribute_of_ops(name):
    assert set(OPS[name].params).isdisjoint(dir(Op("add")))


def test_an_operand_is_found_among_the_values():
    a, b, c = (Value(I32) for _ in range(3))
    load = Op("tma_prefetch", (a, (b, c), None, None))
    assert [load.index_of(name) for name in ("descriptor", "offsets", "predicate")] == [0, 1, 3]


@pytest.mark.parametrize("name, args, attrs, needed", [
    ("fence", ("async_shared", ), {}, "proxies"), ("fence", ("gpu", ), {}, ""), ("barrier_wait", (), {}, "barriers"),
    ("distributed_barrier", (), {"grid": True}, "grid_barrier"), ("distributed_barrier", (), {"grid": False}, ""),
    ("fadd", (), {}, "")])
def test_what_an_op_needs_of_a_chip(name, args, attrs, needed):
    assert OPS[name].needs_of(Op(name, args, attrs=attrs)) == needed


@every(OPS)
def test_facts_name_operands(name):
    row = OPS[name]
    assert {row.view_of, row.brings, *row.mentions} - {""} <= set(row.params)
    assert {row.peers} - {""} <= {*row.params, *row.attributes}
    assert row.copy in ("", "in", "out", "peer")


@every(OPS)
def test_the_cost_fits_the_accesses(name):
    row = OPS[name]
    assert row.cost in COSTS and f"`{row.cost}`" in ops.__doc__
    reads = {access for operand, access in row.touches if operand not in {*row.reads, *row.writes}}
    if row.cost == "global":
        assert reads, f"{name} accesses no global memory"
    if row.cost == "shared":
        assert row.reads or row.writes, f"{name} accesses no buffer"
    if row.cost in ("free", "move"):
        assert not row.touches, f"{name} accesses memory, and that takes time"
    if row.cost in ("float", "compare", "convert", "division", "approximate"):
        assert row.effects == {"pure"} and row.layout == "same", f"{name} is no arithmetic"


@every(OPS)
def test_who_works_together(name):
    """What reads or writes a whole buffer, and what synchronises or starts something, needs all threads of its task."""
    row = OPS[name]
    assert "collective" not in row.traits or row.effects.isdisjoint(("sync", "async")), f"{name}: `collective` goes without saying"
    assert "alone" not in row.traits or row.needs_all_threads is False and not row.effects.isdisjoint(("sync", "async"))
    if row.cost == "shared":
        assert row.needs_all_threads


@every(sorted({trait for row in OPS.values() for trait in row.traits}))
def test_every_trait_is_explained(trait):
    assert f"`{trait}`" in ops.__doc__


@every(OPS)
def test_ops_with_regions_say_how_they_hand_on(name):
    row = OPS[name]
    computes = bool(row.traits & {"combines", "maps"})
    assert bool(row.regions) == (bool(row.hands_on) or computes)
    assert ("control" in row.effects) == bool(row.regions or "terminator" in row.traits)
    assert not computes or {"values"} <= set(row.params)
    assert "terminator" not in row.traits or row.params[-1] == "values"
    assert "loop" not in row.traits or row.params[-1] == "inits"


@every(OPS)
def test_facts_agree_with_effects(name):
    row = OPS[name]
    if row.view_of:
        assert row.effects <= {"pure", "write"}             # local_alloc makes memory
    if row.reads and "dot" not in row.traits:
        assert "read" in row.effects
    if row.writes:
        assert "write" in row.effects
    if row.barrier:
        assert row.effects & {"sync", "async"}
    if row.copy:
        assert "pure" not in row.effects
    if {"rank", "targets", "ranks"} & {*row.params, *row.attributes} and name not in ("remote_ptr", "distributed_barrier"):
        assert row.peers, f"{name} names a rank: add `peers`"


def test_who_stores_registers():
    """Rows whose writes a reader may follow value by value: those of the task itself, into its own CTA."""
    assert {name for name, row in OPS.items() if row.stores_registers} == {
        "local_store", "local_scatter", "local_masked_scatter", "local_atomic_rmw", "local_atomic_cas",
        "tmem_store", "dsa_to_buffer", "dsa_binary", "dsa_move", "mlir_writes"}


VIEWS = {"slot", "part", "box", "transposed", "retyped", "flat", "pointer", "peer", "placed", "moved"}


@every(OPS)
def test_every_view_says_how(name):
    row = OPS[name]
    assert bool(row.view) == bool(row.view_of) and row.view in VIEWS | {""}
    assert {*row.elements_of, row.pointer_of} - {""} <= set(row.params)


@every(OPS)
def test_what_makes_memory_says_so(name):
    """Each row that gives buffers, barriers or storages and is no view of others allocates them."""
    row = OPS[name]
    assert row.allocates in ("", "buffer", "barriers", "storage")
    if row.allocates:
        assert "write" in row.effects and row.view in ("", "placed")
    assert (row.view == "placed") == (row.allocates == "buffer")


@every(OPS)
def test_times_and_needs(name):
    row = OPS[name]
    assert row.time in ("", "wait", "copy", "dot", "store", "work")
    assert ("dot" in row.traits) == (row.time == "dot")
    assert row.needs in (*FEATURES, "") and row.word
    assert not row.needed_if or row.needs and row.needed_if.partition("=")[0] in {*row.params, *row.attributes}
    assert not row.time == "wait" or row.blocks or "wait" in row.effects


@every(OPS)
def test_traits_agree_with_the_row(name):
    row, traits = OPS[name], OPS[name].traits
    assert ("atomic" in traits) == ("atomic" in name or name in ("remote_rmw", "remote_cas") or name.startswith("multimem"))
    assert not {"order", "scope"} <= set(row.params) or "atomic" in traits, "what takes a memory order is atomic"
    assert "whole" not in traits or ("buffer", "write") in row.touches
    assert "reduces" not in traits or row.copy == "out"
    assert ("assembly" in traits) == ("is_pure" in row.params)
    assert "clusters_only" not in traits or row.copy == "peer" and row.barrier == "complete"
    assert not row.folds or row.params == ("lhs", "rhs")
    numbers = range(-3, 4)
    assert row.absorbs == (next((a for a in (0, -1) if all(row.folds(a, b) == row.folds(b, a) == a for b in numbers)), None)
                           if row.folds and not row.relation and "quotient" not in row.traits and "remainder" not in row.traits
                           else None)
    assert bool(row.relation) == name.startswith("icmp")
    if "number" in traits:
        assert "pure" in row.effects


@pytest.mark.parametrize("name, numbers, result", [
    ("add", (3, 4), 7), ("sdiv", (-7, 2), -3), ("srem", (-7, 2), -1), ("maxsi", (3, 4), None), ("icmpSLE", (3, 3), 1)])
def test_folds(name, numbers, result):
    folds = OPS[name].folds
    assert (folds(*numbers) if folds else None) == result


def test_relations_and_folds_agree():
    for name, row in OPS.items():
        if row.folds and row.relation:
            for a, b in ((1, 2), (2, 2), (2, 1)):
                assert bool(row.folds(a, b)) == eval(f"{a} {row.relation} {b}"), name
