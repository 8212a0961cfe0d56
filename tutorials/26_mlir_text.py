"""26  Functions in MLIR text: their bodies become a part of the kernel, so that nothing is spilled and nothing is hidden.

    python tutorials/26_mlir_text.py          on a GPU: check, measure against torch; elsewhere: check and simulate small cases

24 ends a product in CUDA C++: the accumulator goes through shared memory to reach the code, and the tools know its effects only
from a declaration. A function in MLIR text is made of the ops that a kernel is made of. It takes tiles as they lie in registers,
Triton's passes optimise it with the rest, the simulator runs it, and a race in it names its line. docs/RAW_MLIR.md has all of it.

How the program is run and measured is harness.py's.
"""

import numpy as np
import triton
import triton.language as tl

import mimw
from mimw import tle, tlx


# Step 1. A function on a tile. Types as Triton's own IR has them, without layouts: those are the compiler's. Functions of a text
# may call each other; the one with the stub's name is what a kernel calls.
@tle.raw.dialect(name="mlir", source="""
tt.func @softmax_tile(%x: tensor<4x1024xf32>) -> tensor<4x1024xf32> {
  %top = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %larger = arith.maxnumf %a, %b : f32
    tt.reduce.return %larger : f32
  }) : (tensor<4x1024xf32>) -> tensor<4xf32>
  %tops = tt.call @along_rows(%top) : (tensor<4xf32>) -> tensor<4x1024xf32>
  %less = arith.subf %x, %tops : tensor<4x1024xf32>
  %e = math.exp %less : tensor<4x1024xf32>
  %sum = "tt.reduce"(%e) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %both = arith.addf %a, %b : f32
    tt.reduce.return %both : f32
  }) : (tensor<4x1024xf32>) -> tensor<4xf32>
  %sums = tt.call @along_rows(%sum) : (tensor<4xf32>) -> tensor<4x1024xf32>
  %y = arith.divf %e, %sums : tensor<4x1024xf32>
  tt.return %y : tensor<4x1024xf32>
}

tt.func @along_rows(%x: tensor<4xf32>) -> tensor<4x1024xf32> {
  %column = tt.expand_dims %x {axis = 1 : i32} : tensor<4xf32> -> tensor<4x1xf32>
  %whole = tt.broadcast %column : tensor<4x1xf32> -> tensor<4x1024xf32>
  tt.return %whole : tensor<4x1024xf32>
}
""")
def softmax_tile(x): ...


@mimw.jit
def softmax(x, y, rows, columns):
    row, column = (tl.program_id(0) * 4 + tl.arange(0, 4))[:, None], tl.arange(0, 1024)[None, :]
    at, inside = row.to(tl.int64) * columns + column, (row < rows) & (column < columns)
    tl.store(y + at, tle.raw.call(softmax_tile, [tl.load(x + at, mask=inside, other=-float("inf"))]), mask=inside)


# Step 2. Shared memory and a layout of the text's own. The product reads both operands where TMA has put them; `#mma` is how the
# tensor cores of Hopper give the accumulator to four warps. Between that and a tile without a layout stands a conversion, of which
# nothing is left: the loop around the call carries the accumulator as the tensor cores have it.
@tle.raw.dialect(name="mlir", source="""
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
tt.func @step(%a: !ttg.memdesc<64x64xf16>, %b: !ttg.memdesc<64x128xf16>, %acc: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %sum = ttg.convert_layout %acc : tensor<64x128xf32> -> tensor<64x128xf32, #mma>
  %c = ttng.warp_group_dot %a, %b, %sum : !ttg.memdesc<64x64xf16> * !ttg.memdesc<64x128xf16> -> tensor<64x128xf32, #mma>
  %d = ttg.convert_layout %c : tensor<64x128xf32, #mma> -> tensor<64x128xf32>
  tt.return %d : tensor<64x128xf32>
}
""")
def step(a, b, acc): ...


# Step 3. The epilogue of 24, on the accumulator in its registers. It loads the bias itself: a pointer is a pointer.
@tle.raw.dialect(name="mlir", source="""
tt.func @epilogue(%acc: tensor<64x128xf32>, %bias: !tt.ptr<f32>) -> tensor<64x128xf16> {
  %lane = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
  %base = tt.splat %bias : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %at = tt.addptr %base, %lane : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %b = tt.load %at : tensor<128x!tt.ptr<f32>>
  %row = tt.expand_dims %b {axis = 0 : i32} : tensor<128xf32> -> tensor<1x128xf32>
  %rows = tt.broadcast %row : tensor<1x128xf32> -> tensor<64x128xf32>
  %x = arith.addf %acc, %rows : tensor<64x128xf32>
  %slope = arith.constant dense<-1.702> : tensor<64x128xf32>
  %one = arith.constant dense<1.0> : tensor<64x128xf32>
  %sx = arith.mulf %x, %slope : tensor<64x128xf32>
  %e = math.exp %sx : tensor<64x128xf32>
  %d = arith.addf %e, %one : tensor<64x128xf32>
  %y = arith.divf %x, %d : tensor<64x128xf32>
  %h = arith.truncf %y : tensor<64x128xf32> to tensor<64x128xf16>
  tt.return %h : tensor<64x128xf16>
}
""")
def epilogue(acc, bias): ...


