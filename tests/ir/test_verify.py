"""What `verify` refuses: ops that are not what their rows declare. They are made by hand: nothing else makes wrong ones."""

from dataclasses import replace

import pytest

from mimw.errors import InvalidProgram
from mimw.ir import (
    OPS,
    Barrier,
    Buffer,
    Descriptor,
    Known,
    Op,
    Pipe,
    Pointer,
    Program,
    Scalar,
    Storage,
    Task,
    Tensor,
    Token,
    Value,
    verify,
)
from mimw.ir.core import Block
from mimw.ir.ops import result_types
from mimw.ir.types import DescriptorSlots, Type
from tests.every import every

I32, I1, BF16, F32 = Scalar("i32"), Scalar("i1"), Scalar("bf16"), Scalar("fp32")
TILE, MANY = Buffer(BF16, (128, 64)), Buffer(BF16, (128, 64), 4)

# One argument of every sort: each operand of each row takes some of these and refuses others.
SAMPLES = [*map(Value, (I1, I32, Scalar("i64"), F32, Pointer(F32), Tensor(I1, (8, )), Tensor(I32, (8, )), Tensor(F32, (8, )),
                        Tensor(Pointer(F32), (8, )), TILE, MANY, Barrier(), Barrier(4), Descriptor(BF16, (128, 64)), Token(),
                        Storage(), DescriptorSlots(), DescriptorSlots(2), Pipe(2, (TILE, )))),
           None, 1, True, 0.5, "add", F32, (8, 8), object(), (Value(I32), ), (Value(F32), ), (Value(MANY), ),
           (Value(Token()), ), (Value(Barrier(4)), ), (Value(Tensor(F32, (8, ))), ), (Value(Tensor(Pointer(F32), (8, ))), ),
           (F32, )]


def program(*ops: Op) -> Program:
    """A program of these ops, to which all values they take are given as block arguments."""
    made = {result for op in ops for result in op.results}
    given = dict.fromkeys(value for op in ops for value in op.operands if value not in made)
    return Program("kernel", (), Block(tuple(given), ops), 4)


def op(name: str, *args, attrs=None, **fields) -> Op:
    results = tuple(map(Value, result_types(name, args, attrs or {})))
    return Op(name, args, results, attrs=attrs or {}, **fields)


def load(barrier=None, buffer=None, attrs=None, offsets=2) -> Op:
    return op("tma_load", Value(Descriptor(BF16, (128, 64))), (Value(I32), ) * offsets, barrier or Value(Barrier()),
              buffer or Value(TILE), None, None, attrs=attrs)


def test_right_ops():
    array = Value(Barrier(4))
    one = op("barrier_index", array, 2)
    verify(program(one, op("barrier_wait", one.result, Value(I32), None), op("barrier_arrive", one.result, 1, Value(I1)), load(),
                   op("local_load", Value(TILE), attrs={"layout": None}), op("local_load", Value(TILE), Value(Token())),
                   op("async_dot", Value(TILE), Value(TILE), None, None, 0, attrs={"type": Tensor(F32, (128, 64))})))


@pytest.mark.parametrize("wrong, says", [
    (op("barrier_wait", Value(TILE), Value(I32), None),
     "'barrier' is a value of type buffer<bf16.128, 64.>, and should be Barrier"),
    (op("barrier_wait", Value(Barrier(4)), Value(I32), None), "'barrier' is a value of type barrier<x 4>, and should be Barrier"),
    (op("barrier_wait", Value(Barrier()), 0, None), "'phase' is the constant 0, and should be i32"),
    (op("barrier_arrive"), "operand 'barrier' .Barrier. is missing"),
    (op("barrier_arrive", Value(Barrier())), "operand 'count' .#int. is missing"),
    (op("tma_load", *(Value(TILE), ) * 6), "operand 'descriptor' is a value of type buffer"),
    (load(attrs={"nonsense": 3}), "no attribute is named 'nonsense'; there are none"),
    (load(buffer=Value(MANY)), "'buffer' is a value of type buffer<bf16.128, 64. x 4>, and should be Buffer"),
    (op("tma_load", Value(Descriptor(BF16, (128, 64))), (Value(I32), Value(F32)), Value(Barrier()), Value(TILE)),
     r"'offsets' is \(a value of type i32, a value of type fp32\), and should be i32\*"),
    (op("barrier_arrive", Value(Barrier()), 1, None, None, None), "5 arguments for the operands barrier count predicate chunk"),
    (op("remote_load", Value(TILE), Value(Tensor(I32, (8, ))), Value(Tensor(I32, (8, ))), None, None), "'run' .#int. is missing"),
    (op("local_load", Value(TILE), attrs={"layout": Value(I32)}), "attribute 'layout' is a value of type i32, and should be const"),
    (op("fence", 3), "'scope' is the constant 3, and should be #str"),
    (op("dot", Value(TILE), Value(TILE), Value(Tensor(F32, (128, 128))), None, 0), "operand 'a' is a value of type buffer"),
    (Op("no_such_op"), "no op is named 'no_such_op'"),
    (Op("get_program_id", (0, )), "results should have the types .'i32',."),
    (Op("warp_specialize", blocks=(Block((), ()), ), attrs={"tasks": ()}), "as many tasks as regions"),
], ids=lambda case: case.name if isinstance(case, Op) else "")
def test_wrong_ops(wrong, says):
    with pytest.raises(InvalidProgram, match=says):
        verify(program(wrong))


