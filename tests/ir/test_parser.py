"""Text in, text out: what `print_program` prints is read back; what is no IR is refused with line and column."""

import pytest

from mimw.compiler.triton_port.enumerations import enumeration_member
from mimw.errors import IRSyntaxError
from mimw.ir import (
    OPS,
    Barrier,
    Buffer,
    Descriptor,
    DescriptorSlots,
    Pipe,
    Place,
    Pointer,
    Scalar,
    Site,
    Storage,
    Tensor,
    Token,
    WaitTable,
    parse_program,
    print_program,
    verify,
)
from mimw.ir.layouts import (
    AmdMfma,
    AmdWmma,
    Blocked,
    DotOperand,
    Linear,
    LinearShared,
    Mma,
    NvmmaShared,
    PaddedShared,
    Slice,
    SwizzledShared,
    ThreadValue,
)
from mimw.ir.lexer import Line
from mimw.ir.printer import print_constant
from mimw.ir.type_parser import begins_type, parse_type
from tests.ir.same import differences

RING = """\
kernel ring(%source: desc<bf16[128, 64]>, %source_1: i32 at 0, %n: i32 at 3 {tt.divisibility=16}) on 4 warps {
  %tiles = local_alloc buffer<bf16[128, 64] x 2> layout=NvmmaShared(swizzle=128, element_bits=16, rank=2)
  %full = alloc_barriers count=2, arrive_count=1 : barrier<x 2>
  %zero = constant 0, i32
  %one = constant 1, i32
  warp_specialize
    task 'default' on 4 warps {
      %end = for %zero, %n, %one, [%zero] : i32
        body(%i: i32, %acc: i32) {
          %0 = barrier_index %full, %i
          barrier_wait %0, %acc
          %acc.1 = add %acc, %i
          yield [%acc.1]
        }
    }
    task 'load', replica 0 of 2 on 1 warps, 24 registers {
      for %zero, %n, %one, []
        body(%i: i32) {
          %0 = barrier_index %full, %i
          barrier_expect %0, bytes=16384
          %1 = buffer_index %tiles, %i
          tma_load %source, [%i, %zero], %0, %1, cache_policy=['cache', 'none', 'evict_first']
          yield []
        }
    }
    task 'load', replica 1 of 2 on 1 warps, 24 registers {
    }
}
"""


def read(text: str, file: str = "k.ir"):
    program = parse_program(text, file, enumeration_member)
    verify(program)
    return program


def one_op(line: str):
    """The op of a line, in a kernel that has one value of every sort."""
    return read("kernel k(%x: *fp32, %n: i32, %i: i32[64], %f: fp32[64], %b: barrier, %t: buffer<fp32[64]>, %on: i1[64]) "
                f"on 4 warps {{\n{line}\n}}").body.ops[0]


# ---- what is read ------------------------------------------------------------------------------------------------------------


def test_printing_is_a_fixed_point():
    printed = print_program(read(RING))
    assert printed.splitlines()[2].endswith("# k.ir:3:2")
    assert print_program(read(printed, "another.ir")) == printed
    assert differences(read(RING), read(printed, "another.ir")) == []
    assert print_program(read(printed), sites=False) == print_program(read(print_program(read(printed), sites=False)), sites=False)


def test_a_kernel():
    program = read(RING)
    assert [param.path for param in program.params] == [(0, ), (0, ), (3, )]
    assert program.params[2].attrs == (("tt.divisibility", 16), ) and program.uses_words
    region = program.body.ops[-1]
    assert [(task.name, task.num_warps, task.is_default, task.registers, task.replica, task.replicas)
            for task in region.attrs["tasks"]] == [("default", 4, True, None, 0, 1), ("load", 1, False, 24, 0, 2),
                                                   ("load", 1, False, 24, 1, 2)]
    loop = region.blocks[0].ops[0]
    assert loop.result.name == "end" and [arg.name for arg in loop.blocks[0].args] == ["i", "acc"]
    assert loop.blocks[0].yielded[0].name == "acc"          # %acc.1 is another value that the user calls acc


