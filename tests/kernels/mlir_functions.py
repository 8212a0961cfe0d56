"""Kernels whose work is done by functions in MLIR text, small.

    mimw.simulate(adding, (2, ), x, y, out, n)          out = x + y, 256 elements a program, masked by n
    mimw.simulate(softmax, (rows // 4, ), x, out)       of rows of 64
    mimw.simulate(product, (1, ), a, b, c)              c = a @ b, (64, 64) each; b lies in shared memory
    mimw.simulate(largest, (1, ), x, values, places)    the K largest of 128 and where they stand, in order
    mimw.simulate(handing, (1, ), x, out)               out = 2 x + 1, one task fills a buffer, the other one calls

Shapes are fixed; all arrays are fp32 but for a and b, fp16, and `places`, i32. None of these makes a mistake.
"""

from __future__ import annotations

import triton.language as tl

import mimw
import mimw.tle as tle
import mimw.tlx as tlx


@tle.raw.dialect(name="mlir", source="""
tt.func @add_masked(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
  %c256 = arith.constant 256 : i32
  %program = tt.get_program_id x : i32
  %first = arith.muli %program, %c256 : i32
  %lane = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %firsts = tt.splat %first : i32 -> tensor<256xi32>
  %at = arith.addi %firsts, %lane : tensor<256xi32>
  %ends = tt.splat %n : i32 -> tensor<256xi32>
  %inside = arith.cmpi slt, %at, %ends : tensor<256xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %ys = tt.splat %y : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %outs = tt.splat %out : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
  %px = tt.addptr %xs, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %py = tt.addptr %ys, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %po = tt.addptr %outs, %at : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
  %vx = tt.load %px, %inside : tensor<256x!tt.ptr<f32>>
  %vy = tt.load %py, %inside : tensor<256x!tt.ptr<f32>>
  %sum = arith.addf %vx, %vy : tensor<256xf32>
  tt.store %po, %sum, %inside : tensor<256x!tt.ptr<f32>>
  tt.return
}
""")
def add_masked(x: tle.raw.Input, y: tle.raw.Input, out: tle.raw.Output, n): ...


@mimw.jit
def adding(x, y, out, n):
    """The function does all of it: it takes pointers."""
    tle.raw.call(add_masked, [x, y, out, n])


@tle.raw.dialect(name="mlir", source="""
func.func @softmax_rows(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %top = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %larger = arith.maxnumf %a, %b : f32
    tt.reduce.return %larger : f32
  }) : (tensor<4x64xf32>) -> tensor<4xf32>
  %tops = call @along_rows(%top) : (tensor<4xf32>) -> tensor<4x64xf32>
  %less = arith.subf %x, %tops : tensor<4x64xf32>
  %e = math.exp %less : tensor<4x64xf32>
  %sum = "tt.reduce"(%e) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %both = arith.addf %a, %b : f32
    tt.reduce.return %both : f32
  }) : (tensor<4x64xf32>) -> tensor<4xf32>
  %sums = call @along_rows(%sum) : (tensor<4xf32>) -> tensor<4x64xf32>
  %y = arith.divf %e, %sums : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

func.func @along_rows(%x: tensor<4xf32>) -> tensor<4x64xf32> {
  %column = tt.expand_dims %x {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  %whole = tt.broadcast %column : tensor<4x1xf32> -> tensor<4x64xf32>
  return %whole : tensor<4x64xf32>
}
""")
def softmax_rows(x): ...


@mimw.jit
def softmax(x, out):
    """The kernel loads and stores a tile of 4 rows."""
    at = (tl.program_id(0) * 4 + tl.arange(0, 4))[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out + at, tle.raw.call(softmax_rows, [tl.load(x + at)]))


@tle.raw.dialect(name="mlir", source="""
tt.func @step(%a: tensor<64x32xf16>, %b: !ttg.memdesc<32x64xf16>, %acc: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %tile = ttg.local_load %b : !ttg.memdesc<32x64xf16> -> tensor<32x64xf16>
  %c = tt.dot %a, %tile, %acc : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32>
  tt.return %c : tensor<64x64xf32>
}
""")
def step(a, b, acc): ...


