"""Definitions, uses, parents and tasks."""

from mimw.compiler.analysis import Uses, task_label
from tests.analysis.building import Kernel, ring_copy


def test_definitions_and_uses():
    k = Kernel()
    n = k.param("n")
    k.at(3).op("add", n, n)
    program = k.program()
    uses = Uses(program)
    (op, ) = program.walk()
    param = program.params[0].value
    assert [(use.op, use.index) for use in uses.of(param)] == [(op, 0), (op, 1)]
    assert uses.definition[param] is None
    assert uses.definition[op.result] is op
    assert uses.of(op.result) == ()
    assert (uses.site(op.result).line, uses.site(param).line) == (3, 1)


def test_where_an_op_stands():
    program = ring_copy().program()
    uses = Uses(program)
    load = next(op for op in uses.ops if op.name == "tma_load")
    assert [op.name for op in uses.parents(load)] == ["for", "warp_specialize"]
    assert [op.name for op in uses.loops(load)] == ["for"]
    assert task_label(uses.task(load)) == "load"
    assert task_label(uses.task(next(program.walk()))) == "kernel"
    assert not uses.conditional(load)


def test_positions_are_in_program_order_and_a_loop_ends_with_its_last_op():
    program = ring_copy().program()
    uses = Uses(program)
    assert uses.ops == list(program.walk())
    loop = next(op for op in uses.ops if op.name == "for")
    assert uses.last[loop] == uses.position[loop] + len(list(loop.walk())) - 1


def test_a_block_argument_is_made_where_its_loop_is():
    k = Kernel()
    with k.at(8).loop(4) as (i, _):
        k.at(9).op("add", i, i)
    program = k.program()
    add = next(op for op in program.walk() if op.name == "add")
    assert Uses(program).site(add.args[0]).line == 8
    assert Uses(program).conditional(add) is False
