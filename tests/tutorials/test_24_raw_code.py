"""Tutorial 24 on the simulator and on the GPU, and the edits that it proposes."""

import numpy as np
import pytest
from triton.compiler.errors import CompilationError

import mimw
from mimw.errors import RawCodeError
from mimw.testing import compare
from tests.compiling import to_assembly


def some(*shape, kind=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32).astype(kind)


def test_tanh(machine, tutorial):
    x, y = some(300), np.full(310, np.nan, np.float32)
    tutorial.tanh_array(machine.launch, x, y, BLOCK=256)
    compare(y[:300], np.tanh(x), atol=1e-3, rtol=1e-3)
    assert np.isnan(y[300:]).all()


def test_softmax(machine, tutorial):
    x, y = some(3, 100), np.zeros((3, 100), np.float32)
    tutorial.softmax_rows(machine.launch, x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    compare(y, powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


def test_a_product_with_an_epilogue_of_cuda(machine, tutorial):
    a, b, c = some(128, 128, kind=np.float16), some(128, 256, kind=np.float16), np.zeros((128, 256), np.float16)
    bias = np.linspace(-1, 1, 256, dtype=np.float32)
    tutorial.multiply(machine.launch, a, b, bias, c, BM=64, BN=128, BK=64, STAGES=2)
    compare(c, tutorial.gelu(a.astype(np.float32) @ b.astype(np.float32) + bias), rtol=5e-3, atol=2e-2)


def test_the_edits(edited):
    """What the file says of its own mistakes."""
    ends = edited("@!%more ret;", "@!%more exit;")
    with pytest.raises(RawCodeError, match="`exit` in native code") as caught:
        to_assembly(ends.tanh, {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": 128})
    assert "exit;" in str(caught.value) and "tle.raw.call(fast_tanh" in str(caught.value)
    reads = edited('def fast_tanh(tile: InOut[', 'def fast_tanh(tile: Input[')
    with pytest.raises(CompilationError, match="cannot convert None"):
        reads.tanh_array(mimw.simulate, some(128), some(128), BLOCK=128)
    narrow = edited("bias: Input[L[\"!llvm.ptr<1>\"]], c:", "c:")
    with pytest.raises(CompilationError, match="takes 3 arguments .tile, c, row., got 4"):
        a, c = some(64, 128, kind=np.float16), np.zeros((64, 128), np.float16)
        narrow.multiply(mimw.simulate, a, some(128, 128, kind=np.float16), some(128), c, BM=64, STAGES=2)


def test_the_program_prints(tutorial, capsys):
    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(tutorial.__file__).parent))
    try:
        tutorial.simulate_one()
    finally:
        sys.path.pop(0)
    said = capsys.readouterr().out
    assert "softmax in CUDA" in said and "taken as declared: epilogue" in said and "largest difference to numpy" in said
