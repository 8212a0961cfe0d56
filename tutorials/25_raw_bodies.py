"""25  Raw bodies: the code of one thread, in ops of MLIR's dialects, inside a kernel of tiles.

    python tutorials/25_raw_bodies.py       on a GPU: check, and measure against torch; elsewhere: simulate small ones

A kernel of Triton says what happens to tiles. Now and then the author knows what each thread should do: a reduction by shuffles, a
search that some threads end sooner than others, a line printed by one of them. `tle.raw` lets such code stand in a kernel. In the
dialect "mlir" it is a Python function that is read, never run; its calls are ops of `arith`, `memref`, `scf`, `nvvm` and their kin.
No MLIR is installed: `mimw.tle.raw` has what the functions name.

How the program is run and measured is harness.py's.
"""

from typing import Literal as L

import numpy as np
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.tle.raw import InOut, Input, arith, dialect, gpu, ir, llvm, math, memref, nvvm, scf
from mimw.tle.raw.mlir import vassert, vprintf

INDEX, I32, F32 = ir.IndexType.get(), ir.IntegerType.get_signless(32), ir.F32Type.get()
POINTER, DYNAMIC = ir.Type.parse("!llvm.ptr<1>"), -2147483648


# Step 1. A line of each thread. The decorator makes raw code of the function, its annotations say what it takes: `Input` is read,
# `InOut` may be written, too. Every thread of the CTA runs the body once, as in CUDA.
@dialect(name="mlir")
def hello(n: Input[L["i32"]]):
    thread, block = nvvm.ThreadIdXOp(I32).res, nvvm.BlockIdXOp(I32).res
    vassert(arith.cmpi(arith.CmpIPredicate.sle, n, nvvm.BlockDimXOp(I32).res), "there are fewer than %d threads\n", n)
    with scf.if_(arith.cmpi(arith.CmpIPredicate.slt, thread, n)):
        vprintf("hello from bidx %d, tidx %d\n", block, thread)


@mimw.jit
def greet(n):
    tle.raw.call(hello, [n])


# Step 2. Helpers are functions without a decorator: they are read where they are called. A shuffle brings the number of another
# thread of the warp; five of them bring all 32 together, in every thread.
def over_the_warp(value, combine):
    for step in [16, 8, 4, 2, 1]:
        value = combine(value, nvvm.shfl_sync(F32, -1, value, step, 31, nvvm.ShflKind.bfly))
    return value


def over_the_block(value, combine, partial, first):
    """Of all threads: each warp's first thread leaves its number in shared memory, and all read all of them."""
    thread = nvvm.read_ptx_sreg_tid_x()
    value = over_the_warp(value, combine)
    warp = arith.index_cast(INDEX, arith.divsi(thread, 32))
    # Step 3. Some threads come into this branch and some do not, so a barrier in it is refused.
    with scf.if_(arith.cmpi(arith.CmpIPredicate.eq, arith.remsi(thread, 32), 0)):
        memref.store(value, partial, [warp])
    nvvm.barrier0()
    warps = arith.divsi(gpu.block_dim("x"), 32)
    # Step 4. What a loop carries it is given, and gives: `for counter, carried, result in scf.for_(0, n, 1, [first])`.
    for i, sofar, all_of_them in scf.for_(0, warps, 1, [first]):
        scf.yield_([combine(sofar, memref.load(partial, [i]))])
    nvvm.barrier0()
    return all_of_them


@dialect(name="mlir")
def softmax(x: Input[L["!llvm.ptr<1>"]], y: InOut[L["!llvm.ptr<1>"]], columns: Input[L["i32"]]):
    """A row of x a block. Threads take columns in turn: loops whose trips differ from thread to thread."""
    thread, threads = nvvm.read_ptx_sreg_tid_x(), nvvm.read_ptx_sreg_ntid_x()
    start = arith.muli(nvvm.read_ptx_sreg_ctaid_x(), columns)
    partial = memref.alloc(ir.Type.parse("memref<32xf32, 3>"))
    zero, lowest = arith.constant(F32, 0.0), arith.constant(F32, float("-inf"))
    for column, highest, most in scf.for_(thread, columns, threads, [lowest]):
        value = llvm.load(F32, llvm.getelementptr(POINTER, x, [arith.addi(start, column)], [DYNAMIC], F32))
        scf.yield_([arith.maximumf(highest, value)])
    most = over_the_block(most, arith.maximumf, partial, lowest)
    for column, sofar, total in scf.for_(thread, columns, threads, [zero]):
        value = llvm.load(F32, llvm.getelementptr(POINTER, x, [arith.addi(start, column)], [DYNAMIC], F32))
        scf.yield_([arith.addf(sofar, math.exp(arith.subf(value, most)))])
    total = over_the_block(total, arith.addf, partial, zero)
    for column in scf.for_(thread, columns, threads):
        at = arith.addi(start, column)
        value = llvm.load(F32, llvm.getelementptr(POINTER, x, [at], [DYNAMIC], F32))
        power = math.exp(arith.subf(value, most))
        llvm.store(arith.divf(power, total), llvm.getelementptr(POINTER, y, [at], [DYNAMIC], F32))


