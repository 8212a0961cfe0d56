"""The builder: what it writes is what its text says, regions included, and passes get their blocks."""

from mimw.ir import I32, Builder, Site, Tensor, parse_program, print_program, verify
from mimw.ir.types import I1
from tests.ir.same import differences

HERE = Site("kernel.py", 3)


def test_a_program():
    b = Builder(HERE)
    n = b.param("n", I32, path=(2, ), attrs=(("tt.divisibility", 16), ))
    loop = b.place("for", n, n, n, (n, ), label="end")
    with b.inside(loop, (I32, I32)) as (i, total):
        total.name = "total"
        found = b.emit("add", (total, i), Site("kernel.py", 7), label="sum")
        branch = b.place("if", b.constant(True, I1), ())
        for _ in range(2):
            with b.inside(branch):
                b.emit("yield", ((), ))
        b.emit("yield", ((found, ), ))
    b.emit("assume", (b.emit("icmpEQ", loop.results + (n, )), ))
    program = b.program("k", num_warps=8)
    verify(program)
    text = print_program(program)
    assert text.splitlines()[3].split("#")[0].strip() == "%sum = add %total, %2 : i32"
    assert print_program(program, sites=False) == """\
kernel k(%n: i32 at 2 {tt.divisibility=16}) on 8 warps {
  %end = for %n, %n, %n, [%n] : i32
    body(%2: i32, %total: i32) {
      %sum = add %total, %2 : i32
      %5 = constant True, i1 : i1
      if %5, []
        then {
          yield []
        }
        else {
          yield []
        }
      yield [%sum]
    }
  %6 = icmpEQ %end, %n : i1
  assume %6
}
"""
    assert differences(program, parse_program(text)) == []
    assert not program.uses_words


def test_what_passes_do():
    """A block is copied with one value replaced: an op that changes is a new one, any other is kept."""
    b = Builder(HERE)
    x = b.param("x", Tensor(I32, (4, 4)))
    b.emit("add", (x, x), label="sum")
    b.emit("mul", (b.ops[0].results[0], x))
    program = b.program("k", num_warps=4)
    writer = Builder()
    outside = writer.open()
    add, mul = program.body.ops
    writer.env[add.result] = writer.reshaped(writer.reshaped(x, (16, ), HERE), (4, 4), HERE)
    writer.copy(mul, mul.args)
    writer.copy(add, add.args)
    made = writer.close(outside)
    assert [op.name for op in made] == ["reshape", "reshape", "mul", "add"]
    assert made[2] is not mul and made[2].lhs is made[1].result and made[2].result is mul.result
    assert made[3] is add and writer.ops == []


def test_operands_left_out_at_the_end_are_none():
    b = Builder(HERE)
    b.emit("fence", ("gpu", ))
    b.emit("warp_specialize", (), tasks=())
    full = b.emit("alloc_barriers", (1, 1), label="full")
    b.emit("barrier_arrive", (full, 1))
    assert b.program("k", 4).body.ops[-1].args == (full, 1, None, None) and b.program("k", 4).uses_words
