"""Kernels with native code: on the simulator by their references, on a GPU by the code itself."""

from typing import Literal as L

import numpy as np
import pytest
import triton.language as tl

import mimw
import mimw.tle as tle
from mimw.testing import compare
from tests.kernels import raw_cuda

InOut, Input, Output = tle.raw.InOut, tle.raw.Input, tle.raw.Output

PTX_ADD = """
.visible .func add(.param .b64 x, .param .b64 y, .param .b64 out)
{
    .reg .b32 %t; .reg .b64 %a<4>; .reg .f32 %v<3>;
    ld.param.b64 %a0, [x];
    ld.param.b64 %a1, [y];
    ld.param.b64 %a2, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %a3, %t, 4;
    add.u64 %a0, %a0, %a3; add.u64 %a1, %a1, %a3; add.u64 %a2, %a2, %a3;
    ld.f32 %v0, [%a0]; ld.f32 %v1, [%a1];
    add.f32 %v2, %v0, %v1;
    st.f32 [%a2], %v2;
    ret;
}
"""


def added(x, y, out):
    out[:] = x + y


@tle.raw.dialect(name="ptx", source=PTX_ADD, reference=added)
def ptx_add(x: Input[L["memref<128xf32, 3>"]], y: Input[L["memref<128xf32, 3>"]], out: Output[L["memref<128xf32, 3>"]]): ...


@tle.raw.dialect(name="llvm", reference=added, source="""
define void @add(ptr addrspace(3) %x, ptr addrspace(3) %y, ptr addrspace(3) %out) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %xp = getelementptr float, ptr addrspace(3) %x, i32 %t
  %yp = getelementptr float, ptr addrspace(3) %y, i32 %t
  %op = getelementptr float, ptr addrspace(3) %out, i32 %t
  %a = load float, ptr addrspace(3) %xp
  %b = load float, ptr addrspace(3) %yp
  %c = fadd float %a, %b
  store float %c, ptr addrspace(3) %op
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
""")
def llvm_add(x: Input[L["memref<128xf32, 3>"]], y: Input[L["memref<128xf32, 3>"]], out: Output[L["memref<128xf32, 3>"]]): ...


@mimw.jit
def add_tiles(x, y, out):
    at = tl.program_id(0) * 128 + tl.arange(0, 128)
    first, second = tl.load(x + at), tl.load(y + at)
    made = tle.raw.call(ptx_add, [first, second, first])
    made = tle.raw.call(llvm_add, [made, second, first])
    tl.store(out + at, made)


def test_vector_add_in_ptx_and_llvm(machine):
    x, y = (np.random.default_rng(seed).standard_normal(256).astype(np.float32) for seed in (1, 2))
    out = np.zeros_like(x)
    machine.launch(add_tiles, (2, ), x, y, out)
    assert (out == x + y + y).all()


def test_vector_add(machine):
    x, y = (np.random.default_rng(seed).standard_normal(300).astype(np.float32) for seed in (1, 2))
    out = np.zeros_like(x)
    machine.launch(raw_cuda.vector_add, (3, ), x, y, out, 300)
    assert (out == x + y).all()


def test_softmax(machine):
    x = np.random.default_rng(3).standard_normal((5, 200)).astype(np.float32)
    y = np.zeros_like(x)
    machine.launch(raw_cuda.softmax, (5, ), x, y, 200, 256)
    wanted = np.exp(x - x.max(1, keepdims=True))
    compare(y, wanted / wanted.sum(1, keepdims=True), atol=1e-5, rtol=1e-4)


def test_product_of_operands_in_shared_memory(machine):
    m, n, k = 32, 64, 32
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float16) for seed, shape in ((4, (m, k)), (5, (k, n))))
    c = np.zeros((m, n), np.float32)
    machine.launch(raw_cuda.product, (1, ), a, b, c, m, n, k)
    compare(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-4, rtol=1e-4)


def test_largest(machine):
    x = np.random.default_rng(6).integers(0, 50, (3, 128)).astype(np.float32)
    values, indices = np.zeros((3, 8), np.float32), np.zeros((3, 8), np.int32)
    machine.launch(raw_cuda.largest, (3, ), x, values, indices, 128, 8)
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    assert (indices == order).all() and (values == np.take_along_axis(x, order, 1)).all()


def test_an_epilogue_of_cuda_in_a_warp_specialised_product(machine):
    m, n, k, block = 128, 256, 128, (64, 128, 64)
    a, b = (np.random.default_rng(seed).standard_normal(shape).astype(np.float16) / 8 for seed, shape in ((7, (m, k)), (8, (k, n))))
    bias, c = np.linspace(-1, 1, n, dtype=np.float32), np.zeros((m, n), np.float32)
    describe = mimw.TensorDescriptor.from_tensor
    bm, bn, bk = block
    machine.launch(raw_cuda.gemm, (m // bm, n // bn), describe(a, [bm, bk]), describe(b, [bk, bn]), bias, c, n, k, bm, bn, bk, 2)
    compare(c, raw_cuda.gelu(a.astype(np.float32) @ b.astype(np.float32) + bias), atol=2e-3, rtol=2e-3)


COUNT = r"""
__device__ void count(int *, int *tile, int64_t, int64_t n, int64_t, int step) {
    for (int at = threadIdx.x; at < n; at += blockDim.x) tile[at] += step;
}
"""


def counted(tile, step):
    tile += step


def test_a_changed_file_is_compiled_again(machine, tmp_path):
    source = tmp_path / "count.cu"
    source.write_text(COUNT)

    @tle.raw.dialect(name="cuda", file=str(source), reference=counted)
    def count(tile: InOut[L["memref<?xi32, 3>"]], step: Input[L["i32"]]): ...

    @mimw.jit
    def kernel(x):
        at = tl.arange(0, 64)
        tl.store(x + at, tle.raw.call(count, [tl.load(x + at), 2]))

    x = np.zeros(64, np.int32)
    machine.launch(kernel, (1, ), x)
    assert (x == 2).all()
    if machine.name == "gpu":
        source.write_text(COUNT.replace("+= step;\n}", "+= 10 * step;\n}"))
        machine.launch(kernel, (1, ), x)
        assert (x == 22).all()


pytestmark = pytest.mark.filterwarnings("error::mimw.errors.RemarkWarning")