def test_what_is_said_of_the_launch():
    text = "kernel k() on 8 warps in clusters of (2, 1, 1), a mesh of 2, a grid of clusters, the grid meets, waits sleep 100 ns, " \
           "at most 80 registers, with words {\n}\n"
    program = read(text)
    facts = program.launch_facts
    assert (facts.cluster, facts.mesh_size, facts.grid_of_clusters, facts.grid_meets, facts.suspend_ns, facts.registers,
            program.uses_words) == ((2, 1, 1), 2, True, True, 100, 80, True)
    assert print_program(program, sites=False) == text
    assert print_program(read("kernel k() on 4 warps, without words {\n  fence scope='gpu'\n}"), sites=False).startswith(
        "kernel k() on 4 warps, without words {")


@pytest.mark.parametrize("type_", [
    Scalar("i1"), Pointer(Scalar("bf16")), Pointer(Pointer(Scalar("fp32"))), Pointer(Scalar("i8"), "shared"),
    Pointer(Scalar("i8"), "cluster"), Pointer(Scalar("i8"), "constant"), Tensor(Scalar("fp8e4nv"), (1, 64)),
    Tensor(Pointer(Scalar("fp16"), "shared"), (8, )), Buffer(Scalar("i32"), (4, )), Buffer(Scalar("i32"), (4, 8), 3, "tmem"),
    Barrier(), Barrier(4), Barrier(0, True), Barrier(2, True), Descriptor(Scalar("fp16"), (8, 8)), Descriptor(Scalar("i8"), (8, )),
    Descriptor(Scalar("i8"), (8, ), False), DescriptorSlots(), DescriptorSlots(2), Token(),
    Pipe(2, (Buffer(Scalar("i8"), (8, )), Buffer(Scalar("bf16"), (16, 32)))), Storage(), Storage("tmem"),
    Storage("smem", 1024), Storage("tmem", 64)], ids=str)
def test_types(type_):
    line = Line(str(type_), "k.ir", 1)
    assert begins_type(line) and parse_type(line) == type_
    line.finish()


BLOCKED = Blocked((1, 4), (4, 8), (4, 1), (1, 0))


@pytest.mark.parametrize("constant", [
    BLOCKED, Slice(0, BLOCKED), Mma((4, 1), (16, 128, 16)), DotOperand(0, Mma((4, 1), (16, 128, 16)), 2),
    NvmmaShared(64, 8, 3, True, True), SwizzledShared(8, 1, 4, (1, 0)), Linear(((0, 1), ), ((1, 0), ), (), (2, 2)),
    DotOperand(1, AmdMfma(3, (32, 32, 8), True, (2, 2)), 4), AmdWmma(3, True, ((0, 1), ), (), (16, 16, 32)),
    ThreadValue(((32, 1), ), ((2, 32), )), PaddedShared(((64, 8), ), ((0, 1), (1, 0)), (2, 2)), LinearShared(((0, 1), ), 128),
    Place(0, 64, 32, 2, 2), WaitTable(4, 8), ("cache", "none", "evict_last"), ("shared", 1, (("distinct", 1, (0, 1)), 2)), "it's",
    '"', "a\nb", True, 1, -1, 1.0, 1e-05, -2.5e+30, float("inf"), float("-inf"), ()], ids=str)
def test_constants(constant):
    op = one_op(f"%0 = constant value={print_constant(constant)}, type=i32")
    assert op.value == constant and type(op.value) is type(constant)


def test_not_a_number_is_one():
    assert one_op("%0 = constant nan, fp32").value != one_op("%0 = constant nan, fp32").value


def test_operands_by_place_and_by_name():
    """After a name the following ones go on from there; what is left out is None."""
    load = one_op("%0 = masked_load %x, other=%n, is_volatile=False : fp32")
    assert (load.mask, load.other.name, load.cache_policy, load.is_volatile) == (None, "n", None, False)
    masked = one_op("%0 = local_load %t, mask=%on : fp32[64]")
    assert masked.token is None and masked.mask.name == "on" and len(masked.args) == 3
    assert [arg and arg.name for arg in one_op("local_store buffer=%t, %f, %on").args] == ["t", "f", "on"]


