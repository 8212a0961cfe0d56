"""The scores of DeepSeek's lightning indexer for Hopper, keys in one piece or in pages: e4m3, bf16 and fp16.

Input: queries with many heads, keys of one head with a scale each, weights of the heads. Output: scores. For example:

    arguments(q, k, weights, scores, programs, k_scale)     (grid, args, meta) of a launch or `mimw.simulate` of `kernel`
    paged(q, cache, weights, scores, lengths, table, programs, scales)      the same of a cache in pages, as in decoding

scores[s, t] = k_scale[t] sum over h of weights[s, h] relu(q[s, h] . k[t]).
"""

from __future__ import annotations

from ..checks import PROGRAMS
from ..contract import Contract
from ..contract.memory import strides
from ..descriptors import described
from .configs import DIMS, HEADS, PAGES, Configuration, configuration, paged_configuration, parts_of
from .kernel import lightning_indexer as kernel
from .nouns import Problem

__all__ = ["CONTRACT", "DIMS", "HEADS", "PAGED", "PAGES", "Configuration", "arguments", "configuration", "kernel", "paged",
           "paged_configuration", "paged_tensors", "tensors"]

def tensors(keys: str) -> tuple[str, ...]:
    """The lines of contracts for keys in one piece, whose rows lie as `keys` says."""
    return ("q: e4m3|bf16|fp16 (S, H, D) contiguous", f"k: =q (T, D) {keys}", "weights: fp32 (S, H) contiguous",
            "scores: fp32|bf16 (S, T) rows", "k_scale?: fp32 (T) contiguous", "starts?: i32 (S) contiguous",
            "ends?: i32 (S) contiguous")


def paged_tensors(keys: str) -> tuple[str, ...]:
    """The same for keys in pages."""
    return ("q: e4m3|bf16|fp16 (B, S, H, D) contiguous", f"cache: =q (pages, page, D) {keys}",
            "weights: fp32 (B, S, H) contiguous", "scores: fp32|bf16 (B, S, T) contiguous", "lengths: i32 (B) contiguous",
            "table: i32 (B, most) rows", f"scales?: fp32 (pages, page) {keys}",
            "T <= most * page -- there must be no more scores than keys in the table's pages")


OFFERED = (f"H in {HEADS} -- there may be {', '.join(map(str, HEADS))} heads", f"D in {DIMS} -- heads may have "
           f"{', '.join(map(str, DIMS))} columns", PROGRAMS)
CONTRACT = Contract(*tensors("tma"), *OFFERED)
PAGED = Contract(*paged_tensors("tma"), f"page in {PAGES} -- pages may have {', '.join(map(str, PAGES))} keys", *OFFERED)


def arguments(q, k, weights, scores, programs: int, k_scale=None, starts=None, ends=None, causal: bool = False, fill: bool = True,
              chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill scores.

    args:      q        (S, H, D) of e4m3, bf16 or fp16, contiguous: 8, 16, 32, 64 or 128 heads of 32, 64 or 128 columns
               k        (T, D) of q's type, rows at multiples of 16 bytes
               weights  (S, H) fp32, contiguous
               scores   (S, T) fp32 or bf16, contiguous along T
               programs how many persistent programs: one per SM
               k_scale  (T) fp32, contiguous: what each key's scores are multiplied by
               starts, ends   (S) int32, contiguous: query s looks at keys starts[s] .. ends[s], cut to 0 and T
               causal   without `ends`: query s looks at keys up to s + T - S, its own
               fill     -inf elsewhere; else these scores are left as they are
               chosen   by default the configuration of heads and type
    errors:    ValueError where a shape, a stride or a type is not what the kernel takes, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, weights=weights, scores=scores, k_scale=k_scale, starts=starts, ends=ends, programs=programs)
    chosen = chosen or configuration(of.H, of.D, q.dtype.itemsize)
    problem = Problem(of.S, of.T, 1, strides(scores)[0], 1, 0)
    return _launch(q, k.reshape(1, of.T, of.D), k_scale, weights, scores, starts, ends, None, None, problem, programs, chosen,
                   chosen.meta(of.H, parts_of(of.D, q.dtype.itemsize), 0, causal, fill))


def paged(q, cache, weights, scores, lengths, table, programs: int, scales=None, fill: bool = True,
          chosen: Configuration | None = None) -> tuple[tuple[int], tuple, dict]:
    """(grid, args, meta) that fill scores of keys in pages, causal: query i of a sequence of n keys looks at keys up to i + n - S.

    args:      q        (B, S, H, D), as above: the last S tokens of each sequence
               cache    (pages, page, D) of q's type; pages of 16, 32, 64, 128 or 256 keys; strides are multiples of 16 bytes
               weights  (B, S, H) fp32, contiguous
               scores   (B, S, T) fp32 or bf16, contiguous; T is at most what the pages of a row of the table hold
               lengths  (B) int32, contiguous: keys of each sequence, those of the last tokens among them
               table    (B, pages of a sequence) int32: page j has keys from j * page on. Entries behind a sequence's keys are not
                        looked at
               scales   (pages, page) fp32, rows at multiples of 16 bytes: what each key's scores are multiplied by
               programs, fill, chosen   as above
    errors:    as above
    """
    of = PAGED.check(q=q, cache=cache, weights=weights, scores=scores, lengths=lengths, table=table, scales=scales,
                     programs=programs)
    chosen = chosen or paged_configuration(of.H, of.D, q.dtype.itemsize, of.S, of.page)
    problem = Problem(of.S, of.T, of.B, of.T, of.pages, strides(table)[0])
    return _launch(q, cache, scales, weights, scores, None, None, lengths, table, problem, programs, chosen,
                   chosen.meta(of.H, parts_of(of.D, q.dtype.itemsize), of.page, True, fill))


def _launch(q, keys, scales, weights, scores, starts, ends, lengths, table, problem: Problem, programs: int, chosen: Configuration,
            meta: dict) -> tuple[tuple[int], tuple, dict]:
    heads, dim = q.shape[-2:]
    box = min(chosen.bk, keys.shape[1]) if table is not None else chosen.bk
    many = chosen.queries * (chosen.consumers if chosen.apart else 1)
    work = -(-problem.S // many) * problem.B * -(-problem.T // chosen.chunk)
    width = dim // parts_of(dim, q.dtype.itemsize)
    descriptors = (described(q.reshape(-1, dim), [chosen.queries * heads, width]), described(keys, [1, box, width]),
                   scales if scales is None or table is None else described(scales, [1, box]))
    return (min(programs, work), ), (*descriptors, weights, scores, starts, ends, lengths, table, problem), meta
