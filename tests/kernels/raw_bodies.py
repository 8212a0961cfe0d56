"""Raw functions with Python bodies, and the kernels that call them: a sum in the seed's form, and published forms.

Shapes: `add_seed` tiles of 1024 fp32, one program; `add_pointers` n fp32 through pointers, any grid; `softmax_rows` a tile of R
rows of
C fp32, C at least 32; `matmul_tiles` C[M, N] = A[M, K] B[K, N] in fp32, tiles of BM x BN, M, N and K multiples of the tiles;
`topk_rows` a row of N fp32 a program, K of them in order.
They plant no mistake: what is wrong in a body is in tests/tle/test_raw_body_control.py.
"""

from typing import Annotated, Any
from typing import Literal as L

import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.tle.raw import InOut, Input, arith, dialect, gpu, ir, llvm, math, memref, nvvm, scf, tensor

DYNAMIC = -2147483648


@tle.raw.language(name="mlir")
@tle.hardware_constraint(threads_dim=1, sync_scope="block")
def add_elements(x: Annotated[ir.RankedTensorType, "tensor<1024xf32>"], y: Annotated[Any, "tensor<1024xf32>"],
                 output: "tensor<1024xf32>"):   # noqa: F722  a text alone, as the contract has it
    i32 = ir.IntegerType.get_signless(32)
    thread = nvvm.ThreadIdXOp(i32).res
    block, size = nvvm.read_ptx_sreg_ctaid_x(i32), nvvm.read_ptx_sreg_ntid_x(i32)
    at = arith.index_cast(ir.IndexType.get(), arith.addi(arith.muli(block, size), thread))
    tensor.insert(arith.addf(tensor.extract(x, [at]), tensor.extract(y, [at])), output, [at])


