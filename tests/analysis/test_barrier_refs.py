"""What a value that is a barrier stands for, and what the two readers make of it."""

from mimw.compiler.analysis import barrier_arrays
from mimw.compiler.analysis.barrier_ops import signals, waits
from mimw.compiler.analysis.barrier_refs import BarrierRef, barrier_refs
from mimw.ir import parse_program

KERNEL = """kernel k(%n: i32, %flag: i1) on 4 warps {
  %zero = constant 0, i32
  %one = constant 1, i32
  %full = alloc_barriers count=2, arrive_count=1
  %alone = alloc_barriers count=1, arrive_count=1
  %first = barrier_index %full, 0
  %any = barrier_index %full, %n
  %last = barrier_index %full, %one
  BODY
}
"""
PLAIN = """barrier_arrive %first, count=1
  barrier_arrive %last, count=1
  barrier_wait %any, %zero
  barrier_arrive %alone, count=1"""
LOOP = """%end = for %zero, %n, %one, [%first]
    body(%i: i32, %now: barrier) {
      barrier_arrive %now, count=1
      yield [%last]
    }
  barrier_wait %end, %zero"""


def program(body: str):
    return parse_program(KERNEL.replace("BODY", body))


def by_name(made) -> dict:
    return {value.name: ref for value, ref in barrier_refs(made).items()}


def test_views():
    made = program(PLAIN)
    refs, full = by_name(made), next(op.result for op in made.walk() if op.row.allocates == "barriers")
    assert (refs["full"], refs["first"]) == (BarrierRef(full), BarrierRef(full, 0))
    assert refs["any"].root is full and refs["any"].index is made.params[0].value
    assert refs["last"].index.name == "one" and not any(ref.carried or ref.deep for ref in refs.values())
    assert barrier_refs(made) is barrier_refs(made)


def test_checks_and_reports_of_views():
    made = program(PLAIN)
    full, alone = barrier_arrays(made)
    assert not full.escapes and not alone.escapes
    assert [one.index if isinstance(one.index, int) else one.index.name for one in full.accesses] == [0, "one", "n"]
    assert [one.index for one in alone.accesses] == [0]
    assert [one.barrier.index for one in signals(made)] == [0, 1, None] and [one.barrier.index for one in waits(made)] == [None]
    assert signals(made)[1].barrier.may_be(full.root, 1) and not signals(made)[1].barrier.may_be(full.root, 0)


def test_what_a_loop_hands_on():
    """The checks know that they do not know all; a report names the array."""
    made = program(LOOP)
    refs = by_name(made)
    assert refs["now"] == refs["end"] == BarrierRef(refs["full"].root, None, carried=True)
    full, alone = barrier_arrays(made)
    assert full.escapes and full.accesses == () and not alone.escapes
    (arrive, ), (wait, ) = signals(made), waits(made)
    assert arrive.barrier.root is wait.barrier.root is full.root and arrive.barrier.may_be(full.root, 1)


def test_what_a_branch_hands_on():
    made = program("""%either = if %flag, [barrier]
    then {
      yield [%first]
    }
    else {
      yield [%last]
    }
  barrier_wait %either, %zero""")
    assert by_name(made)["either"].carried and barrier_arrays(made)[0].escapes
    assert waits(made)[0].barrier.root.name == "full"