def test_enumerations_are_found_by_their_operand():
    op = one_op("%0 = atomic_rmw kind=ADD, %x, %n, order=RELAXED, scope=GPU")
    assert [type(arg).__name__ for arg in (op.kind, op.order, op.scope)] == ["ATOMIC_OP", "MEM_SEMANTIC", "MEM_SYNC_SCOPE"]
    with pytest.raises(IRSyntaxError, match="k.ir:2:22: ATOMIC_OP has no member 'ADD'"):
        parse_program("kernel k(%x: *fp32, %n: i32) on 4 warps {\n%0 = atomic_rmw kind=ADD, %x, %n\n}", "k.ir")


def test_names_that_are_no_identifiers():
    text = "kernel k(%'a.shape.0': i32, %'a.shape.0'.1: i32, %2: i32) on 4 warps {\n}\n"
    program = read(text)
    assert [param.value.name for param in program.params] == ["a.shape.0", "a.shape.0", ""]
    assert print_program(program, sites=False) == text


def test_an_op_and_an_attribute_never_share_a_name():
    """Both are written `name=`."""
    assert not [name for name, row in OPS.items() if set(row.params) & set(row.attributes)]


# ---- sites -------------------------------------------------------------------------------------------------------------------


def test_sites():
    text = """\
kernel k() on 4 warps {                                                                           # k.py:4
  fence scope='gpu'                                                                               # k.py:6:8
  fence scope='gpu'                                                                               # lib/h.py:2:4 in put, from k.py:7
  fence scope='gpu'                                                                               # h.py:1 in put, from k.py:8 in go
  fence scope='gpu'                                                                               # <unknown>:0 in ?
}
# h.py = /home/other/h.py
# k.py = /home/you/k.py
# lib/h.py = /home/you/lib/h.py
"""
    program = read(text)
    kernel = Site("/home/you/k.py", 6, 8, "k")
    outer = Site("/home/you/k.py", 7, 0, "k")
    assert [op.site for op in program.walk()] == [
        kernel, Site("/home/you/lib/h.py", 2, 4, "put", outer),
        Site("/home/other/h.py", 1, 0, "put", Site("/home/you/k.py", 8, 0, "go")), Site("<unknown>", 0)]
    assert program.site == Site("/home/you/k.py", 4, 0, "k")


def test_short_names_of_files_tell_them_apart():
    text = """\
kernel k() on 4 warps {   # b.py:1
  fence scope='gpu'       # a/x.py:1
  fence scope='gpu'       # b/x.py:1
}
# b.py = /r/b.py
# a/x.py = /r/a/x.py
# b/x.py = /r/b/x.py
"""
    printed = print_program(read(text))
    assert printed.splitlines()[-3:] == ["# a/x.py = /r/a/x.py", "# b.py = /r/b.py", "# b/x.py = /r/b/x.py"]
    assert print_program(read(printed)) == printed


def test_an_op_without_a_site_is_where_the_text_is():
    program = read("// a note of the command line\n\nkernel k() on 4 warps {\n  fence scope='gpu'   # says nothing of a file\n}")
    assert program.body.ops[0].site == Site("k.ir", 4, 2, "k")


# ---- what is refused ---------------------------------------------------------------------------------------------------------

HEAD = "kernel k(%x: *fp32, %n: i32, %b: barrier, %bs: barrier<x 4>, %t: buffer<fp32[64]>) on 4 warps {\n"


