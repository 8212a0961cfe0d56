"""What `check_pipes` costs: loops in loops are gone through once where no product outlives a round. What the pass refuses is in the
goldens, tests/golden/passes/pipes."""

from mimw.compiler.passes.check_pipes import _Products, check_pipes
from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.ir import parse_program
from mimw.target import target

DEPTH = 10


def nested() -> str:
    """A product in DEPTH loops, waited for in its round."""
    lines = ["kernel k(%n: i32) on 4 warps {", "%zero = constant 0, i32", "%one = constant 1, i32",
             "%x = local_alloc buffer<fp16[2, 16, 32]>", "%p = pipe_make [%x], capacity=2 names=['x']",
             "%acc = constant 0.0, fp32[16, 16]"]
    lines += [f"for %zero, %n, %one, []\nbody(%i{depth}: i32) {{" for depth in range(DEPTH)]
    lines += ["%y, %closed = pipe_wait %p, %n", "%sum = async_dot %y, %y, %acc, max_imprecise=0 type=fp32[16, 16]",
              "%done = async_dot_wait pending=0, %sum : fp32[16, 16]"]
    return "\n".join(lines + ["yield []\n}"] * DEPTH + ["}"]) + "\n"


def test_loops_in_loops_are_gone_through_once(monkeypatch):
    met, op = [], _Products.op
    monkeypatch.setattr(_Products, "op", lambda self, one: (met.append(one), op(self, one)))
    program = parse_program(nested(), "text", enumeration_member)
    check_pipes(program, target("sm_90a"))
    assert len(met) == 8 + 2 * DEPTH
