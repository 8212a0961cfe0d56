"""What the tests of the GEMM tutorials share: a product of a given shape, and its error."""

import numpy as np

import mimw
from mimw.testing import compare
from tests.seeds import shows


def matrices(m: int, n: int, k: int):
    """a, b and a c of NaNs."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    return a, b, np.full((m, n), np.nan, np.float16)


def run_and_compare(machine, tutorial, shape, programs: int, **chosen) -> None:
    """The product by the tutorial's `gemm` against numpy's."""
    a, b, c = matrices(*shape)
    grid, args, meta = tutorial.arguments(a, b, c, programs, **chosen)
    machine.launch(tutorial.gemm, grid, *args, **meta)
    compare(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-3, atol=2e-2)


def checked(tutorial, shape, programs: int, seeds=3, **chosen):
    """What `mimw.check` finds."""
    grid, args, meta = tutorial.arguments(*matrices(*shape), programs, **chosen)
    return mimw.check(tutorial.gemm, grid, *args, seeds=seeds, shrink=False, **meta)


def finds(kind: str, tutorial, shape, programs: int, **chosen) -> bool:
    """Whether one of three seeds shows a mistake of that kind."""
    return shows(kind, lambda seeds: checked(tutorial, shape, programs, seeds, **chosen), 3)