@mimw.jit
def softmax_rows(x, y, columns):
    tle.raw.call(softmax, [x, y, columns])


# Step 5. A tile goes in and comes back. It lies in shared memory while the body runs: a memref, any element of which any thread may
# read. What the body writes are new values, which the call gives; the tiles of the kernel stay what they were.
@dialect(name="mlir")
def rank(x: Input[L["memref<?xf32, 3>"]], values: InOut[L["memref<?xf32, 3>"]], places: InOut[L["memref<?xi32, 3>"]],
         k: Input[L["i32"]]):
    """An element's rank is how many come before it. A thread stops counting at k: more is not asked for."""
    n, zero = memref.dim(x, 0), arith.constant(I32, 0)
    for i in scf.for_(gpu.thread_id("x"), n, gpu.block_dim("x")):
        mine = memref.load(x, [i])
        # Step 6. `scf.while_` has two regions. Threads leave the loop one by one; the loop is over when all have left.
        search = scf.while_([INDEX, I32], [arith.constant(INDEX, 0), zero])
        with search.before as (j, before):
            scf.condition(arith.andi(arith.cmpi("slt", j, n), arith.cmpi("slt", before, k)), [j, before])
        with search.after as (j, before):
            other = memref.load(x, [j])
            ties = arith.andi(arith.cmpf("oeq", other, mine), arith.cmpi("slt", j, i))
            scf.yield_([j + 1, arith.addi(before, arith.extui(I32, arith.ori(arith.cmpf("ogt", other, mine), ties)))])
        found = search.results[1]
        with scf.if_(arith.cmpi("slt", found, k)):
            at = arith.index_cast(INDEX, found)
            memref.store(mine, values, [at])
            memref.store(arith.index_cast(I32, i), places, [at])


@mimw.jit
def topk_rows(x, values, places, N: tl.constexpr, K: tl.constexpr):
    row, first = tl.program_id(0), tl.arange(0, K)
    tile = tl.load(x + row * N + tl.arange(0, N))
    best, at = tle.raw.call(rank, [tile, tl.zeros([K], tl.float32), tl.zeros([K], tl.int32), K])
    tl.store(values + row * K + first, best)
    tl.store(places + row * K + first, at)


# What is recorded? Ops of the kernel, for all threads at once: the thread's number is a tile of 128 lanes, `memref.load` a load
# through a tile of pointers, `scf.if_` a mask, or a branch where all threads go one way. So the simulator runs a body as it runs a
# kernel, and `mimw.check` knows what it does to memory. The order of the ops is a legal one of the threads': a body that is right
# under CUDA's rules is right here. Which thread wins where two write one element is not said, here as there.
#
# What if? Each of these is one edit:
#
#     `nvvm.barrier0()` moves into the branch of step 3     RawCodeError           those that come would wait for ever
#     gpu.thread_id("x") in place of `thread` in softmax    RawCodeError           operands of one type, got i32 and index
#     memref.store(mine, x, [at]) in step 6                 RawCodeError           x is an Input
#     vprint in place of vprintf                            UnknownSymbolError     the name, the line, and `vprintf`
#     0 in place of nvvm.read_ptx_sreg_ctaid_x()            DataRace (mimw.check)  all programs write the first row


def case():
    """A few rows on numpy arrays, and what should come out: `mimw check 25_raw_bodies.py:case`."""
    x = np.random.default_rng(0).standard_normal((3, 300)).astype(np.float32)
    powers = np.exp(x - x.max(1, keepdims=True))
    return mimw.Case(softmax_rows, (3, ), (x, np.zeros_like(x), 300), expected={"y": powers / powers.sum(1, keepdims=True)})


def simulate_one():
    """Small ones on the simulator."""
    import harness
    mimw.simulate(greet, (1, ), 2)
    harness.simulated(case(), seeds=2)
    random = np.random.default_rng(1)
    x = random.integers(0, 50, (2, 128)).astype(np.float32)
    values, places = np.zeros((2, 8), np.float32), np.zeros((2, 8), np.int32)
    mimw.simulate(topk_rows, (2, ), x, values, places, 128, 8)
    print("top-k as numpy's:", (places == np.argsort(-x, axis=1, kind="stable")[:, :8]).all())


def measure_one(columns):
    """The softmax, against torch's."""
    import torch
    from measure import measured
    x = torch.randn(4096, columns, device="cuda")
    y = torch.empty_like(x)
    print(measured("softmax in a raw body", dict(rows=4096, columns=columns), dict(num_warps=8),
                   lambda: softmax_rows[(4096, )](x, y, columns, num_warps=8), {"torch.softmax": lambda: torch.softmax(x, 1)},
                   y, torch.softmax(x, 1), flops=0, allowed=1e-5, moved=2 * x.numel() * x.element_size()))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (1024, ), (8192, ))