@every(OPS)
def test_no_operand_takes_anything(name):
    """Every operand and attribute of every row takes one of the samples, and refuses one: no declaration is empty."""
    row = OPS[name]
    for declared in (*row.operands, *row.attributes.values()):
        taken = [sample for sample in SAMPLES if declared.accepts(sample)]
        assert 0 < len(taken) < len(SAMPLES), f"{name}: {declared}"
        assert declared.optional == declared.accepts(None)
        values = [isinstance(getattr(sample, "type", None), Type) for sample in taken]
        if declared.name in row.attributes:
            assert not any(values), f"{name}: an attribute is no value"


def test_what_is_known_is_not_looked_at_again():
    once, wrong, known = op("fence", "gpu"), Op("fence", (3, )), set()
    verify(program(once), known)
    assert known == {once}
    with pytest.raises(InvalidProgram):
        verify(program(once, wrong), known)
    assert wrong not in known
    verify(program(once, wrong), known | {wrong})           # who says that an op is right is believed


def test_uses_are_looked_at_after_every_pass():
    known = set()
    index = op("barrier_index", Value(Barrier(4)), 0)
    arrive = op("barrier_arrive", index.result, 1, None)
    right = program(index, arrive)
    verify(right, known)
    with pytest.raises(InvalidProgram, match="is used before it is defined"):
        verify(Program("kernel", (), Block(right.body.args, (arrive, index)), 4), known)


def test_regions():
    task = Task("default", 4, True)

    def region(*ops):
        return Op("warp_specialize", blocks=(Block((), ops), ), attrs={"tasks": (task, )})

    verify(program(region(op("fence", "gpu"))))
    with pytest.raises(InvalidProgram, match="task regions do not nest"):
        verify(program(region(region())))
    with pytest.raises(InvalidProgram, match="a terminator stands before the end"):
        verify(program(region(op("yield", ()), op("fence", "gpu"))))


def block(args=(), gives=None, end="yield") -> Block:
    """A block with arguments of these types, that ends by handing on values of types `gives` (None: without a terminator)."""
    ends = () if gives is None else ((Op("yield", (tuple(map(Value, gives)), )), ) if end == "yield" else
                                     (Op("condition", (Value(I1), tuple(map(Value, gives)))), ))
    return Block(tuple(map(Value, args)), ends)


def looping(*blocks: Block, inits=(I32, ), name="for") -> Op:
    carried = tuple(map(Value, inits))
    args = (Value(I32), Value(I32), Value(I32), carried) if name == "for" else (carried, )
    return Op(name, args, tuple(map(Value, inits)), blocks)


def tile_op(name: str, *blocks: Block, more=(0, )) -> Op:
    return op(name, (Value(Tensor(F32, (8, ))), ), *more, blocks=blocks)


def alone(wrong: Op) -> Program:
    """A program of one op whose regions use values from nowhere; these are given as arguments of the kernel's block."""
    inside = [value for inner in wrong.walk() for value in inner.operands]
    return Program("kernel", (), Block(tuple(dict.fromkeys(inside)), (wrong, )), 4)


BEFORE, AFTER = block([I32], [I32], "condition"), block([I32], [I32])
DEFAULT = {"tasks": (Task("default", 4, is_default=True), Task("load", 1)), "types": (I32, )}


@pytest.mark.parametrize("right", [
    op("if", Value(I1), (I32, ), blocks=(block([], [I32]), block([], [I32]))), op("if", Value(I1), (), blocks=(block(), block())),
    looping(block([I32, I32], [I32])), looping(block([I32]), inits=()), looping(BEFORE, AFTER, name="while"),
    tile_op("reduce", block([F32, F32], [F32])), tile_op("scan", block([F32, F32], [F32]), more=(0, False)),
    tile_op("map_elementwise", block([F32] * 2, [F32] * 2), more=((F32, ), 2)),
    op("warp_specialize", blocks=(block([], [I32]), block()), attrs=DEFAULT)], ids=lambda case: case.name)
def test_right_regions(right):
    verify(alone(right))


