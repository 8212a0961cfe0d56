"""Register layouts of hand-built programs."""

from mimw.compiler.constraints import solve_layouts
from mimw.compiler.constraints.defaults import default_blocked
from mimw.ir import Tensor
from mimw.ir.layouts import Blocked, DotOperand, Mma, Slice
from mimw.ir.types import I1, I32
from mimw.target import target

from .building import BF16, FP32, Kernel, named, op_at

ROW = default_blocked((64, ), 4)
TILE = default_blocked((64, 128), 4)
ACC = Mma((4, 1), (16, 128, 16))


def gemm(k: Kernel, rows=64, columns=128):
    a = k("buffer_index", k.alloc((rows, 64), name="a"), k.number())
    b = k("buffer_index", k.alloc((64, columns), name="b"), k.number())
    return a, b


def test_a_gemm_loop_keeps_its_accumulator_in_the_tensor_core_layout():
    k = Kernel()
    a, b = gemm(k)
    zeros = k.tile((64, 128), name="zeros", at=10)
    with k.loop(zeros, at=11) as (loop, (acc, )):
        acc.name = "carried"
        running = k("async_dot", a, b, acc, 0, 0, at=12, type=Tensor(FP32, (64, 128)), name="running")
        done = k("async_dot_wait", 0, running, at=13, name="done")
        k("yield", (done, ), at=14)
    loop.results[0].name = "total"
    k("store", k.pointers("out", (64, 128)), loop.results[0], None, at=20)
    program = k.finish()
    layouts = solve_layouts(program)
    for name in ("zeros", "carried", "running", "done", "total"):
        assert layouts.registers[named(program, name)] == ACC
    store = op_at(program, 20)
    assert layouts.operands == {(store, 1): TILE}
    assert layouts.wanted(store, 0) == TILE
    assert layouts.reasons[named(program, "total")] == "k.py:12 async_dot accumulates in it"
    assert layouts.reasons[named(program, "zeros")] == "all its users want it"


def test_an_accumulator_found_in_an_inner_loop_reaches_the_outer_one():
    k = Kernel()
    a, b = gemm(k)
    with k.loop(k.tile((64, 128))) as (_, (acc, )):
        doubled = k("fadd", acc, acc, name="doubled", at=5)
        with k.loop(doubled) as (inner, (sum_, )):
            running = k("async_dot", a, b, sum_, 0, 0, type=Tensor(FP32, (64, 128)))
            k("yield", (k("async_dot_wait", 0, running), ))
        k("yield", (inner.results[0], ))
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "doubled")] == ACC
    assert layouts.operands == {}


def test_a_loaded_initial_accumulator_is_converted_at_the_loop():
    k = Kernel()
    a, b = gemm(k)
    start = k("load", k.pointers("c", (64, 128)), None, False, name="start")
    with k.loop(start, at=9) as (_, (acc, )):
        running = k("async_dot", a, b, acc, 0, 0, type=Tensor(FP32, (64, 128)))
        k("yield", (k("async_dot_wait", 0, running), ))
    program = k.finish()
    layouts = solve_layouts(program)
    (loop, ) = [op for op in program.walk() if op.name == "for"]
    assert layouts.registers[named(program, "start")] == TILE
    assert layouts.operands == {(loop, 3): ACC}


def test_a_softmax_reduces_to_slices_and_expands_back_to_the_parent():
    k = Kernel()
    x = k("load", k.pointers("x", (64, 128)), None, False, name="x")
    reduce = k.regions("reduce", (x, ), 1, at=5)
    with k.inside(reduce, (FP32, FP32)) as (left, right):
        k("yield", (k("maxnumf", left, right), ))
    reduce.results[0].name = "top"
    column = k("expand_dims", reduce.results[0], 1, name="column", at=6)
    spread = k("broadcast", column, Tensor(FP32, (64, 128)), name="spread")
    k("fsub", x, spread, name="shifted")
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "top")] == Slice(1, TILE)
    assert layouts.registers[named(program, "column")] == TILE
    assert layouts.registers[named(program, "spread")] == TILE
    assert layouts.operands == {}
    assert layouts.reasons[named(program, "top")] == "k.py:5 reduce along axis 1 leaves it"