@mimw.jit
def product(a, b, c):
    """Two steps of 32; a tile of b is stored to a buffer, from which the function reads it."""
    tile = tlx.local_alloc((32, 64), tl.float16, 1)
    rows, columns, inner = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :], tl.arange(0, 32)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, 64, 32):
        tlx.local_store(tile[0], tl.load(b + (k + inner)[:, None] * 64 + columns))
        acc = tle.raw.call(step, [tl.load(a + rows * 64 + k + inner[None, :]), tile[0], acc])
    tl.store(c + rows * 64 + columns, acc)


@tle.raw.dialect(name="mlir", source="""
tt.func @top(%x: tensor<128xf32>, %values: !tt.ptr<f32>, %places: !tt.ptr<i32>, %k: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant dense<0xFF800000> : tensor<128xf32>
  %lane = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %end = scf.for %i = %c0 to %k step %c1 iter_args(%left = %x) -> (tensor<128xf32>) : i32 {
    %best:2 = "tt.reduce"(%left, %lane) <{axis = 0 : i32}> ({
    ^bb0(%va: f32, %ia: i32, %vb: f32, %ib: i32):
      %more = arith.cmpf ogt, %va, %vb : f32
      %same = arith.cmpf oeq, %va, %vb : f32
      %before = arith.cmpi slt, %ia, %ib : i32
      %tied = arith.andi %same, %before : i1
      %first = arith.ori %more, %tied : i1
      %v = arith.select %first, %va, %vb : f32
      %at = arith.select %first, %ia, %ib : i32
      tt.reduce.return %v, %at : f32, i32
    }) : (tensor<128xf32>, tensor<128xi32>) -> (f32, i32)
    %pv = tt.addptr %values, %i : !tt.ptr<f32>, i32
    %pi = tt.addptr %places, %i : !tt.ptr<i32>, i32
    tt.store %pv, %best#0 : !tt.ptr<f32>
    tt.store %pi, %best#1 : !tt.ptr<i32>
    %taken = tt.splat %best#1 : i32 -> tensor<128xi32>
    %here = arith.cmpi eq, %lane, %taken : tensor<128xi32>
    %rest = arith.select %here, %none, %left : tensor<128xi1>, tensor<128xf32>
    scf.yield %rest : tensor<128xf32>
  }
  tt.return
}
""", effects={"values": "out", "places": "out"})
def top(x, values, places, k): ...


@mimw.jit
def largest(x, values, places, K):
    """The function takes a tile, and stores the result itself."""
    tle.raw.call(top, [tl.load(x + tl.arange(0, 128)), values, places, K])


@tle.raw.dialect(name="mlir", source="""
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
tt.func @double(%b: !ttg.memdesc<256xf32>) -> (tensor<256xf32>, f32) {
  %one = arith.constant 1.0 : f32
  %v = ttg.local_load %b : !ttg.memdesc<256xf32> -> tensor<256xf32, #pairs>
  %w = arith.addf %v, %v : tensor<256xf32, #pairs>
  %x = ttg.convert_layout %w : tensor<256xf32, #pairs> -> tensor<256xf32>
  tt.return %x, %one : tensor<256xf32>, f32
}
""")
def double(b): ...


@mimw.jit
def handing(x, out):
    """The call is in a task: its buffer is filled by another one, and told of by an mbarrier."""
    tile, full = tlx.local_alloc((256, ), tl.float32, 1), tlx.alloc_barriers(1)
    with tlx.async_tasks():
        with tlx.async_task("default"):
            tlx.local_store(tile[0], tl.load(x + tl.arange(0, 256)))
            tlx.barrier_arrive(full[0])
        with tlx.async_task(num_warps=4):
            tlx.barrier_wait(full[0], 0)
            twice, one = tle.raw.call(double, [tile[0]])
            tl.store(out + tl.arange(0, 256), twice + one)
