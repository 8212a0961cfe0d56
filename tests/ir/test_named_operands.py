"""An op's operands are read by the names in its row."""

import copy
import pickle

import pytest

from mimw.ir import OPS, Barrier, Block, Scalar, Value
from mimw.ir.core import Op
from tests.every import every


def test_an_operand_is_read_by_its_name():
    op = Op("fence", ("gpu", ))
    assert op.scope == "gpu" and op.scope is op.args[0] and op.row is OPS["fence"]


def test_an_optional_operand_that_was_left_out_is_none():
    assert Op("local_load", ("buffer", )).mask is None


def test_another_name_is_refused_with_those_there_are():
    with pytest.raises(AttributeError, match="barrier_wait has no operand 'buffer'; there are barrier, phase, predicate"):
        Op("barrier_wait", ()).buffer  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_op has no operand 'x'"):
        Op("no_such_op").x  # noqa: B018


def test_ops_can_be_copied_and_sent():
    op = Op("fence", ("gpu", ))
    assert copy.copy(op).scope == "gpu"
    assert pickle.loads(pickle.dumps(Op("fence", ("gpu", ), attrs={}))).scope == "gpu"
    fence = Op("fence", ("gpu", ), attrs={})
    assert fence.row is fence.row is pickle.loads(pickle.dumps(fence)).row


@every(OPS)
def test_no_operand_hides_what_every_op_has(name):
    every = {*Op.__dataclass_fields__, "operands", "result", "row", "walk", "with_operands", "with_attrs", "with_blocks", "viewed"}
    assert not every & set(OPS[name].params) and len(set(OPS[name].params)) == len(OPS[name].params)


def test_an_op_with_other_operands():
    barrier, phase, other = Value(Barrier()), Value(Scalar("i32")), Value(Scalar("i1"))
    wait = Op("barrier_wait", (barrier, phase))
    again = wait.with_operands(predicate=other)
    assert again.args == (barrier, phase, other) and wait.args == (barrier, phase)
    assert again.with_operands(phase=other).phase is other
    with pytest.raises(AttributeError, match="barrier_wait has no operand 'buffer'; there are barrier, phase, predicate"):
        wait.with_operands(buffer=barrier)


def test_an_op_with_other_attributes_and_blocks():
    inner = Op("barrier")
    op = Op("warp_specialize", blocks=(Block((), (inner, )), ), attrs={"tasks": ()})
    assert dict(op.with_attrs(internal=True).attrs) == {"tasks": (), "internal": True} and "internal" not in op.attrs
    assert op.with_blocks(lambda block: block) is op
    assert op.with_blocks(lambda block: Block((), ())).blocks[0].ops == ()
