"""`tle.call` in the seed's form and `tle.raw.call` of Python bodies: what is rebound, index spaces, places, effects, prints.

What is refused is at the end."""

from typing import Annotated, Any
from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.errors import RawCodeError, SimulationError
from mimw.tle.raw import InOut, Input, arith, dialect, gpu, ir, llvm, memref, nvvm, scf, tensor
from mimw.tle.raw.mlir import vassert, vprintf
from tests.compiling import to_assembly
from tests.tle.compiling import refused

INDEX, I32, F32 = ir.IndexType.get(), ir.IntegerType.get_signless(32), ir.F32Type.get()


@tle.raw.language(name="mlir")
@tle.hardware_constraint(threads_dim=2, sync_scope="block")
def transpose(x: Annotated[ir.RankedTensorType, "tensor<16x64xf32>"], output: Annotated[Any, "tensor<64x16xf32>"]):
    row, column = gpu.thread_id(gpu.Dimension.y), gpu.thread_id(gpu.Dimension.x)
    tensor.insert(tensor.extract(x, [row, column]), output, [column, row])


@tle.jit
def transposed(x_ptr, output_ptr, rounds, ORDER: tl.constexpr):
    """What is written is rebound in a loop and in a branch; more threads than there are."""
    rows, columns = tl.arange(0, 16), tl.arange(0, 64)
    x = tl.load(x_ptr + rows[:, None] * 64 + columns[None, :])
    output = tl.zeros([64, 16], tl.float32)
    kept = output
    for i in range(rounds):
        if i < 2:
            tle.call(transpose, args=[x, output], hardware={"threads": (64, 16)}, layout={x: {"space": "shared", "order": ORDER}})
        x = x + 1
    tl.store(output_ptr + columns[:, None] * 16 + rows[None, :], output + kept)


@pytest.mark.parametrize("rounds, order", [(3, [1, 0]), (0, [1, 0]), (1, [0, 1])])
def test_what_is_written_in_place_is_what_the_name_stands_for(machine, rounds, order):
    x, output = np.arange(1024, dtype=np.float32).reshape(16, 64), np.zeros((64, 16), np.float32)
    machine.launch(transposed, (1, ), x, output, rounds, tuple(order))
    assert (output == (x.T + min(rounds, 2) - 1 if rounds else 0)).all()


@dialect(name="mlir")
def scale(x: InOut[L["memref<?xf32, 3>"]], y: InOut[L["memref<?xf32, 3>"]], by: Input[L["f32"]]):
    at = gpu.thread_id("x")
    with scf.if_(arith.cmpi("ult", at, memref.dim(x, 0))):
        memref.store(memref.load(x, [at]) * by, x, [at])
        memref.store(memref.load(x, [at]) + 1.0, y, [at])


@mimw.jit
def scaled(x_ptr, y_ptr, by):
    at = tl.arange(0, 32)
    x = tle.gpu.alloc([32], tl.float32)
    tl.store(tle.gpu.local_ptr(x), tl.load(x_ptr + at))
    kept, y = tle.raw.call(scale, [x, tl.zeros([32], tl.float32), by])
    tle.raw.call_smem(scale, [x, kept, 2], output_indices=[])
    tl.store(x_ptr + at, tl.load(tle.gpu.local_ptr(x)))
    tl.store(y_ptr + at, y)


def test_buffers_are_the_memory_itself_and_tiles_come_back(machine):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    machine.launch(scaled, (1, ), x, y, 3.0)
    assert (y == np.arange(32) * 3 + 1).all() and (x == np.arange(32) * 6 + 1).all()


@mimw.jit
def halves(x_ptr, y_ptr):
    tle.gpu.warp_specialize([(one_half, (x_ptr, 128)), (one_half, (y_ptr, 64))], [2], [40])


@mimw.jit
def one_half(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, tle.raw.call(neighbours, [x]))


@dialect(name="mlir")
def neighbours(x: InOut[L["memref<?xf32, 3>"]]):
    """Each thread of the partition adds up its element and the next thread's, which a shuffle brings within the warp."""
    thread = nvvm.read_ptx_sreg_tid_x()
    at = arith.index_cast(INDEX, thread)
    mine = memref.load(x, [at])
    nvvm.barrier0()
    memref.store(mine + nvvm.shfl_sync(F32, -1, mine, 1, 31, nvvm.ShflKind.down), x, [at])


def test_partitions_call_bodies_with_their_own_threads(machine):
    x, y = np.arange(128, dtype=np.float32), -np.arange(64, dtype=np.float32)
    sums = x + np.where(np.arange(128) % 32 == 31, x, x + 1)
    machine.launch(halves, (1, ), x, y)
    assert (x == sums).all() and (y == -sums[:64]).all()


def test_a_shuffle_is_one_in_a_partition_too():
    ptx = to_assembly(halves, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {}).stage("ptx")
    assert ptx.count("shfl.sync.idx.b32") >= 2 and ptx.count("setmaxnreg") >= 2


