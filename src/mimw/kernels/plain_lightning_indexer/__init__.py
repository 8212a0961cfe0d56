"""The scores of the lightning indexer on any GPU, with any number of heads and columns: e4m3, bf16 and fp16.

Input: queries with many heads, keys of one head with a scale each, weights of the heads. Output: scores. For example:

    arguments(q, k, weights, scores, k_scale)       (grid, args, meta) of a launch or `mimw.simulate` of `kernel`, numpy or torch
    paged(q, cache, weights, scores, lengths, table, scales)    the same of keys in pages
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from ..lightning_indexer import paged_tensors, tensors
from ..lightning_indexer.nouns import Problem
from .kernel import plain_lightning_indexer as kernel
from .nouns import Form, Strides

__all__ = ["CONTRACT", "PAGED", "arguments", "kernel", "paged"]

BK, QUERIES = 64, 8         # keys and queries of a program
SOME = "H > 0 and D > 0 -- there must be heads, and columns"
CONTRACT, PAGED = Contract(*tensors("rows"), SOME), Contract(*paged_tensors("rows"), SOME)


def arguments(q, k, weights, scores, k_scale=None, starts=None, ends=None, causal: bool = False, fill: bool = True,
              direct: bool = True) -> tuple[tuple[int, int], tuple, dict]:
    """(grid, args, meta) that fill scores.

    args:      as those of `mimw.kernels.lightning_indexer.arguments`, with any H and D; k contiguous along D
               direct   products of the type that q has; else of fp16, which holds every e4m3 number
    errors:    ValueError where shapes or types do not fit, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, weights=weights, scores=scores, k_scale=k_scale, starts=starts, ends=ends)
    problem = Problem(of.S, of.T, 1, strides(scores)[0], 1, 0)
    given = q, k, k_scale, weights, scores, starts, ends, None, None
    return _launch(given, problem, Strides(0, strides(k)[0], 0), 0, causal, fill, direct)


def paged(q, cache, weights, scores, lengths, table, scales=None, fill: bool = True,
          direct: bool = True) -> tuple[tuple[int, int], tuple, dict]:
    """(grid, args, meta) that fill scores of keys in pages.

    args:      as those of `mimw.kernels.lightning_indexer.paged`, with any H and D, and pages of any size; cache and scales are
               contiguous along their last dimension; direct as above
    errors:    as above
    """
    of = PAGED.check(q=q, cache=cache, weights=weights, scores=scores, lengths=lengths, table=table, scales=scales)
    problem = Problem(of.S, of.T, of.B, of.T, of.pages, strides(table)[0])
    steps = Strides(*strides(cache)[:2], 0 if scales is None else strides(scales)[0])
    given = q, cache, scales, weights, scores, None, None, lengths, table
    return _launch(given, problem, steps, of.page, True, fill, direct)


def _launch(given: tuple, problem: Problem, steps: Strides, page: int, causal: bool, fill: bool,
            direct: bool) -> tuple[tuple[int, int], tuple, dict]:
    heads, dim = given[0].shape[-2:]
    h_tile, d_tile = (max(32, 1 << (extent - 1).bit_length()) for extent in (heads, dim))
    form = Form(heads, dim, h_tile, d_tile, BK, QUERIES, page, causal, fill, direct)
    grid = -(-problem.S // QUERIES) * problem.B, -(-problem.T // BK)
    return grid, (*given, problem, steps), dict(FORM=form, num_warps=4)
