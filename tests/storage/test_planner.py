"""Which storage each array is in, and the plan of each storage; the arithmetic of the places is in test_aliases.py."""

import pytest

from mimw.compiler.storage import plan_storages
from mimw.errors import AliasError
from mimw.ir import Buffer, Op, Place, Scalar, Storage, Value
from tests.analysis.building import Kernel

F32 = Scalar("fp32")


def program(*ops: Op):
    k = Kernel().program()
    return type(k)(k.name, k.params, type(k.body)((), ops), 4)


def array(name: str, count: int, reuse=None, size: int = 64) -> Op:
    type_ = Buffer(F32, (size, ), count)
    return Op("local_alloc", (type_, reuse), (Value(type_, name), ))


def storage(name: str = "spec", limit: int | None = None) -> Op:
    return Op("alias_storage", ("smem", limit), (Value(Storage("smem", limit), name), ))


def test_arrays_of_a_spec_overlay():
    spec = storage()
    qk, p = array("qk", 2, spec.result), array("p", 4, spec.result)
    (plan, ) = plan_storages(program(spec, qk, p), {})
    assert (plan.op, plan.members, plan.made_for, plan.total, plan.alignment) == (spec, (qk, p), None, 1024, 128)
    assert plan.places == {qk.result: Place(0, 256, 256, 2), p.result: Place(0, 256, 256, 4)}


def test_an_array_that_is_reused_gets_a_storage():
    own = array("own", 4)
    other = array("other", 1, own.result)
    (plan, ) = plan_storages(program(own, other), {other.result: 1024})
    assert plan.made_for is own and plan.op.row.allocates == "storage" and plan.members == (own, other)
    assert plan.alignment == 1024


def test_a_part_of_an_array_starts_where_the_part_does():
    own = array("own", 4)
    part = Op("buffer_index", (own.result, 2), (Value(own.result.type.single()), ))
    (plan, ) = plan_storages(program(own, part, other := array("other", 1, part.result)), {})
    assert plan.places[other.result].offset == 512


def test_what_is_not_known_before_launch_is_refused():
    own, which = array("own", 4), Value(Scalar("i32"))
    part = Op("buffer_index", (own.result, which), (Value(own.result.type.single()), ))
    base = program(own, part, array("other", 1, part.result))
    with pytest.raises(AliasError, match="not known before launch"):
        plan_storages(type(base)(base.name, base.params, type(base.body)((which, ), base.body.ops), 4), {})


def test_a_spec_that_is_too_small_is_refused():
    spec = storage(limit=512)
    with pytest.raises(AliasError, match="it requires at least 1024 bytes"):
        plan_storages(program(spec, array("p", 4, spec.result)), {})
