"""Which scalars are certain, and what therefore never runs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mimw.compiler.analysis import Uses, constant_of, first_value, never_runs
from mimw.ir import LaunchFacts
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
        op = k.regions("while", (k.number(4), ))
        with k.inside(op, (I32, )) as (before, ):
            k.op("condition", k.op("icmpSLT", before, k.param("n")), (k.op("add", before, k.number(1)), ))
        with k.inside(op, (I32, )) as (after, ):
            out(after)
            k.op("yield", (after, ))

    assert evaluated(build, first_value) == 5
    assert evaluated(build) is None


@pytest.mark.parametrize("name, alone, pair", [("cluster_cta_rank", 0, None), ("cluster_size_1d", 1, 2)])
def test_the_cluster(name, alone, pair):
    k = Kernel()
    value = k.op(name)
    k.op("print", "", False, (value, ), (True, ))
    program = k.program()
    number = program.body.ops[0].result
    assert constant_of(Uses(program), number) == alone
    assert constant_of(Uses(replace(program, launch_facts=LaunchFacts((2, 1, 1)))), number) == pair


def test_a_remainder_by_one():
    assert evaluated(lambda k, out: out(k.op("srem", k.param("n"), k.number(1)))) == 0


@pytest.mark.parametrize("guard, never", [
    (lambda k: k.when(k.number(0, I1)), True), (lambda k: k.when(k.number(1, I1)), False),
    (lambda k: k.when(k.op("icmpNE", k.op("cluster_cta_rank"), k.number(0))), True),
    (lambda k: k.when(k.op("icmpSLT", k.number(0), k.param("n"))), False),
    (lambda k: k.loop(k.op("cluster_size_1d"), start=1), True), (lambda k: k.loop(k.number(1)), False),
    (lambda k: k.loop(k.param("n"), start=1), False),
])
def test_what_never_runs(guard, never):
    k = Kernel()
    with guard(k):
        k.op("print", "", False, (), ())
        k.carry()
    program = k.program()
    printed = next(op for op in program.walk() if op.name == "print")
    assert never_runs(Uses(program), printed) is never


@pytest.mark.parametrize("predicate, never", [(0, True), (1, False), (None, False)])
def test_a_predicate_that_never_holds(predicate, never):
    k = Kernel()
    k.arrive(k.one(k.barriers("full", 1), 0), predicate=None if predicate is None else k.number(predicate, I1))
    program = k.program()
    arrive = next(op for op in program.walk() if op.name == "barrier_arrive")
    assert never_runs(Uses(program), arrive) is never
