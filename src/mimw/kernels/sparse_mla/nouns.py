"""The nouns of sparse MLA, of all its forms.

Input: arguments and constants of a launch. Output: a struct of constants and a named tuple that kernels are given, and structs that
their roles and steps hand to each other. For example:

    work = work_of(task, lists, form)                       BH heads of a query, in a kernel
    row = listed(work, block * form.BK, form)               64 of the rows of KV that its list names
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle


@tle.struct
class Form:
    """Constants: rows of DV + DT columns, BH heads of a task, BK listed rows at a time; CAUSAL leaves out rows behind the query,
    BASE_2 is of lse."""

    DV: tl.constexpr
    DT: tl.constexpr
    BH: tl.constexpr
    BK: tl.constexpr
    CAUSAL: tl.constexpr
    BASE_2: tl.constexpr


class Problem(NamedTuple):
    """Queries of a batch, rows of its KV, heads, KV heads, entries of a list, tasks, each BH heads of a query, and the scale of
    logits times log2(e)."""

    S: Any
    SKV: Any
    H: Any
    HKV: Any
    TOPK: Any
    tasks: Any
    scale: Any


@tle.struct
class Lists:
    """KV, the lists of its rows with their lengths, and the launch's numbers."""

    kv: Any
    indices: Any
    lengths: Any
    problem: Any


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
def work_of(task, lists, form):
    """The task of this number. All heads of a query have neighbouring numbers."""
    problem = lists.problem
    groups = problem.H // form.BH
    line, head = task // groups, task % groups * form.BH
    batch, query = line // problem.S, line % problem.S
    group = head // (problem.H // problem.HKV)
    length = tl.minimum(tl.load(lists.lengths + line * problem.HKV + group), problem.TOPK)
    stride = problem.HKV * (form.DV + form.DT)
    rows = lists.kv + batch.to(tl.int64) * problem.SKV * stride + group * (form.DV + form.DT)
    of_query = lists.indices + (line * problem.HKV + group).to(tl.int64) * problem.TOPK
    return Work(line * problem.H + head, rows, stride, problem.SKV, of_query, length, query)


@mimw.jit
def listed(work, first, form):
    """The rows of KV that entries first .. first + BK of the list name, -1 for those that do not count."""
    entry = first + tl.arange(0, form.BK)
    row = tl.load(work.indices + entry, mask=entry < work.length, other=-1)
    ok = (row >= 0) & (row < work.count)
    if form.CAUSAL:
        ok = ok & (row <= work.query)
    return tl.where(ok, row, -1)
