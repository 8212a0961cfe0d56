"""Dropping what nobody uses keeps every effect and everything that effects need."""

from hypothesis import given
from hypothesis import strategies as st

from mimw.compiler.passes import drop_unused
from mimw.ir import OPS, print_program, verify
from tests.analysis.building import F32, I32, Kernel, Pointer


def effects(program) -> list[str]:
    """The text of every op that is not pure, with what it takes written out down to parameters and block arguments."""
    made = {result: op for op in program.walk() for result in op.results}

    def text(value):
        op = made.get(value)
        return f"{value.type}" if op is None or op.blocks else f"{op.name}({', '.join(argument(arg) for arg in op.args)})"

    def argument(arg):
        return f"[{', '.join(map(argument, arg))}]" if isinstance(arg, tuple) else text(arg) if arg in made else str(
            getattr(arg, "type", arg))

    return [f"{op.name} {[argument(arg) for arg in op.args]}" for op in program.walk() if "pure" not in OPS[op.name].effects]


def test_a_chain_without_an_effect_goes():
    k = Kernel()
    n, out = k.param("n"), k.param("out", Pointer(I32))
    k.op("mul", k.op("add", n, k.number(1)), n)
    k.op("store", out, k.op("sub", n, k.number(2), named="kept"), None)
    assert print_program(drop_unused(k.program()), sites=False) == """\
kernel kernel(%n: i32, %out: *i32) on 4 warps {
  %2 = constant 2, i32 : i32
  %kept = sub %n, %2 : i32
  store %out, %kept
}
"""


def test_inside_tasks_and_loops():
    k = Kernel()
    bars = k.barriers("full", 2)
    with k.task("load"):
        with k.loop(4) as (i, _):
            k.one(bars, i)
            k.arrive(k.one(bars, 0))
    names = [op.name for op in drop_unused(k.program()).walk()]
    assert names.count("barrier_index") == 1
    assert names.count("barrier_arrive") == 1


def test_what_a_loop_carries_stays():
    k = Kernel()
    with k.loop(4, [k.number(0)]) as (i, (total, )):
        k.carry(k.op("add", total, i))
    assert [op.name for op in drop_unused(k.program()).walk()].count("add") == 1


def test_a_reduction_nobody_looks_at_goes_with_its_region():
    k = Kernel()
    tile = k.tile()
    op = k.regions("reduce", (tile, ), 1)
    k.block(op, lambda a, b: (k.op("fadd", a, b), ), (F32, F32))
    assert list(drop_unused(k.program()).walk()) == []


def test_a_program_without_waste_is_the_same_object():
    k = Kernel()
    k.op("store", k.param("out", Pointer(I32)), k.number(1), None)
    program = k.program()
    assert drop_unused(program) is program


@given(st.lists(st.tuples(st.sampled_from(["add", "mul", "store", "loop", "leave"]), st.integers(0, 50), st.integers(0, 50)),
                max_size=40))
def test_effects_are_preserved(steps):
    k = Kernel()
    out = k.param("out", Pointer(I32))
    scopes, open_loops = [[k.param("n"), k.number(3)]], []
    for kind, left, right in steps:
        seen = [value for scope in scopes for value in scope]
        a, b = seen[left % len(seen)], seen[right % len(seen)]
        if kind == "store":
            k.op("store", out, a, None)
        elif kind == "loop":
            loop = k.loop(a)
            scopes.append([loop.__enter__()[0]])
            open_loops.append(loop)
        elif kind == "leave":
            if open_loops:
                open_loops.pop().__exit__(None, None, None)
                scopes.pop()
        else:
            scopes[-1].append(k.op(kind, a, b))
    for loop in reversed(open_loops):
        loop.__exit__(None, None, None)
    program = k.program()
    smaller = drop_unused(program)
    verify(smaller)
    assert effects(smaller) == effects(program)
    used = {operand for op in smaller.walk() for operand in op.operands}
    assert all("pure" not in OPS[op.name].effects or not used.isdisjoint(op.results) for op in smaller.walk())