def test_the_softmax_of_an_accumulator_stays_in_its_layout_up_to_the_next_dot():
    k = Kernel()
    a, b = gemm(k, 64, 128)
    v = k("buffer_index", k.alloc((128, 128)), k.number())
    m = k.tile((64, ), name="m")
    with k.loop(m) as (_, (m_i, )):
        m_i.name = "m_i"
        qk = k("async_dot", a, b, None, 0, 0, type=Tensor(FP32, (64, 128)))
        qk = k("async_dot_wait", 0, qk)
        reduce = k.regions("reduce", (qk, ), 1)
        with k.inside(reduce, (FP32, FP32)) as (left, right):
            k("yield", (k("maxnumf", left, right), ))
        top = k("maxnumf", m_i, reduce.results[0], name="top")
        spread = k("broadcast", k("expand_dims", top, 1, name="column"), Tensor(FP32, (64, 128)))
        p = k("fp_trunc", k("fsub", qk, spread), Tensor(BF16, (64, 128)), name="p")
        acc = k("async_dot", p, v, None, 0, 0, type=Tensor(FP32, (64, 128)), at=30)
        k("async_dot_wait", 0, acc)
        k("yield", (top, ))
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "m_i")] == Slice(1, ACC)
    assert layouts.registers[named(program, "m")] == Slice(1, ACC)
    assert layouts.registers[named(program, "column")] == ACC
    assert layouts.registers[named(program, "p")] == ACC
    assert layouts.operands == {(op_at(program, 30), 0): DotOperand(0, ACC, 2)}


def test_a_slice_along_another_axis_is_converted_before_it_is_expanded():
    k = Kernel()
    row = k("make_range", Tensor(I32, (64, )), 0, 64, name="row")
    k("int_cast", row, Tensor(I32, (64, )), True)
    k("expand_dims", row, 1, at=7, name="column")
    program = k.finish()
    layouts = solve_layouts(program)
    column = default_blocked((64, 1), 4)
    assert layouts.registers[named(program, "column")] == column
    assert layouts.operands == {(op_at(program, 7), 0): Slice(1, column)}


def test_a_range_that_is_only_expanded_is_made_in_the_slice():
    k = Kernel()
    row = k("make_range", Tensor(I32, (64, )), 0, 64, name="row")
    k("expand_dims", row, 0, name="flat")
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "row")] == Slice(0, default_blocked((1, 64), 4))
    assert layouts.operands == {}


def test_a_loop_carried_alias_shares_the_layout_of_what_it_was():
    k = Kernel()
    a, b = gemm(k)
    first, second = k.tile((64, 128), name="first"), k.tile((64, 128), name="second")
    with k.loop(first, second) as (_, (acc, previous)):
        previous.name = "previous"
        running = k("async_dot", a, b, acc, 0, 0, type=Tensor(FP32, (64, 128)))
        k("yield", (k("async_dot_wait", 0, running), acc))
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "previous")] == ACC
    assert layouts.registers[named(program, "second")] == ACC
    assert layouts.operands == {}


def test_an_if_gives_the_stronger_of_its_two_yields():
    k = Kernel()
    a, b = gemm(k)
    other = k("load", k.pointers("x", (64, 128)), None, False)
    branch = k.branches(k("constant", 1, I1), [Tensor(FP32, (64, 128))])
    with k.inside(branch):
        running = k("async_dot", a, b, None, 0, 0, type=Tensor(FP32, (64, 128)))
        k("yield", (k("async_dot_wait", 0, running), ), at=8)
    with k.inside(branch):
        k("yield", (other, ), at=9)
    branch.results[0].name = "either"
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "either")] == ACC
    assert layouts.operands == {(op_at(program, 9), 0): ACC}


def test_a_while_hands_its_layout_from_body_to_condition_and_out():
    k = Kernel()
    a, b = gemm(k)
    type_ = Tensor(FP32, (64, 128))
    loop = k.regions("while", (k.tile((64, 128), name="zeros"), ))
    with k.inside(loop, (type_, )) as (before, ):
        before.name = "before"
        k("condition", k("constant", 1, I1), (before, ))
    with k.inside(loop, (type_, )) as (after, ):
        after.name = "after"
        running = k("async_dot", a, b, after, 0, 0, type=type_)
        k("yield", (k("async_dot_wait", 0, running), ))
    loop.results[0].name = "total"
    program = k.finish()
    layouts = solve_layouts(program)
    for name in ("zeros", "before", "after", "total"):
        assert layouts.registers[named(program, name)] == ACC
    assert layouts.operands == {}