@mimw.jit
def gemm(a, b, bias, c, K, STAGES: tl.constexpr):
    left, right = tlx.local_alloc((64, 64), tl.float16, STAGES), tlx.local_alloc((64, 128), tl.float16, STAGES)
    full, free = tlx.alloc_barriers(STAGES), tlx.alloc_barriers(STAGES)
    m, n = tl.program_id(0) * 64, tl.program_id(1) * 128
    with tlx.async_tasks():
        with tlx.async_task("default"):                                # load
            for i in range(tl.cdiv(K, 64)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(free[slot], phase ^ 1)
                tlx.barrier_expect_bytes(full[slot], 2 * 64 * (64 + 128))
                tlx.async_descriptor_load(a, left[slot], [m, i * 64], full[slot])
                tlx.async_descriptor_load(b, right[slot], [i * 64, n], full[slot])
        with tlx.async_task(num_warps=4, registers=232):               # multiply and store
            acc = tl.zeros((64, 128), tl.float32)
            for i in range(tl.cdiv(K, 64)):
                slot, phase = i % STAGES, (i // STAGES) & 1
                tlx.barrier_wait(full[slot], phase)                    # waits and arrivals are the kernel's
                acc = tle.raw.call(step, [left[slot], right[slot], acc])
                tlx.barrier_arrive(free[slot])
            c.store([m, n], tle.raw.call(epilogue, [acc, bias + n]))


# The launches, of numpy arrays or torch tensors; `launch(kernel, grid, *args, **meta)` is a machine.
def softmax_rows(launch, x, y):
    launch(softmax, (triton.cdiv(x.shape[0], 4), ), x, y, *x.shape, num_warps=8)


def multiply(launch, a, b, bias, c, STAGES=4):
    (m, k), n = a.shape, b.shape[1]
    describe = mimw.TensorDescriptor.from_tensor
    tensors = describe(a, [64, 64]), describe(b, [64, 128]), bias, describe(c, [64, 128])
    return launch(gemm, (m // 64, n // 128), *tensors, k, STAGES=STAGES)


# What if?
#     `%x %tops` for `%x, %tops` in step 1          RawCodeError: expected ',', with that line, and the call that is recorded
#     the wait for full[slot] goes                  mimw.check: DataRace, at the line of `ttng.warp_group_dot`
#     num_warps=8 in the task of step 3             RawCodeError: the text's layout is for 4 warps
#     [acc, n] for [acc, bias + n]                  ValueError, with the signature in MLIR
#     effects={"bias": "out"} of the epilogue       ValueError: the text reads that memory


def gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def case():
    """A small product with its epilogue on numpy arrays, and what should come out: `mimw check 26_mlir_text.py:case`."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((128, 128), np.float32).astype(np.float16) for _ in range(2))
    bias, c = np.linspace(-1, 1, 128, dtype=np.float32), np.zeros((128, 128), np.float16)
    wanted = gelu(a.astype(np.float32) @ b.astype(np.float32) + bias)
    return multiply(lambda kernel, grid, *args, **meta: mimw.Case(kernel, grid, args, meta, expected={"c": wanted}), a, b, bias, c,
                    STAGES=2)


def simulate_one():
    """Small cases on the simulator, and under `mimw.check`."""
    import harness
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 200), np.float32)
    softmax_rows(mimw.simulate, x, y := np.zeros_like(x))
    powers = np.exp(x - x.max(1, keepdims=True))
    print("softmax in MLIR: largest difference to numpy", np.abs(y - powers / powers.sum(1, keepdims=True)).max())
    harness.simulated(case(), seeds=2)


def measure_one(n):
    """Softmax of rows of 1024, and the product with its epilogue, against torch."""
    import torch
    from measure import measured

    def launch(kernel, grid, *args, **meta):
        kernel[grid](*args, **meta)

    x = torch.randn(4 * n, 1024, device="cuda")
    y = torch.empty_like(x)
    print(measured("softmax in MLIR", dict(rows=4 * n, columns=1024), dict(num_warps=8), lambda: softmax_rows(launch, x, y),
                   {"torch": lambda: torch.softmax(x, 1)}, y, torch.softmax(x.double(), 1), flops=0, allowed=1e-4,
                   moved=2 * x.numel() * 4))
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    bias, c = torch.linspace(-1, 1, n, device="cuda"), torch.empty(n, n, device="cuda", dtype=torch.float16)

    def by_torch():
        out = torch.matmul(a, b) + bias.half()
        return out * torch.sigmoid(1.702 * out)

    print(measured("product with an epilogue in MLIR", dict(M=n, N=n, K=n), dict(STAGES=4), lambda: multiply(launch, a, b, bias, c),
                   {"torch": by_torch, "cuBLAS alone": lambda: torch.matmul(a, b)}, c, by_torch(), flops=2 * n**3, allowed=2e-2))


if __name__ == "__main__":
    import harness
    harness.run(simulate_one, measure_one, (4096, ), (8192, ))
