"""The operators of the library: every candidate is a launch that its kernel takes, and what the library uses is told apart."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest

from mimw.tuning import LIBRARY, TuningError, find, tune
from mimw.tuning.operators.grouped_gemm import ends_of

SHAPES = {"attention": ("1x2x256x192", "1x2x256x64:causal", "1x1x256x256"), "gemm": ("512x512x256", ), "topk": ("2x8192x8", ),
          "attention_backward": ("1x2x256x128", "1x2x256x64:causal"),
          "attention_decode": ("2x1x8x2x300x128", "2x16x10x1x300x64:paged"), "norm": ("4x16384", "256x16384:rms"),
          "cross_entropy": ("4x16384", "256x16384:forward", "256x20001"),
          "grouped_gemm": ("4x64x256x128", "8x64x256x128:ragged"), "moe": ("9x4x2x128x64", "512x4x2x128x64"),
          "column_gemm": ("16x6144x512", "100x2112x512"), "skinny_gemm": ("1x512x512", "200x512x512"),
          "simplicial_attention": ("1x64x512x128", "2x128x100x64"),
          "topk_selector": ("1x131072x2048", "64x8192x256")}


@pytest.mark.parametrize("name", LIBRARY)
def test_candidates_launch(name):
    operator = find(name)
    assert operator.name == name and operator.words == tuple(sorted(operator.words))
    for shape in SHAPES[name]:
        problem = operator.problem(shape)
        found = operator.candidates(problem, 132)
        assert 2 <= len(found) == len(set(found)) and type(operator.used(problem, 132)) is operator.configuration_type
        for one in [*found, operator.used(problem, 132)]:
            for kernel, grid, args, meta in operator.launches(problem, one, 132):
                assert kernel.cache_key and 1 <= len(grid) <= 3 and min(grid) > 0
                kernel.signature.bind(*args, **{key: value for key, value in meta.items() if key in kernel.arg_names})
        if operator.file is not None:
            assert operator.row(problem, found[0])["configuration"] == vars(found[0])


@pytest.mark.parametrize("name", ["attention", "attention_backward"])
def test_a_head_dim_that_the_kernel_does_not_take(name):
    with pytest.raises(TuningError, match="has no candidates for 1x2x256x80 bf16"):
        tune(name, ["1x2x256x80"], measure=False)


def test_sizes_of_groups():
    operator = find("grouped_gemm")
    assert list(ends_of(operator.problem("3x5x8x8"))) == [5, 10, 15]
    ragged = ends_of(operator.problem("64x256x8x8:ragged"))
    assert ragged[-1] == 64 * 256 and (np.diff(ragged) >= 0).all() and (np.diff(ragged)[::8] == 0).all()


def test_no_operator_touches_torch_when_it_is_imported():
    """A search forks: what its process has imported must not have started a driver."""
    for name in LIBRARY:
        source = Path(importlib.import_module(f"mimw.tuning.operators.{name}").__file__).read_text()
        top = [node for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not [node for node in top if "torch" in ast.unparse(node)]
