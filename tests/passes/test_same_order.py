"""What may become of a tree of effects, and what may not: trees by hand."""

from mimw.compiler.passes.same_order import Changed, order_change
from mimw.compiler.triton_port.order import Node

FIXED = {3, 4, 7, 8}


def op(number, *others):
    return Node("op", number, others=frozenset(others))


def loop(number, *nodes):
    return Node("loop", number, [list(nodes)])


def branch(number, then, other=()):
    return Node("if", number, [list(then), list(other)])


BODY = (branch(2, [op(3)]), op(5), op(4), op(6))


def change(before, after):
    return order_change(list(before), list(after), FIXED)


def test_the_same_tree():
    assert change([loop(1, *BODY)], [loop(1, *BODY)]) is None


def test_an_if_that_moved_to_the_end_of_its_loop():
    moved = (op(5), op(4), op(6), branch(2, [op(3)]))
    assert change([loop(1, *BODY)], [loop(1, *moved)]) in (Changed(5, 3), Changed(2, 4), Changed(5, 4), Changed(5, 2))


def test_an_access_that_passed_a_fixed_op():
    assert change([loop(1, *BODY)], [loop(1, op(5), branch(2, [op(3)]), op(4), op(6))]) is not None
    assert change([op(5), op(3)], [op(3), op(5)]) == Changed(5, 3)
    assert change([op(3), op(5), op(4)], [op(5), op(3), op(4)]) is not None
    assert change([op(3), op(5), op(4)], [op(3), op(4), op(5)]) == Changed(5, 4)


def test_accesses_between_the_same_fixed_ops_are_nobodys_order():
    assert change([op(3), op(5), op(6), op(4)], [op(3), op(6), op(5), op(4)]) is None


def test_an_access_may_vanish_a_fixed_op_keeps_its_place():
    assert change([op(3), op(5), op(4)], [op(3), op(4)]) is None
    assert change([op(3), op(4)], [op(4), op(3)]) == Changed(3, 4)


def test_an_access_sunk_into_a_loop():
    assert change([op(5), loop(1, op(3))], [loop(1, op(5), op(3))]) is not None
    assert change([op(5), loop(1, op(6))], [loop(1, op(5), op(6))]) is None  # nothing fixed in it: no place


def test_a_fixed_op_that_left_its_loop_or_if():
    assert change([loop(1, op(3), op(4))], [op(3), loop(1, op(4))]) == Changed(3)
    assert change([branch(2, [op(3)], [op(4)])], [op(3), branch(2, [], [op(4)])]) == Changed(3)
    assert change([branch(2, [op(3)], [op(4)])], [branch(2, [op(4)], [op(3)])]) is not None


def test_a_loop_pipelined_by_its_owner():
    before = [op(3), loop(1, op(5), op(6)), op(4)]
    assert change(before, [op(3), op(5), op(5), loop(1, op(6), op(5)), op(6), op(4)]) is None
    assert change(before, [op(5), op(3), loop(1, op(6), op(5)), op(6), op(4)]) is not None


def test_an_unrolled_loop():
    assert change([loop(1, *BODY)], [loop(1, *BODY, *BODY), loop(1, *BODY)]) is None
    moved = (op(5), op(4), op(6), branch(2, [op(3)]))
    assert change([loop(1, *BODY)], [loop(1, *moved, *moved)]) is not None


def test_what_is_left_over_of_an_unrolled_loop():
    assert change([loop(1, *BODY), op(7)], [loop(1, *BODY, *BODY), *BODY, op(7)]) is None
    assert change([loop(1, *BODY), op(7)], [loop(1, *BODY, *BODY), op(5), branch(2, [op(3)]), op(4), op(6), op(7)]) is not None
    assert change([loop(1, *BODY), op(7)], [*BODY, loop(1, *BODY), op(7)]) is not None
    lost = op(5, 5, 9)  # a read that lost its number, in the loop or before it
    before = [op(9), loop(1, op(3), op(5), op(4)), op(7)]
    assert change(before, [op(9), loop(1, op(3), lost, op(4)), op(3), lost, op(4), op(7)]) is None