@dialect(name="mlir")
def hello(n: Input[L["i32"]], x: Input[L["!llvm.ptr<1>"]]):
    thread, block = nvvm.ThreadIdXOp(I32).res, nvvm.BlockIdXOp(I32).res
    with scf.if_(arith.cmpi(arith.CmpIPredicate.slt, thread, n)):
        value = llvm.load(F32, llvm.getelementptr(ir.Type.parse("!llvm.ptr<1>"), x, [thread], [-2147483648], F32))
        vprintf("block %d, thread %d: %.1f %u%%\n", block, thread, value, arith.subi(thread, 1))
    vassert(arith.cmpi(arith.CmpIPredicate.sle, n, 2), "n = %d is more than two\n", n)


@mimw.jit
def greet(n, x_ptr):
    tle.raw.call(hello, [n, x_ptr])


def test_a_line_of_each_thread_and_an_assertion(capsys):
    x = np.array([0.5, 2.25], np.float32)
    mimw.simulate(greet, (2, ), 2, x)
    said = capsys.readouterr().out.splitlines()
    assert sorted(said) == [f"block {block}, thread {thread}: {x[thread]:.1f} {thread - 1 & 0xffffffff}%"
                            for block in (0, 1) for thread in (0, 1)]
    with pytest.raises(SimulationError, match="the assertion does not hold: n = %d is more than two"):
        mimw.simulate(greet, (1, ), 3, np.zeros(3, np.float32))
    assert capsys.readouterr().out.count("n = 3 is more than two\n") == 128
    ptx = to_assembly(greet, {"n": "i32", "x_ptr": "*fp32"}, {}).stage("ptx")
    assert ptx.count("call.uni (retval0), vprintf") == 2 and "st.local.f64" in ptx and "__assertfail" in ptx


@pytest.mark.gpu
def test_lines_on_a_gpu(capfd):
    torch = pytest.importorskip("torch")
    greet[(2, )](2, torch.tensor([0.5, 2.25], device="cuda"))
    torch.cuda.synchronize()
    said = capfd.readouterr().out.splitlines()
    assert sorted(said) == [f"block {block}, thread {thread}: {(0.5, 2.2)[thread]:.1f} {thread - 1 & 0xffffffff}%"
                            for block in (0, 1) for thread in (0, 1)]


# ---- refusals -----------------------------------------------------------------------------------------------------------


def called(function, **keywords):
    """A kernel that calls the function with two tiles of 64, in the seed's form."""
    THREADS, SPACE, ORDER, KEY = (keywords.get(name, given) for name, given in
                                  (("threads", (64, 16)), ("space", "shared"), ("order", (1, 0)), ("key", 0)))

    @tle.jit
    def kernel(x_ptr, THREADS: tl.constexpr, SPACE: tl.constexpr, ORDER: tl.constexpr, KEY: tl.constexpr):
        x, output = tl.zeros([16, 64], tl.float32), tl.zeros([64, 16], tl.float32)
        other = x + 1
        if KEY == 0:
            tle.call(function, args=[x, output], hardware={"threads": THREADS}, layout={x: {"space": SPACE, "order": ORDER}})
        if KEY == 1:
            tle.call(function, args=[x, output], hardware={"threads": THREADS}, layout={other: {"space": SPACE}})
        if KEY == 2:
            tle.call(function, args=[x], hardware={"threads": THREADS})
        if KEY == 3:
            tle.call(function, args=[x, tl.zeros([64, 16], tl.float32)], hardware={"threads": THREADS})
        if KEY == 4:
            tle.call(function, args=[output, x], hardware={"threads": THREADS})
        if KEY == 5:
            tle.call(function, args=[x, output], hardware={"blocks": 3})

    return kernel, dict(THREADS=THREADS, SPACE=SPACE, ORDER=ORDER, KEY=KEY)


@pytest.mark.parametrize("given, says", [
    ({"threads": (64, )}, "transpose uses 2 dimensions of threads (hardware_constraint), the call gives 1"),
    ({"threads": (4096, 4096)}, "hardware asks for 16777216 threads"),
    ({"threads": (4, 0)}, "must be 1 to 3 positive compile-time ints"),
    ({"space": "L1"}, "layout space 'L1' is unknown"),
    ({"order": (0, 0)}, "layout order must name each of the 2 axes once"),
    ({"key": 1}, "a key of `layout` is not among the arguments"),
    ({"key": 2}, "takes 2 arguments (x, output), got 1"),
    ({"key": 3}, "argument 1 is written by the function, and is no name"),
    ({"key": 4}, "`x` is declared tensor<16x64xf32>, and is given a memref of fp32 of the shape [64, 16]"),
    ({"key": 5}, "hardware must be {\"threads\": (x, ..)}")])
def test_calls_that_cannot_be(given, says):
    kernel, constants = called(transpose, **given)
    refused(ValueError, says, kernel, {"x_ptr": "*fp32"}, **constants)