def test_each_task_has_layouts_of_its_own_warps():
    k = Kernel(warps=4)
    tasks = k.tasks(4, 1, 8)
    for region, name in enumerate(("default", "one", "eight")):
        with k.inside(tasks):
            k.tile((64, 128), name=name)
    k.tile((64, 128), name="behind")
    program = k.finish()
    layouts = solve_layouts(program)
    for name, warps in (("default", 4), ("one", 1), ("eight", 8), ("behind", 4)):
        assert layouts.registers[named(program, name)] == default_blocked((64, 128), warps)


def test_dot_takes_operands_of_its_default_accumulator():
    k = Kernel()
    acc = k.tile((64, 128), name="acc")
    k("dot", k.tile((64, 32), BF16, "a"), k.tile((32, 128), BF16, "b"), acc, 0, 0, name="c", at=5)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "c")] == TILE
    assert layouts.wanted(op_at(program, 5), 0) == DotOperand(0, TILE)
    assert layouts.wanted(op_at(program, 5), 1) == DotOperand(1, TILE)
    assert layouts.wanted(op_at(program, 5), 2) == TILE


def test_inferred_ops_take_and_give_defaults():
    k = Kernel()
    a, b = gemm(k)
    done = k("async_dot_wait", 0, k("async_dot", a, b, None, 0, 0, type=Tensor(FP32, (64, 128))), name="done")
    k("trans", done, (1, 0), name="turned", at=5)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "turned")] == default_blocked((128, 64), 4)
    assert layouts.operands == {(op_at(program, 5), 0): TILE}


def test_a_pinned_load_leads_elementwise_ops_but_yields_to_an_accumulator():
    pin = Blocked((1, 4), (1, 32), (4, 1), (1, 0))
    k = Kernel()
    a, b = gemm(k)
    x = k("local_load", k("buffer_index", k.alloc((64, 128), FP32), k.number()), None, name="x", at=3, layout=pin)
    k("fadd", k.tile((64, 128)), x, name="sum")
    done = k("async_dot_wait", 0, k("async_dot", a, b, None, 0, 0, type=Tensor(FP32, (64, 128))))
    k("fadd", x, done, name="bias", at=6)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "sum")] == pin
    assert layouts.registers[named(program, "bias")] == ACC
    assert layouts.wanted(op_at(program, 6), 0) == ACC
    assert layouts.reasons[named(program, "sum")] == "k.py:3 local_load pins it"


def test_atomics_and_stores_take_defaults_and_scalars_take_nothing():
    k = Kernel()
    pointers = k.pointers("p", (64, ))
    top = k.regions("reduce", (k.tile((64, )), ), 0)
    with k.inside(top, (FP32, FP32)) as (left, right):
        k("yield", (k("fadd", left, right), ))
    top.results[0].name = "scalar"
    k("store", pointers, k("splat", Tensor(FP32, (64, )), top.results[0], name="filled"), None)
    program = k.finish()
    layouts = solve_layouts(program)
    assert layouts.registers[named(program, "filled")] == ROW
    assert named(program, "scalar") not in layouts.registers


def read(shape, element, **options):
    """The layout of a tile read from a buffer, and of its sum with a tile that nobody has a wish about."""
    k = Kernel()
    x = k("local_load", k("buffer_index", k.alloc(shape, element), k.number()), None, name="x", at=3)
    k("fadd", k.tile(shape), x, name="sum")
    program = k.finish()
    layouts = solve_layouts(program, **options)
    return layouts, layouts.registers[named(program, "x")], layouts.registers[named(program, "sum")], program


def test_a_row_of_shared_memory_is_read_in_vectors():
    for element, extent, each in ((BF16, 2048, 8), (FP32, 2048, 4), (BF16, 256, 2)):
        layouts, loaded, total, program = read((extent, ), element)
        assert loaded == total == Blocked((each, ), (32, ), (4, ), (0, ))
        size = each * (4 if element is FP32 else 2)
        assert layouts.reasons[named(program, "x")] == f"k.py:3 local_load reads {size} bytes a thread"
    assert read((2048, ), BF16, target=target("gfx942"))[1] == Blocked((8, ), (64, ), (4, ), (0, ))


def test_a_short_row_or_a_tile_of_rank_two_is_read_in_the_default():
    assert read((64, ), BF16)[1] == ROW
    assert read((64, 128), BF16)[1] == TILE