@pytest.mark.parametrize("line, column, says", [
    ("  %0 = addptrs %x, %n : i32", 8, "no op is named 'addptrs', did you mean 'addptr'?"),
    ("  %0 = add %n, %m : i32", 16, "%m is not defined above"),
    ("  barrier_wait %bs, %n", 3, "operand 'barrier' is a value of type barrier<x 4>, and should be Barrier"),
    ("  %0 = add %n, %n : i64", 21, "add gives i32, not i64"),
    ("  %0, %1 = add %n, %n", 3, "add gives 1 results, and 2 are named"),
    ("  add %n, %n", 3, "add gives 1 results, and 0 are named"),
    ("  %n = add %n, %n", 3, "%n is defined twice. Mend: give one of the two values another name"),
    ("  fence scop='gpu'", 9, "fence has no operand or attribute 'scop', did you mean 'scope'?"),
    ("  fence scope='gpu', 3", 22, "fence has the operands scope, and no more"),
    ("  fence scope='gpu' proxy=3", 3, "attribute 'proxy' is the constant 3, and should be #bool?"),
    ("  %0 = async_dot %t, %t, max_imprecise=0", 8, "the operands of async_dot do not fit each other"),
    ("  %0 = constant 1, i33", 20, "'i33' is no value, type or constant"),
    ("  %0 = splat fp32[6x], %n", 20, "',' is expected, not 'x'"),
    ("  %0 = splat fp32[a], %n", 19, "a whole number is expected, not 'a'"),
    ("  %0 = constant 1, i32 : i32 i32", 30, "the line should end here, not go on with 'i32'"),
    ("  %0 = constant Blocke(order=[0]), i32", 17, "no constant is called Blocke, did you mean 'Blocked'?"),
    ("  %0 = constant Slice(axi=0, parent=none), i32", 17, "Slice: got an unexpected keyword argument 'axi'"),
    ("  fence scope='gpu' !", 21, "'!' begins nothing that can stand here"),
    ("  %0 = reshape %n, shape=[4.5], can_reorder=False", 8, "operand 'shape' is"),
    ("  if %n, []\n  fence scope='gpu'", 3, "'then' is expected, not 'fence'"),
    ("  if %n, []\n    then {\n  fence scope='gpu'", 1, "the text ends inside a block. Mend: close it by '}'"),
    ("  warp_specialize\n    task 'a' on 4 warps, 24 {\n    }", 29, "'registers' is expected, not '{'"),
    ("  warp_specialize", 3, "attribute 'tasks' .const. is missing"),
], ids=lambda case: case.strip().split("\n")[0] if isinstance(case, str) and case.startswith("  ") else "")
def test_errors_name_line_and_column(line, column, says):
    with pytest.raises(IRSyntaxError, match=says.replace("[", r"\[").replace("?", r"\?").replace("(", r"\(")) as caught:
        read(f"{HEAD}{line}\n" + ("}\n" if "then {" not in line else ""))
    assert caught.value.column == column
    assert str(caught.value).startswith(f"k.ir:{caught.value.line}:{column}: ")
    assert 2 <= caught.value.line <= 2 + line.count("\n") or "ends inside" in says


@pytest.mark.parametrize("text, says", [
    ("", "k.ir:1:1: 'kernel' is expected, not the end of the line. Mend: IR begins with"),
    ("def f():", "k.ir:1:1: 'kernel' is expected, not 'def'"),
    ("kernel k() on 4 warps, in a hurry {\n}", "k.ir:1:24: 'a mesh of N', 'a grid of clusters'"),
    ("kernel k() on 4 warps {\n}\nkernel l() on 4 warps {\n}", "k.ir:3:1: one kernel is read from a text, and it ends above"),
    ("kernel k(%a: i32, %a: i32) on 4 warps {\n}", "k.ir:1:19: %a is defined twice"),
], ids=lambda case: "")
def test_errors_of_the_kernels_line(text, says):
    with pytest.raises(IRSyntaxError) as caught:
        read(text)
    assert str(caught.value).startswith(says)


def test_what_is_defined_in_a_region_is_not_known_outside():
    text = HEAD + "  if %n, []\n    then {\n      %0 = add %n, %n\n    }\n    else {\n    }\n  %1 = add %0, %n\n}"
    with pytest.raises(IRSyntaxError, match="k.ir:8:12: %0 is not defined above"):
        read(text)