def test_what_a_body_needs_of_its_threads_is_held_to_its_declaration():
    @tle.raw.language(name="mlir")
    @tle.hardware_constraint(threads_dim=None, sync_scope="warp")
    def meets(x: "tensor<16x64xf32>", output: "tensor<64x16xf32>"):  # noqa: F722
        nvvm.barrier0()

    kernel, constants = called(meets)
    refused(RawCodeError, "the body's sync_scope is 'warp'", kernel, {"x_ptr": "*fp32"}, **constants)
    for bad in (dict(threads_dim=4), dict(sync_scope="galaxy")):
        with pytest.raises(ValueError, match="tle.hardware_constraint"):
            tle.hardware_constraint(**bad)


def test_nothing_of_it_runs_on_the_host():
    for call in (lambda: transpose(1, 2), lambda: tle.call(transpose, args=[]), lambda: arith.addi(1, 2), lambda: vprintf("x")):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(ValueError, match="the dialect 'fortran' is unknown"):
        tle.raw.language(name="fortran")


def test_the_text_of_a_body_and_what_it_names_tell_two_apart():
    keys = []
    for step in (1, 2):
        def helper(value):
            return arith.addi(value, step)  # noqa: B023

        @dialect(name="mlir")
        def body(x: InOut[L["memref<?xi32, 3>"]]):
            memref.store(helper(memref.load(x, [0])), x, [0])  # noqa: B023

        keys.append(body.cache_key)
    assert keys[0] != keys[1]


@dialect(name="mlir")
def inverted(x: InOut[L["memref<?xi8, 3>"]]):
    at = gpu.thread_id("x")
    memref.store(arith.xori(memref.load(x, [at]), 1), x, [at])


@mimw.jit
def inverted_flags(x_ptr):
    at = tl.arange(0, 64)
    tl.store(x_ptr + at, tle.raw.call(inverted, [tl.load(x_ptr + at) > 30]).to(tl.int32))


def test_truth_values_are_bytes_in_memory(machine):
    x = np.arange(64, dtype=np.int32)
    machine.launch(inverted_flags, (1, ), x, num_warps=2)
    assert (x == (np.arange(64) <= 30)).all()


@tle.raw.language(name="mlir")
def next_one(x: "tensor<64xi32>", out: L["!llvm.ptr<1>"]):  # noqa: F722
    """48 threads: a tile of 64 lanes, of which 16 never come; every thread but the last reads what its neighbour has written."""
    thread = nvvm.read_ptx_sreg_tid_x()
    place = llvm.getelementptr(None, out, [thread], [-2147483648], I32, 0)
    llvm.store(arith.muli(thread, 2), place, ordering=None)
    nvvm.barrier0()
    with scf.if_(arith.cmpi("slt", thread, 47)):
        following = llvm.load(I32, llvm.getelementptr(None, place, [], [1], I32))
        tensor.insert(following, x, [arith.index_cast(INDEX, thread)])


@tle.jit
def next_ones(x_ptr, out_ptr):
    at = tl.arange(0, 64)
    x = tl.load(x_ptr + at)
    tle.call(next_one, args=[x, out_ptr], hardware={"threads": (48, )})
    tl.store(x_ptr + at, x)


def test_any_number_of_threads(machine):
    x, out = -np.arange(64, dtype=np.int32), np.full(64, 7, np.int32)
    machine.launch(next_ones, (1, ), x, out)
    at = np.arange(64)
    assert (out == np.where(at < 48, at * 2, 7)).all() and (x == np.where(at < 47, at * 2 + 2, -at)).all()


def test_where_threads_do_the_work_of_several_they_meet_behind_what_goes_to_global_memory():
    ptx = to_assembly(next_ones, {"x_ptr": "*i32", "out_ptr": "*i32"}, {}).stage("ptx")
    stored = ptx.index("st.global")
    assert "bar.sync" in ptx[stored:ptx.index("ld.global", stored)]


BY = 3.0


def times(value):
    return value * BY


@dialect(name="mlir")
def scaled_by_a_helper(x: InOut[L["memref<?xf32, 3>"]]):
    at = gpu.thread_id("x")
    memref.store(times(memref.load(x, [at])), x, [at])


@mimw.jit
def by_a_helper(x_ptr, body: tl.constexpr):
    at = tl.arange(0, 128)
    tl.store(x_ptr + at, tle.raw.call(body, [tl.load(x_ptr + at)]))


@mimw.jit
def by_a_helper_that_it_names(x_ptr):
    at = tl.arange(0, 128)
    tl.store(x_ptr + at, tle.raw.call(scaled_by_a_helper, [tl.load(x_ptr + at)]))


@pytest.mark.parametrize("kernel, body", [(by_a_helper, True), (by_a_helper_that_it_names, False)])
def test_what_a_helper_of_a_body_names_counts_as_it_is_now(kernel, body, monkeypatch):
    def value():
        x = np.ones(128, np.float32)
        mimw.simulate(kernel, (1, ), x, *([scaled_by_a_helper] if body else []))
        return x[0]

    assert value() == 3
    monkeypatch.setitem(globals(), "BY", 5.0)
    assert value() == 5
