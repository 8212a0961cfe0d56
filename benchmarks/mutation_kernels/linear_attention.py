"""Linear attention and its gradients that are mutated: the recurrences of src/mimw/kernels, small and ready to be checked.

    next(case for case in CASES if case.name == "Linear attention").make()      (kernel, grid, args, meta)

Input: nothing. Output: `CASES`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import linear_attention, linear_attention_backward

from .case import Case, numbers


def _recurrence(by_key: bool = False, again: bool = False, l2norm: bool = False, tensor_memory: bool = False) -> tuple:
    """Five chunks of one sequence, the last of 4 rows, after what prepares them: more than there are slots."""
    q, k, v = numbers(*[(1, 260, 1, 64)] * 3, dtype=ml_dtypes.bfloat16)
    k /= np.linalg.norm(k.astype(np.float32), axis=-1, keepdims=True).astype(k.dtype)
    random = np.random.default_rng(1)
    g, beta = -random.random((1, 260, 1, 64) if by_key else (1, 260, 1)), random.random((1, 260, 1))
    g, beta, tables = g.astype(np.float32), beta.astype(np.float32), linear_attention.tables(1, 260)
    made = linear_attention.workspace(k, v, g, beta, tables, _empty, l2norm=l2norm)
    results = dict(new=np.zeros_like(v), states=_empty((5, 1, 64, 64))) if again else dict(o=np.zeros_like(v))
    states = np.ones((1, 1, 64, 64), np.float32)
    *before, last = linear_attention.forward(q, k, v, g, beta, tables, made, initial=states, final=states.copy(),
                                             l2norm=l2norm, tensor_memory=tensor_memory, **results)
    for kernel, grid, args, meta in before:
        mimw.simulate(kernel, grid, *args, **meta)
    return last


def _prepared(by_key: bool = False) -> tuple:
    """Each chunk's own part, by gates and betas that are made there; two chunks, the last of 6 rows; with norms. By key gates of
    the second half of the columns are far, so that rows of the first half come again."""
    q, k, v = numbers(*[(1, 70, 1, 128)] * 3, dtype=ml_dtypes.bfloat16)
    random = np.random.default_rng(1)
    g, beta, bias = (random.standard_normal(shape).astype(np.float32)
                     for shape in ((1, 70, 1, 128) if by_key else (1, 70, 1), (1, 70, 1), (1, 128) if by_key else (1, )))
    if by_key:
        bias[:, :64] -= 6.0
        bias[:, 64:] += 20.0
    tables = linear_attention.tables(1, 70)
    made = linear_attention.workspace(k, v, g, beta, tables, _empty, l2norm=True)
    raw = linear_attention.Raw(np.ones(1, np.float32), bias, True, None, True)
    return linear_attention.forward(q, k, v, g, beta, tables, made, o=np.zeros_like(v), l2norm=True, raw=raw)[0]


def _gradients(by_roles: bool = False) -> tuple:
    """The same in the other direction, after the forward's launches; or what comes after it, of three chunks by one program."""
    T, K = (180, 128) if by_roles else (260, 64)
    q, k, v, do = numbers(*[(1, T, 1, K)] * 4, dtype=ml_dtypes.bfloat16)
    k /= np.linalg.norm(k.astype(np.float32), axis=-1, keepdims=True).astype(k.dtype)
    random, states = np.random.default_rng(1), np.ones((1, 1, K, K), np.float32)
    g, beta = -random.random((1, T, 1)).astype(np.float32), random.random((1, T, 1)).astype(np.float32)
    tables = linear_attention.tables(1, T)
    made, new = linear_attention.workspace(k, v, g, beta, tables, _empty), np.zeros_like(v)
    before = _empty((len(tables.chunks), 1, K, K))
    steps = linear_attention.forward(q, k, v, g, beta, tables, made, new=new, states=before, initial=states)
    for kernel, grid, args, meta in steps:
        mimw.simulate(kernel, grid, *args, **meta)
    given = linear_attention_backward.Given(q, k, v, g, beta, new, before, do)
    back = linear_attention_backward.tables(tables)
    work = linear_attention_backward.workspace(given, back, _empty, made)
    results = linear_attention_backward.Results(*map(np.zeros_like, (q, k, v, g, beta)))
    first, second, *_ = linear_attention_backward.launches(given, work, results, back, made, states, states.copy(), programs=1)
    if not by_roles:
        return first
    kernel, grid, args, meta = first
    mimw.simulate(kernel, grid, *args, **meta)
    return second


def _empty(shape: tuple[int, ...], kind: str | None = None) -> np.ndarray:
    return np.zeros(shape, np.float32 if kind else ml_dtypes.bfloat16)


CHUNKS = "src/mimw/kernels/linear_attention/prepare.py"
BY_KEY = "src/mimw/kernels/linear_attention/by_key.py"
FILE = "src/mimw/kernels/linear_attention/kernel.py"
BLACKWELL = "src/mimw/kernels/linear_attention/blackwell.py"
GRADIENTS = "src/mimw/kernels/linear_attention_backward/kernel.py"
ROLES = "src/mimw/kernels/linear_attention_backward/by_roles.py"
CASES = (Case("Linear attention, chunks", CHUNKS, _prepared),
         Case("Linear attention, chunks by key", BY_KEY, lambda: _prepared(by_key=True)),
         Case("Linear attention", FILE, _recurrence),
         Case("Linear attention, gates by key", FILE, lambda: _recurrence(by_key=True)),
         Case("Linear attention, norms", FILE, lambda: _recurrence(l2norm=True)),
         Case("Linear attention, states", FILE, lambda: _recurrence(again=True)),
         Case("Linear attention, gradients", GRADIENTS, _gradients),
         Case("Linear attention, gradients by roles", ROLES, lambda: _gradients(by_roles=True)),
         Case("Linear attention, Blackwell", BLACKWELL, lambda: _recurrence(tensor_memory=True), target="sm_100a"))
