"""The README's kernel does what it says."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mimw
from mimw.compile import compile_kernel
from mimw.testing import compare


@pytest.fixture
def kernel(tmp_path):
    """The function of the first Python block, from a file, since a kernel needs its source."""
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    path = tmp_path / "readme.py"
    path.write_text(re.search(r"```python\n(.*?)```", readme, re.DOTALL).group(1))
    spec = spec_from_file_location("readme", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.gemm_tile


def test_simulated(kernel):
    m, n, k, tile = 256, 256, 256, {"BM": 128, "BN": 128, "BK": 64}
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), ml_dtypes.bfloat16)
    blocks = ((a, [128, 64]), (b, [64, 128]), (c, [128, 128]))
    descriptors = [mimw.TensorDescriptor.from_tensor(array, block) for array, block in blocks]
    mimw.simulate(kernel, (m // 128, n // 128), *descriptors, k, **tile, STAGES=3)
    compare(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2**-8, atol=1e-3)


def test_compiled(kernel):
    signature = {"a": "tensordesc<bf16[128,64]>", "b": "tensordesc<bf16[64,128]>", "c": "tensordesc<bf16[128,128]>", "K": "i32"}
    ptx = compile_kernel(kernel, signature, {"BM": 128, "BN": 128, "BK": 64, "STAGES": 3}).stages["ptx"]
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx and "mbarrier.try_wait" in ptx
