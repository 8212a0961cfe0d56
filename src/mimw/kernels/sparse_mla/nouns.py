"""The nouns of sparse MLA, of all its forms.

Input: arguments and constants of a launch. Output: a struct of constants and a named tuple that kernels are given, and structs that
their roles and steps hand to each other. For example:

    work = work_of(kv, indices, lengths, problem, form)     a program's query, in a kernel
    rows, ok = listed(work, block * form.BK, form)          64 of the rows of KV that its list names
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Form:
    """Constants: rows of DV + DT columns, BH heads of a program, BK listed rows at a time; CAUSAL leaves out rows behind the query,
    BASE_2 is of lse."""

    DV: tl.constexpr
    DT: tl.constexpr
    BH: tl.constexpr
    BK: tl.constexpr
    CAUSAL: tl.constexpr
    BASE_2: tl.constexpr


class Problem(NamedTuple):
    """Queries of a batch, rows of its KV, heads, KV heads, entries of a list, and the scale of logits times log2(e)."""

    S: Any
    SKV: Any
    H: Any
    HKV: Any
    TOPK: Any
    scale: Any


@tle.struct
class Descriptors:
    """Q by halves or whole, its tail, and out."""

    q: Any
    tail: Any
    out: Any


@tle.struct
class Work:
    """BH heads of one query, in Q, out and lse from `row` on: the first row of KV of its batch and group, rows that are `stride`
    apart, how many there are, the list of rows, how long it is, and the query's number."""

    row: Any
    kv: Any
    stride: Any
    count: Any
    indices: Any
    length: Any
    query: Any


@mimw.jit
def work_of(kv, indices, lengths, problem, form):
    """Heads `tl.program_id(0)` * BH and on of query `tl.program_id(1)` of batch `tl.program_id(2)`."""
    head, query, batch = tl.program_id(0) * form.BH, tl.program_id(1), tl.program_id(2)
    group = head // (problem.H // problem.HKV)
    line = batch * problem.S + query
    row = line * problem.H + head
    length = tl.minimum(tl.load(lengths + line * problem.HKV + group), problem.TOPK)
    stride = problem.HKV * (form.DV + form.DT)
    rows = kv + batch.to(tl.int64) * problem.SKV * stride + group * (form.DV + form.DT)
    of_query = indices + (line * problem.HKV + group).to(tl.int64) * problem.TOPK
    return Work(row, rows, stride, problem.SKV, of_query, length, query)


@mimw.jit
def listed(work, first, form):
    """(the rows of KV that entries first .. first + BK of a list name, which of them count): 0 for those that do not."""
    entry = first + tl.arange(0, form.BK)
    row = tl.load(work.indices + entry, mask=entry < work.length, other=-1)
    ok = (row >= 0) & (row < work.count)
    if form.CAUSAL:
        ok = ok & (row <= work.query)
    return tl.where(ok, row, 0).to(tl.int64), ok