@pytest.mark.parametrize("wrong, says", [
    (op("if", Value(I1), (I32, ), blocks=(block([], [I32]), )), "1 regions, and there should be 2"),
    (op("if", Value(I1), (I32, ), blocks=(block([], [I32]), block([], [F32]))), "'else' yields .fp32., and should yield .i32."),
    (op("if", Value(I1), (I32, ), blocks=(block([], [I32]), block())), "'else' yields .., and should yield .i32."),
    (op("if", Value(I1), (), blocks=(block([I32]), block())), "'then' takes .i32., and should take .."),
    (op("if", Value(I1), (I32, ), blocks=(block([], [I32], "condition"), block([], [I32]))), "'then' ends in a condition"),
    (looping(block([I32], [I32])), "'body' takes .i32., and should take .i32, i32."),
    (looping(block([F32, I32], [I32])), "'body' takes .fp32, i32., and should take .i32, i32."),
    (looping(block([I32, F32], [I32])), "'body' takes .i32, fp32., and should take .i32, i32."),
    (looping(block([I32, I32], [I32, I32])), "'body' yields .i32, i32., and should yield .i32."),
    (looping(block([I32, I32])), "'body' yields .., and should yield .i32."),
    (looping(BEFORE, name="while"), "1 regions, and there should be 2"),
    (looping(block([F32], [I32], "condition"), AFTER, name="while"), "'before' takes .fp32., and should take .i32."),
    (looping(BEFORE, block([F32], [I32]), name="while"), "'after' takes .fp32., and should take .i32."),
    (looping(BEFORE, block([I32], []), name="while"), "'after' yields .., and should yield .i32."),
    (looping(BEFORE, block([I32], [I32, I32]), name="while"), "'after' yields .i32, i32., and should yield .i32."),
    (looping(block([I32], [I32]), AFTER, name="while"), "'before' ends in a yield"),
    (looping(block([I32], [], "condition"), block([], [I32]), name="while"), "'before' yields .., and should yield .i32."),
    (looping(block(), block(), inits=(), name="while"), "'before' has no condition"),
    (tile_op("reduce"), "0 regions, and there should be 1"),
    (tile_op("reduce", block([F32], [F32])), "'body' takes .fp32., and should take .fp32, fp32."),
    (tile_op("reduce", block([F32, F32], [I32])), "'body' yields .i32., and should yield .fp32."),
    (tile_op("scan", block([F32, F32], [F32, F32]), more=(0, False)), "'body' yields .fp32, fp32., and should yield .fp32."),
    (tile_op("map_elementwise", block([F32], [F32]), more=((F32, ), 2)), "'body' takes .fp32., and should take .fp32, fp32."),
    (op("warp_specialize", blocks=(block([], [I32]), block([I32])), attrs=DEFAULT), "'task' takes .i32., and should take .."),
    (op("warp_specialize", blocks=(block([], [F32]), block()), attrs=DEFAULT), "'default' yields .fp32., and should yield .i32."),
    (Op("barrier", blocks=(block(), )), "1 regions, and there should be 0"),
], ids=lambda case: case.name if isinstance(case, Op) else "")
def test_wrong_regions(wrong, says):
    with pytest.raises(InvalidProgram, match=says):
        verify(alone(wrong))


def test_regions_are_looked_at_again_only_where_their_faces_change(monkeypatch):
    """A pass that changes an op in a loop makes the loop anew; what the loop takes and hands on is as it was."""
    looked, regions = [], verify.__globals__["_regions"]
    monkeypatch.setitem(verify.__globals__, "_regions", lambda one: looked.append(one) or regions(one))
    known, right = Known(), looping(block([I32, I32], [I32]))
    verify(alone(right), known)
    assert looked == [right]
    body = right.blocks[0]
    again = replace(right, blocks=(replace(body, ops=(op("fence", "gpu"), *body.ops)), ))
    verify(alone(again), known)
    assert looked == [right] and known == {right, *body.ops, again, again.blocks[0].ops[0]}
    verify(alone(replace(again)))
    assert len(looked) == 2         # a set that is no `Known` has ops only


@pytest.mark.parametrize("change, says", [
    (lambda one, body: replace(one, blocks=(replace(body, ops=(Op("fence", (3, )), *body.ops)), )), "'scope' is the constant 3"),
    (lambda one, body: replace(one, blocks=(replace(body, args=tuple(map(Value, (I32, F32)))), )), "'body' takes .i32, fp32."),
    (lambda one, body: replace(one, blocks=(replace(body, ops=()), )), "'body' yields .., and should yield .i32."),
    (lambda one, body: replace(one, blocks=(replace(body, ops=(Op("yield", ((Value(F32), ), )), )), )), "'body' yields .fp32."),
    (lambda one, body: replace(one, blocks=(body, body)), "2 regions, and there should be 1"),
    (lambda one, body: replace(one, results=(Value(F32), )), "results should have the types|should yield"),
    (lambda one, body: replace(one, args=(*one.args[:3], (Value(F32), ))), "results should have the types|should take"),
    (lambda one, body: one.with_attrs(nonsense=3), "no attribute is named 'nonsense'")])
def test_a_fault_in_a_loop_that_was_right_is_found(change, says):
    known, right = Known(), looping(block([I32, I32], [I32]))
    verify(alone(right), known)
    wrong = change(right, right.blocks[0])
    for _ in range(2):              # what was found wrong is not known the second time
        with pytest.raises(InvalidProgram, match=says):
            verify(alone(wrong), known)
