"""Offsets of aliased buffers: the worked examples, and that no two buffers of a distinct group meet."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mimw.compiler.storage import Group, Leaf, alias_map, place_group, place_peers
from mimw.compiler.storage.aliases import leaves_of, size_of


def f32(key, *shape, num=2):
    return Leaf(key, _bytes(shape, 4), num)


def f16(key, *shape, num=2):
    return Leaf(key, _bytes(shape, 2), num)


def _bytes(shape, element):
    size = element
    for extent in shape:
        size *= extent
    return size


def shared(*children, group_size=1):
    return Group("shared", children, group_size)


def distinct(*children, group_size=1):
    return Group("distinct", children, group_size)


EXAMPLES = {
    "shared": (shared(f32("a", 64, 64), f16("b", 64, 64)), 16384, 32768, {"a": [0, 16384], "b": [0, 16384]}),
    "distinct": (distinct(f32("a", 64, 64), f32("b", 64, 64)), 32768, 65536, {"a": [0, 32768], "b": [16384, 49152]}),
    "distinct in shared": (
        shared(f32("qk", 64, 64), distinct(f16("p", 64, 64), f32("alpha", 64))), 16384, 32768,
        {"qk": [0, 16384], "p": [0, 16384], "alpha": [8192, 24576]}),
    "shared in distinct": (
        distinct(f32("A", 32, 32), shared(f32("B", 32, 32), f16("C", 32, 32))), 8192, 16384,
        {"A": [0, 8192], "B": [4096, 12288], "C": [4096, 12288]}),
    "subtiles": (
        shared(f32("qk", 64, 64), shared(f16("p", 64, 64, num=4), group_size=2)), 16384, 32768,
        {"qk": [0, 16384], "p": [0, 8192, 16384, 24576]}),
    "alignment": (
        distinct(shared(Leaf("A", 8, 4), distinct(Leaf("B", 8, 4), Leaf("C", 2, 4))), Leaf("D", 8, 4)), 384, 1536,
        {"A": [0, 384, 768, 1152], "B": [0, 384, 768, 1152], "C": [128, 512, 896, 1280], "D": [256, 640, 1024, 1408]}),
    "odd stride": (
        distinct(f32("a", 64, 64), f32("b", 64, 32)), 24576, 49152, {"a": [0, 24576], "b": [16384, 40960]}),
}


@pytest.mark.parametrize("root, stride, total, starts", EXAMPLES.values(), ids=EXAMPLES)
def test_worked_examples(root, stride, total, starts):
    plan = place_group(root)
    assert (plan.stride, plan.total) == (stride, total)
    assert {key: [place.start(i) for i in range(place.count)] for key, place in plan.places.items()} == starts


def test_without_a_tree_all_start_at_0():
    plan = place_peers([f32("a", 64, 64), f16("b", 64, 64, num=5)])
    assert plan.total == 40960
    assert [plan.places["b"].start(i) for i in range(5)] == [0, 8192, 16384, 24576, 32768]


def test_subtiles_behind_an_offset():
    """Two buffers of `p` a slot, behind the whole of `x`: each at slot * stride + offset + part * size."""
    plan = place_group(distinct(f32("x", 32), shared(f16("p", 64, num=4), group_size=2)))
    assert plan.stride == 384 and [plan.places["p"].start(i) for i in range(4)] == [128, 256, 512, 640]


def test_group_size_of_a_distinct_group_keeps_its_children_apart():
    plan = place_group(distinct(f32("a", 32, num=2), f32("b", 32, num=2), group_size=2))
    assert plan.total == 512
    assert [plan.places[key].start(i) for key in "ab" for i in range(2)] == [0, 128, 256, 384]


def test_swizzled_leaves_raise_the_alignment():
    plan = place_group(distinct(f32("alpha", 64), Leaf("p", 8192, 2, alignment=1024)))
    assert (plan.places["p"].offset, plan.stride) == (1024, 9216)


_leaf = st.builds(lambda size, count: (size, count), st.sampled_from([2, 8, 64, 256, 1000]), st.just(4))
_tree = st.recursive(_leaf, lambda inner: st.tuples(
    st.sampled_from(["shared", "distinct"]), st.lists(inner, min_size=1, max_size=3), st.sampled_from([1, 2])), max_leaves=6)


def _build(tree, numbers):
    if isinstance(tree[0], str):
        return Group(tree[0], tuple(_build(child, numbers) for child in tree[1]), tree[2])
    return Leaf(next(numbers), *tree)


@given(_tree)
def test_distinct_never_meets_and_everything_is_inside(tree):
    root = shared(_build(tree, iter(range(100))))
    plan = place_group(root)

    def ranges(node):
        return [(plan.places[leaf.key].start(i), plan.places[leaf.key].start(i) + leaf.size)
                for leaf in leaves_of(node) for i in range(leaf.count)]

    def check(node):
        if isinstance(node, Leaf):
            return
        for one, other in combinations(node.children, 2) if node.kind == "distinct" else ():
            assert not any(a < d and c < b for a, b in ranges(one) for c, d in ranges(other))
        for child in node.children:
            check(child)

    check(root)
    assert all(0 <= start < end <= plan.total for start, end in ranges(root))
    for leaf in leaves_of(root):
        own = sorted(ranges(leaf))
        assert all(end <= start for (_, end), (start, _) in zip(own, own[1:]))
    assert size_of(root) <= plan.stride


def test_map():
    plan = place_group(EXAMPLES["subtiles"][0])
    assert alias_map(plan.places.items(), plan.total) == (
        "    0 .. 16384  qk  2 buffers, every 16384\n"
        "    0 ..  8192  p   4 buffers, 2 in a row, every 16384\n"
        "32768 bytes")