def test_a_loop_taken_apart_in_an_unrolled_loop():
    inner = (op(4), op(6))
    assert change([loop(1, op(3), loop(9, *inner), op(7))], [loop(1, *(op(3), *inner, *inner, op(7)) * 3)]) is None
    assert change([loop(1, op(3), loop(9, *inner), op(7))], [loop(1, *(op(3), op(7), *inner, *inner) * 3)]) is not None


def test_an_if_with_other_branches_in_other_rounds():
    body = (op(3), branch(2, [op(4), op(5)], [op(6)]))
    assert change([loop(1, *body)], [op(3), op(4), op(5), op(3), op(6), op(3), branch(2, [op(5)], [op(6)])]) is None


def test_a_loop_taken_apart():
    assert change([op(7), loop(1, op(3), op(5), op(4)), op(8)], [op(7), op(3), op(5), op(4), op(3), op(5), op(4), op(8)]) is None
    assert change([op(7), loop(1, op(3), op(4)), op(8)], [op(7), op(4), op(3), op(8)]) is not None
    assert change([op(7), loop(1, op(3), op(4)), op(8)], [op(7), op(3), op(8), op(4)]) is not None


def test_an_if_of_a_known_condition():
    assert change([branch(2, [op(3)], [op(4)]), op(7)], [op(3), op(7)]) is None
    assert change([branch(2, [op(3)], [op(4)]), op(7)], [op(7)]) is None
    assert change([branch(2, [op(3), op(4)]), op(7)], [op(3), op(7), op(4)]) is not None


def test_neighbouring_ifs_joined():
    before = [branch(1, [op(3), op(5)]), branch(2, [op(4)]), op(7)]
    assert change(before, [branch(1, [op(3), op(5), op(4)]), op(7)]) is None
    assert change(before, [branch(2, [op(3), op(5), op(4)]), op(7)]) is None
    assert change(before, [branch(1, [op(4), op(3)]), op(7)]) is not None
    assert change(before, [branch(2, [op(4), op(3)]), op(7)]) is not None
    beside = [branch(1, [op(3)]), branch(2, [op(5)]), op(7)]  # the second holds nothing fixed, and gives the number
    assert change(beside, [branch(2, [op(3), op(5)]), op(7)]) is None
    assert change(beside, [branch(2, [op(5), op(3)]), op(7)]) is not None
    assert change([*beside[:2], op(6), op(7)], [branch(2, [op(3), op(5)]), op(6), op(7)]) is None
    assert change([*beside[:2], op(6)], [branch(2, [op(3), op(5)]), op(5, 5, 6)]) is None
    empty = [branch(1, [op(3)]), branch(2, []), op(7)]
    assert change(empty, [branch(2, [op(3)]), op(7)]) is None
    assert change(empty, [op(7), branch(2, [op(3)])]) is not None


def test_ifs_with_something_between_them_are_not_joined():
    far = [branch(1, [op(3)]), op(7), branch(2, [op(4)])]
    assert change(far, [branch(1, [op(3), op(4)]), op(7)]) is not None
    assert change(far, [op(7), branch(2, [op(3), op(4)])]) is not None
    assert change([*far[:2], branch(2, [op(5)])], [op(7), branch(2, [op(3), op(5)])]) is not None
    assert change([branch(1, [op(5)]), *far[1:]], [op(7), branch(2, [op(5), op(4)])]) is not None


def test_a_read_that_lost_its_number_is_one_of_its_buffers_reads():
    before = [op(5), op(3), op(6), op(4)]
    assert change(before, [op(3), op(5, 6), op(4)]) is None
    assert change([op(5), op(3), op(4)], [op(3), op(5, 5), op(4)]) is not None
