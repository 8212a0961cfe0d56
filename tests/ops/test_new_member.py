"""The new member of the GEMM family that docs/ARCHITECTURE.md shows, and the operator over it, as they stand there."""

import importlib
import sys

import ml_dtypes
import numpy as np
import pytest

import mimw
from tests.docs.blocks import ROOT, blocks

FILES = {block.mark.removeprefix("file: "): block.text for block in blocks(ROOT / "docs" / "ARCHITECTURE.md")
         if block.mark.startswith("file: summed_")}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


def test_it_takes_forty_lines_and_one_file():
    assert len(FILES["summed_gemm.py"].splitlines()) <= 40
    assert list(FILES) == ["summed_gemm.py", "summed_matmul.py"]


@pytest.mark.parametrize("batch, m, n, k", [(1, 64, 64, 64), (3, 200, 136, 96), (2, 1, 8, 200)])
def test_products_are_summed(batch, m, n, k):
    kernel = importlib.import_module("summed_gemm")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((batch, rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.full((m, n), np.nan, np.float32)
    grid, args, meta = kernel.arguments(a, b, c, programs=3)
    mimw.simulate(kernel.summed_gemm, grid, *args, races=True, **meta)
    np.testing.assert_allclose(c, np.einsum("imk,ink->mn", a.astype(np.float32), b.astype(np.float32)), atol=1e-3)


def test_no_interleaving_is_wrong():
    kernel = importlib.import_module("summed_gemm")
    a, b = (np.ones((2, 192, 128), ml_dtypes.bfloat16) for _ in range(2))
    grid, args, meta = kernel.arguments(a, b, np.zeros((192, 192), np.float32), programs=2, stages=2)
    assert mimw.check(kernel.summed_gemm, grid, *args, seeds=3, **meta).ok


def test_the_operator():
    torch = pytest.importorskip("torch", reason="operators need torch: make test TORCH=torch==VERSION+cpu")
    summed_matmul = importlib.import_module("summed_matmul").summed_matmul
    a, b = (torch.randn(3, rows, 40, dtype=torch.bfloat16, requires_grad=True) for rows in (64, 72))
    wide = [one.detach().float().requires_grad_() for one in (a, b)]
    c, expected = summed_matmul(a, b), torch.einsum("imk,ink->mn", *wide)
    torch.testing.assert_close(c.float(), expected, atol=0.2, rtol=0.02)
    (c.float() ** 2).sum().backward()
    (expected ** 2).sum().backward()
    for one, other in zip((a, b), wide):
        torch.testing.assert_close(one.grad.float(), other.grad, atol=2.0, rtol=0.05)
    with pytest.raises(RuntimeError, match=r"it must be 3 x N x 40, \(batch, N, K\)"):
        summed_matmul(a, b[:2])
    torch.library.opcheck(torch.ops.mimw.summed_matmul.default, (a, b))
