"""Tutorial 26 on the simulator and on the GPU, and the edits that it proposes."""

import numpy as np
import pytest
from triton.compiler.errors import CompilationError

import mimw
from mimw.errors import RawCodeError
from mimw.testing import compare
from tests.compiling import to_assembly

_GEMM = {"a": "tensordesc<fp16[64, 64]>", "b": "tensordesc<fp16[64, 128]>", "bias": "*fp32",
         "c": "tensordesc<fp16[64, 128]>", "K": "i32"}


def some(*shape, kind=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(kind)


def product(tutorial, launch, a, b):
    bias, c = np.linspace(-1, 1, b.shape[1], dtype=np.float32), np.zeros((a.shape[0], b.shape[1]), np.float16)
    tutorial.multiply(launch, a, b, bias, c, STAGES=2)
    return bias, c


def test_softmax(machine, tutorial):
    x, y = some(5, 100), np.zeros((5, 100), np.float32)
    tutorial.softmax_rows(machine.launch, x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    compare(y, powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_a_product_with_an_epilogue_of_mlir(machine, tutorial):
    a, b = some(64, 192, kind=np.float16) / 4, some(192, 128, kind=np.float16)
    bias, c = product(tutorial, machine.launch, a, b)
    compare(c, tutorial.gelu(a.astype(np.float32) @ b.astype(np.float32) + bias), rtol=5e-3, atol=2e-2)


def test_nothing_is_spilled(tutorial):
    """The loop has a product and nothing between it and the slots; the epilogue works on the accumulator as it lies."""
    compiled = to_assembly(tutorial.gemm, _GEMM, {"STAGES": 2})
    task = compiled.stage("ttgir").partition("partition0")[2]
    loop, _, behind = task.partition("tt.num_stages = 0")
    assert loop.count("ttng.warp_group_dot") == 1
    assert not {"ttg.local_load", "ttg.local_store", "ttg.convert_layout"} & set(loop.split())
    assert behind.count("ttg.convert_layout") == 1 and "math.exp" in behind        # of the bias
    assert "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16" in compiled.stage("ptx")


def test_the_edits(edited):
    """What the file says of its own mistakes."""
    a, b, x = some(64, 128, kind=np.float16), some(128, 128, kind=np.float16), some(4, 64)
    torn = edited("arith.subf %x, %tops :", "arith.subf %x %tops :")
    with pytest.raises(RawCodeError, match="expected ','") as caught:
        torn.softmax_rows(mimw.simulate, x, x.copy())
    assert "arith.subf %x %tops" in str(caught.value) and "tle.raw.call(softmax_tile" in str(caught.value)
    early = edited("tlx.barrier_wait(full[slot], phase)                    # waits", "# waits")
    found = []
    product(early, lambda *args, **meta: found.append(mimw.check(*args, seeds=2, **meta)), a, b)
    assert not found[0].ok and "ttng.warp_group_dot" in str(found[0])
    wide = edited("with tlx.async_task(num_warps=4, registers=232)", "with tlx.async_task(num_warps=8, registers=232)")
    with pytest.raises(RawCodeError, match="4 warps per CTA, but the context requires 8"):
        product(wide, mimw.simulate, a, b)
    wrong = edited("tle.raw.call(epilogue, [acc, bias + n])", "tle.raw.call(epilogue, [acc, n])")
    with pytest.raises(CompilationError, match=r"is given i32 for %bias: !tt.ptr<f32>; its function in MLIR is \(%acc:"):
        product(wrong, mimw.simulate, a, b)
    end = 'tt.return %h : tensor<64x128xf16>\n}\n"""'
    declared = edited(f"{end})", f'{end}, effects={{"bias": "out"}})')
    with pytest.raises(CompilationError, match="declares bias 'out', and its text reads that memory"):
        product(declared, mimw.simulate, a, b)
