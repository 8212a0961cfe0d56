"""Which scalars are certain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mimw.analysis import Uses, constant_of, first_value
from tests.analysis.building import I1, I32, Kernel, Scalar


def evaluated(build, question=constant_of):
    """The answer for the value that `build(kernel)` stores."""
    k = Kernel()
    build(k, lambda value: k.op("print", "", False, (value, ), (True, )))
    program = k.program()
    printed = next(op for op in program.walk() if op.name == "print")
    return question(Uses(program), printed.args[2][0])


PYTHON = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
          "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "icmpSLT": lambda a, b: int(a < b),
          "icmpEQ": lambda a, b: int(a == b)}


@given(st.sampled_from(sorted(PYTHON)), st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_arithmetic_on_constants(name, a, b):
    assert evaluated(lambda k, out: out(k.op(name, k.number(a), k.number(b)))) == PYTHON[name](a, b)


@pytest.mark.parametrize("name, a, b, expected", [
    ("sdiv", 9, 4, 2), ("srem", 9, 4, 1), ("sdiv", 1, 0, None), ("srem", -1, 4, None), ("mul", 2**20, 2**20, None),
    ("shl", 1, 2, None),
])
def test_division_width_and_what_is_not_folded(name, a, b, expected):
    assert evaluated(lambda k, out: out(k.op(name, k.number(a), k.number(b)))) == expected


def test_parameters_are_not_known():
    assert evaluated(lambda k, out: out(k.op("add", k.param("n"), k.number(1)))) is None


def test_truth_is_one():
    assert evaluated(lambda k, out: out(k.number(-1, I1))) == 1


def test_casts_are_seen_through():
    assert evaluated(lambda k, out: out(k.op("int_cast", k.number(7), Scalar("i64"), True))) == 7


def counter(k, out):
    with k.loop(k.param("n"), [k.number(3)], start=2) as (i, (it, )):
        out(k.op("add", i, it))
        k.carry(k.op("add", it, k.number(1)))


def test_the_first_round_of_a_loop():
    assert evaluated(counter) is None
    assert evaluated(counter, first_value) == 5


def test_the_first_round_of_a_while():
    def build(k, out):
        op = k.recorder.create_while_op([I32], [k.number(4)])
        outside = k.recorder.get_insertion_block()
        before = k.recorder.create_block_with_parent(op.get_before(), [I32])
        k.op("condition", k.op("icmpSLT", before.args[0], k.param("n")), (k.op("add", before.args[0], k.number(1)), ))
        after = k.recorder.create_block_with_parent(op.get_after(), [I32])
        out(after.args[0])
        k.op("yield", (after.args[0], ))
        k.recorder.set_insertion_point_to_end(outside)

    assert evaluated(build, first_value) == 5
    assert evaluated(build) is None