@tle.jit
def add_seed(x_ptr, y_ptr, output_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    output = tl.zeros([N], tl.float32)
    tle.call(add_elements, args=[x, y, output], hardware={"threads": (N, )},
             layout={x: {"space": "shared", "order": [0]}, y: {"space": "shared", "order": [0]}})
    tl.store(output_ptr + at, output)


@dialect(name="mlir")
def add_strided(x: Input[L["!llvm.ptr<1>"]], y: Input[L["!llvm.ptr<1>"]], output: InOut[L["!llvm.ptr<1>"]], n: Input[L["i32"]]):
    i32, f32, ptr = ir.IntegerType.get_signless(32), ir.F32Type.get(), ir.Type.parse("!llvm.ptr<1>")
    thread, block = nvvm.ThreadIdXOp(i32).res, nvvm.BlockIdXOp(i32).res
    size, blocks = nvvm.BlockDimXOp(i32).res, nvvm.GridDimXOp(i32).res
    first = arith.addi(arith.muli(block, size), thread)
    for i in scf.for_(first, n, arith.muli(blocks, size)):
        a = llvm.load(f32, llvm.getelementptr(ptr, x, [i], [DYNAMIC], f32))
        b = llvm.load(f32, llvm.getelementptr(ptr, y, [i], [DYNAMIC], f32))
        llvm.store(arith.addf(a, b), llvm.getelementptr(ptr, output, [i], [DYNAMIC], f32))
        scf.yield_([])


@mimw.jit
def add_pointers(x_ptr, y_ptr, output_ptr, n):
    tle.raw.call(add_strided, [x_ptr, y_ptr, output_ptr, n])


def over_the_warp(value, combine):
    """A helper of bodies: every thread of the warp gets what `combine` makes of all 32 values."""
    i32, f32 = ir.IntegerType.get_signless(32), ir.F32Type.get()
    for step in [16, 8, 4, 2, 1]:
        other = nvvm.shfl_sync(f32, arith.constant(i32, -1), value, arith.constant(i32, step), arith.constant(i32, 31),
                               nvvm.ShflKind.bfly)
        value = combine(value, other)
    return value


@dialect(name="mlir")
def softmax(x: InOut[L["memref<?x?xf32, 3>"]]):
    """Warp after warp takes a row."""
    index, f32 = ir.IndexType.get(), ir.F32Type.get()
    thread, size = gpu.thread_id(gpu.Dimension.x), gpu.block_dim(gpu.Dimension.x)
    warp_size = arith.constant(index, 32)
    warp, lane, warps = arith.divsi(thread, warp_size), arith.remsi(thread, warp_size), arith.divsi(size, warp_size)
    rows, columns = memref.dim(x, 0), memref.dim(x, 1)
    for row in scf.for_(warp, rows, warps):
        for column, highest, most in scf.for_(lane, columns, warp_size, [arith.constant(f32, float("-inf"))]):
            scf.yield_([arith.maximumf(highest, memref.load(x, [row, column]))])
        most = over_the_warp(most, arith.maximumf)
        for column, partial, total in scf.for_(lane, columns, warp_size, iter_args=[arith.constant(f32, 0.0)]):
            e = math.exp(arith.subf(memref.load(x, [row, column]), most))
            memref.store(e, x, [row, column])
            scf.yield_([arith.addf(partial, e)])
        total = over_the_warp(total, arith.addf)
        for column in scf.for_(lane, columns, warp_size):
            memref.store(arith.divf(memref.load(x, [row, column]), total), x, [row, column])


@mimw.jit
def softmax_rows(x_ptr, output_ptr, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(output_ptr + at, tle.raw.call(softmax, [tl.load(x_ptr + at)]))


@dialect(name="mlir")
def multiply(a: Input[L["memref<?x?xf32, 3>"]], b: Input[L["memref<?x?xf32, 3>"]], c: InOut[L["memref<?x?xf32, 3>"]]):
    """c += a b; each thread takes elements of c in turn."""
    thread, size = gpu.thread_id("x"), gpu.block_dim("x")
    rows, columns, depth = memref.dim(c, 0), memref.dim(c, 1), memref.dim(a, 1)
    for i in scf.for_(thread, arith.muli(rows, columns), size):
        row, column = arith.divsi(i, columns), arith.remsi(i, columns)
        for k, partial, total in scf.for_(0, depth, 1, [memref.load(c, [row, column])]):
            product = arith.mulf(memref.load(a, [row, k]), memref.load(b, [k, column]))
            scf.yield_([arith.addf(partial, product)])
        memref.store(total, c, [row, column])


@mimw.jit
def matmul_tiles(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    c = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows * K + k + tl.arange(0, BK)[None, :])
        b = tl.load(b_ptr + (k + tl.arange(0, BK)[:, None]) * N + columns)
        c = tle.raw.call(multiply, [a, b, c])
    tl.store(c_ptr + rows * N + columns, c)


@dialect(name="mlir")
def topk(x: Input[L["memref<?xf32, 3>"]], values: InOut[L["memref<?xf32, 3>"]], at: InOut[L["memref<?xi32, 3>"]],
         k: Input[L["i32"]]):
    """The rank of each element is how many come before it; those of ranks below k write themselves."""
    index, i32 = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    n, zero, one = memref.dim(x, 0), arith.constant(i32, 0), arith.constant(i32, 1)
    for i in scf.for_(gpu.thread_id("x"), n, gpu.block_dim("x")):
        mine = memref.load(x, [i])
        for j, before, rank in scf.for_(0, n, 1, [zero]):
            other = memref.load(x, [j])
            equal = arith.andi(arith.cmpf(arith.CmpFPredicate.OEQ, other, mine), arith.cmpi(arith.CmpIPredicate.slt, j, i))
            earlier = arith.ori(arith.cmpf(arith.CmpFPredicate.OGT, other, mine), equal)
            scf.yield_([arith.addi(before, arith.select(earlier, one, zero))])
        taken = scf.IfOp(arith.cmpi(arith.CmpIPredicate.slt, rank, k))
        with ir.InsertionPoint(taken.then_block):
            place = arith.index_cast(index, rank)
            memref.store(mine, values, [place])
            memref.store(arith.index_cast(i32, i), at, [place])
            scf.yield_([])


@mimw.jit
def topk_rows(x_ptr, values_ptr, at_ptr, N: tl.constexpr, K: tl.constexpr):
    row, first = tl.program_id(0), tl.arange(0, K)
    x = tl.load(x_ptr + row * N + tl.arange(0, N))
    values, at = tle.raw.call(topk, [x, tl.zeros([K], tl.float32), tl.zeros([K], tl.int32), K], output_indices=[1, 2])
    tl.store(values_ptr + row * K + first, values)
    tl.store(at_ptr + row * K + first, at)
