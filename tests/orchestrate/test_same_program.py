"""Whether two programs do the same: each small change is found, and what only looks different is not."""

import importlib
from dataclasses import replace

import pytest

from mimw.compiler.analysis.live import live_values
from mimw.compiler.analysis.same_program import difference
from mimw.ir import I32, Builder, Pointer, Program, Scalar, Site, Value
from mimw.ir.ops import is_pure
from tests.orchestrate.again import recorded, with_op

FP32 = Scalar("fp32")
NOT_COMMUTATIVE = ("sub", "sdiv", "srem", "fsub", "fdiv", "icmpSLT", "icmpSGE", "addptr", "select")


def program_of(name: str) -> Program:
    kernel, _, args, meta, _ = importlib.import_module(f"tests.orchestrate.cases.{name}").case()
    return recorded(kernel, args, meta).program


def changes(program: Program):
    """(what, program) of each small change that a live op allows."""
    live = live_values(program)
    for op in program.walk():
        if op.name == "constant" and op.result in live:
            other = op.value + 1 if op.value + 1 != op.value else 0
            yield f"another number, {op.site}", with_op(program, op, op.with_operands(value=other))
        if op.name in NOT_COMMUTATIVE and op.result in live and op.name != "addptr":
            one, other = ("if_true", "if_false") if op.name == "select" else ("lhs", "rhs")
            if getattr(op, one) is not getattr(op, other) and getattr(op, one).type == getattr(op, other).type:
                swapped = {one: getattr(op, other), other: getattr(op, one)}
                yield f"operands of {op.name} exchanged, {op.site}", with_op(program, op, op.with_operands(**swapped))
        if not is_pure(op.name) and not op.results and not op.blocks and "terminator" not in op.row.traits:
            yield f"no {op.name}, {op.site}", with_op(program, op)
            yield f"{op.name} twice, {op.site}", with_op(program, op, op, op)
        if op.name in ("fadd", "fmul", "add", "exp2", "maxnumf") and op.result in live:
            other = {"fadd": "fmul", "fmul": "fadd", "add": "sub", "exp2": "exp", "maxnumf": "minnumf"}[op.name]
            yield f"{other} for {op.name}, {op.site}", with_op(program, op, replace(op, name=other))
        if op.name == "yield" and len(op.values) > 1 and op.values[0].type == op.values[1].type:
            yield f"yield exchanged, {op.site}", with_op(program, op, op.with_operands(values=(op.values[1], op.values[0],
                                                                                              *op.values[2:])))


@pytest.mark.parametrize("name", ["attention", "gemm_pointers", "grouped_gemm", "layer_norm"])
def test_each_small_change_is_found(name):
    program = program_of(name)
    assert difference(program, program_of(name)) is None
    found = list(changes(program))
    silent = [what for what, changed in found if difference(program, changed) is None]
    assert len(found) > 30 and silent == []


# ---- loops ---------------------------------------------------------------------------------------------------------------

def loop(steps=(1, 1), order=(0, 1), starts=(0, 0), crossed=False, idle=False) -> Program:
    """Two numbers go round a loop, and both are stored behind it; `idle` carries a third that nothing needs."""
    b = Builder(Site("k.py", 1))
    out, n = b.param("out", Pointer(I32)), b.param("n", I32)
    zero, one = b.constant(0, I32), b.constant(1, I32)
    inits = [b.constant(starts[place], I32) for place in order] + [n] * idle
    around = b.place("for", zero, n, one, tuple(inits))
    with b.inside(around, (I32, ) * (1 + len(inits))) as (i, *carried):
        after = [b.emit("add", (carried[at], b.by_constant("mul", i, steps[place]))) for at, place in enumerate(order)]
        after = after[::-1] if crossed else after
        if idle:
            after.append(b.by_constant("add", carried[2], 3))
        b.emit("yield", (tuple(after), ))
    for place in (0, 1):
        pointer = b.emit("addptr", (out, b.constant(place, I32)))
        b.emit("store", (pointer, around.results[order.index(place)], ("cache", "none", "evict_normal")))
    return b.program("k", 4)


def test_what_a_loop_carries_may_come_in_another_order():
    assert difference(loop((1, 2)), loop((1, 2), order=(1, 0))) is None
    assert difference(loop((1, 2)), loop((1, 2), idle=True)) is None
    assert difference(loop((1, 2), starts=(3, 4)), loop((1, 2), starts=(3, 4), order=(1, 0))) is None


