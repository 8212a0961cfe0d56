"""How regions hand values on, one case for each op with regions."""

import pytest

from mimw.ir import OPS, Block, Op, Scalar, Task, Tensor, Value
from mimw.ir.flow import (
    LoopCarry,
    argument_types,
    carries,
    entering,
    handed_to,
    loop_carries,
    loop_carry,
    region_name,
    terminator,
    yielded_types,
)

I1, I32, F32 = Scalar("i1"), Scalar("i32"), Scalar("fp32")
TILE = Tensor(F32, (8, ))


def values(*names: str, type=I32) -> list[Value]:
    return [Value(type, name) for name in names]


def named(op: Op) -> list[tuple[str, str]]:
    return [(carry.source.name, carry.target.name) for carry in carries(op)]


def ends(*given: Value) -> tuple[Op, ...]:
    return (Op("yield", (given, )), )


def for_loop() -> Op:
    start, end, step, a, b = values("start", "end", "step", "a", "b")
    index, x, y, next_x, next_y, after_x, after_y = values("index", "x", "y", "next_x", "next_y", "after_x", "after_y")
    return Op("for", (start, end, step, (a, b)), (after_x, after_y), (Block((index, x, y), ends(next_x, next_y)), ))


def while_loop() -> Op:
    go = Value(I1, "go")
    a, x, given, inside, next_x, after = values("a", "x", "given", "inside", "next_x", "after")
    return Op("while", ((a, ), ), (after, ), (Block((x, ), (Op("condition", (go, (given, ))), )), Block((inside, ), ends(next_x))))


def test_if():
    condition, a, b, result = values("condition", "a", "b", "result")
    op = Op("if", (condition, (I32, )), (result, ), (Block((), ends(a)), Block((), ends(b))))
    assert named(op) == [("a", "result"), ("b", "result")]
    assert [carry.op.name for carry in carries(op)] == ["yield", "yield"]
    assert argument_types(op) == ((), ()) and yielded_types(op) == ((I32, ), (I32, ))


def test_for():
    op = for_loop()
    assert named(op) == [("a", "x"), ("a", "after_x"), ("b", "y"), ("b", "after_y"),
                         ("next_x", "x"), ("next_x", "after_x"), ("next_y", "y"), ("next_y", "after_y")]
    assert [carry.index for carry in carries(op)[:4]] == [3, 3, 4, 4]           # behind start, end and step
    body = op.blocks[0]
    assert loop_carries(op)[1] == LoopCarry(op.inits[1], body.args[2], body.yielded[1], op.results[1])
    assert loop_carry(op, op.results[0]) is not None and loop_carry(op, body.args[0]) is None
    assert entering(op, body.args[0]) is op.start and entering(op, body.args[2]) is op.inits[1]
    assert argument_types(op) == ((I32, I32, I32), ) and yielded_types(op) == ((I32, I32), )


def test_a_for_without_a_terminator():
    start, end, step, index = values("start", "end", "step", "index")
    op = Op("for", (start, end, step, ()), (), (Block((index, ), ()), ))
    assert carries(op) == () and loop_carries(op) == () and terminator(op.blocks[0]) is None


def test_while():
    op = while_loop()
    before, after = op.blocks
    assert named(op) == [("a", "x"), ("given", "inside"), ("given", "after"), ("next_x", "x")]
    assert loop_carries(op) == (LoopCarry(op.inits[0], before.args[0], after.yielded[0], None), )
    assert entering(op, before.args[0]) is op.inits[0] and entering(op, after.args[0]).name == "given"
    assert argument_types(op) == ((I32, ), (I32, )) and yielded_types(op) == ((I32, ), (I32, ))


def test_tasks():
    given, other, result = values("given", "other", "result")
    tasks = (Task("default", 4, is_default=True), Task("load", 1), Task("mma", 4))
    blocks = (Block((), ends(given)), Block((), ends(other)), Block((), ()))
    op = Op("warp_specialize", (), (result, ), blocks, attrs={"tasks": tasks, "types": (I32, )})
    assert named(op) == [("given", "result")]                                   # what the other tasks end with goes nowhere
    assert [region_name(op, index) for index in range(3)] == ["default", "task", "task"]
    assert yielded_types(op) == ((I32, ), None, None)


@pytest.mark.parametrize("name, args, taken", [
    ("reduce", 0, (F32, F32)), ("scan", 0, (F32, F32)), ("map_elementwise", 4, (F32, ) * 4)])
def test_ops_that_compute_by_their_region_hand_nothing_on(name, args, taken):
    tile, result, left, right = Value(TILE), Value(TILE), Value(F32), Value(F32)
    more = {"reduce": (0, ), "scan": (0, False), "map_elementwise": ((F32, ), 4)}[name]
    op = Op(name, ((tile, ), *more), (result, ), (Block((left, right), ends(left)), ))
    assert carries(op) == () and argument_types(op) == (taken, )
    assert yielded_types(op) == ((F32, ) * max(1, args), )


def test_where_one_use_goes():
    op = for_loop()
    body = op.blocks[0]
    assert [value.name for value in handed_to(op, 4, None)] == ["y", "after_y"]
    assert handed_to(op, 0, None) == ()                                         # the start: a number, not a carried value
    assert [value.name for value in handed_to(body.ops[-1], 1, op)] == ["y", "after_y"]
    condition = while_loop()
    assert handed_to(condition.blocks[0].ops[-1], 0, condition) == ()           # the condition itself goes nowhere
    assert [value.name for value in handed_to(condition.blocks[0].ops[-1], 1, condition)] == ["inside", "after"]
    assert handed_to(Op("add", (op.start, op.end)), 0, op) == ()


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.hands_on])
def test_rows_name_their_regions_and_operands(name):
    row = OPS[name]
    for source, targets in row.hands_on:
        assert source in row.params or source in row.regions
        assert {*targets} <= {"results", *row.regions}