@pytest.mark.parametrize("other", [dict(steps=(1, 3)), dict(steps=(2, 1)), dict(steps=(1, 2), starts=(0, 1)),
                                   dict(steps=(1, 2), crossed=True)], ids=str)
def test_another_step_or_start_is_found(other):
    assert difference(loop((1, 2)), loop(**other)) is not None


def test_a_step_is_found_though_nothing_takes_the_sum():
    """What a loop carries for an effect within is compared by what a trip makes of it."""
    def stored(step: int) -> Program:
        b = Builder(Site("k.py", 1))
        out, n = b.param("out", Pointer(I32)), b.param("n", I32)
        around = b.place("for", b.constant(0, I32), n, b.constant(1, I32), (b.constant(0, I32), ))
        with b.inside(around, (I32, I32)) as (i, sum_):
            b.emit("store", (b.emit("addptr", (out, i)), sum_, None))
            b.emit("yield", ((b.by_constant("add", sum_, step), ), ))
        return b.program("k", 4)
    assert difference(stored(1), stored(1)) is None
    assert difference(stored(1), stored(2)) is not None


# ---- what is no difference ------------------------------------------------------------------------------------------------

def stored(make) -> Program:
    b = Builder(Site("k.py", 1))
    out, x, n = b.param("out", Pointer(FP32)), b.param("x", FP32), b.param("n", I32)
    b.emit("store", (out, make(b, x, n), None))
    return b.program("k", 4)


def value_of(b: Builder, value, type_: Scalar) -> Value:
    return b.emit("constant", (value, type_))


def test_casts_that_change_nothing_and_ops_that_nothing_needs():
    def plain(b, x, n):
        return b.emit("si_to_fp", (b.emit("add", (n, n)), FP32))

    def more(b, x, n):
        b.emit("mul", (n, n))
        again = b.emit("int_cast", (b.emit("add", (n, n)), I32, True))
        return b.emit("si_to_fp", (again, FP32))
    assert difference(stored(plain), stored(more)) is None


def test_ops_of_numbers_and_comparisons_with_a_number_in_front():
    def chosen(b, condition):
        return b.emit("select", (condition, value_of(b, 1.0, FP32), value_of(b, 2.0, FP32)))

    def plain(b, x, n):
        return chosen(b, b.emit("icmpSGT", (n, b.constant(-3, I32))))

    def turned(b, x, n, name="icmpSLT", number=4):
        return chosen(b, b.emit(name, (b.emit("sub", (b.constant(1, I32), b.constant(number, I32))), n)))
    assert difference(stored(plain), stored(turned)) is None
    assert difference(stored(plain), stored(lambda b, x, n: turned(b, x, n, "icmpSLE"))) is not None
    assert difference(stored(plain), stored(lambda b, x, n: turned(b, x, n, "icmpSGT"))) is not None
    assert difference(stored(plain), stored(lambda b, x, n: turned(b, x, n, number=5))) is not None


@pytest.mark.parametrize("one, other, same", [(0, 0.0, True), (0.0, -0.0, False), (float("nan"), float("nan"), True),
                                              (1.0, 1 + 2**-52, False)])
def test_numbers_are_compared_by_their_bits(one, other, same):
    said = difference(*(stored(lambda b, x, n, value=value: value_of(b, value, FP32)) for value in (one, other)))
    assert (said is None) == same


def test_the_sentence_names_both_ops_and_lines():
    def at(line: int, name: str):
        def make(b, x, n):
            b.site = Site("k.py", line)
            return b.emit(name, (x, x))
        return make
    said = difference(stored(at(7, "fadd")), stored(at(9, "fsub")))
    assert "fadd at k.py:7" in said and "fsub at k.py:9" in said and "store" in said


def test_parameters_and_launches_differ():
    one = stored(lambda b, x, n: x)
    assert "parameters" in difference(one, replace(one, params=one.params[:2]))
    assert "num_warps" in difference(one, replace(one, num_warps=8))


def test_an_effect_more_is_found():
    one = stored(lambda b, x, n: x)
    op = one.named("store")[0]
    assert "stands in the first program only" in difference(with_op(one, op, op, op), one)
