"""Launches of linear attention's gradients from the parts of the fp64 reference, so that a kernel is compared by itself.

Input: `linear_attention_reference.draw`'s arguments, gradients of results, a type. Output: launches, and where their results go:

    case = of_reference(given, do, dfinal, torch.bfloat16)      case.launches, case.results["q"], ..., case.results["D"], numpy arrays
    chunks, spans = tables(T=150, batches=1, ends=[0, 5, 5, 150])
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import torch

from mimw.kernels import linear_attention_backward as backward

from .linear_attention_reference import chunked

C = 64
NUMPY = {torch.float32: np.float32, torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16}


@dataclass(frozen=True)
class Case:
    launches: list
    results: dict[str, np.ndarray | None]


def tables(T: int, batches: int, ends: list[int] | None) -> tuple[np.ndarray, np.ndarray]:
    """(chunks (n, 4), spans (sequences, 8)): batch, first row, end; of spans also the first chunk, chunks, states before and behind."""
    sequences = [(batch, 0, T) for batch in range(batches)] if ends is None else [(0, *pair) for pair in zip(ends, ends[1:])]
    chunks, spans = [], []
    for number, (batch, first, end) in enumerate(sequences):
        spans.append((batch, first, end, len(chunks), -(-(end - first) // C), number, number, 0))
        chunks += [(batch, at, end, 0) for at in range(first, end, C)]
    return np.array(chunks, np.int32), np.array(spans, np.int32)


def by_chunk(rows: torch.Tensor, chunks: np.ndarray, goes_on: bool = False) -> torch.Tensor:
    """[B, T, HV, ...] as [chunks, HV, C, ...]; behind a sequence's end are zeros, or the last row where it `goes_on`."""
    found = torch.zeros(len(chunks), rows.shape[2], C, *rows.shape[3:], dtype=rows.dtype)
    for one, (batch, first, end, _) in zip(found, chunks):
        part = rows[batch, first:min(first + C, end)].transpose(0, 1)
        one[:, :part.shape[1]] = part
        if goes_on:
            one[:, part.shape[1]:] = part[:, -1:]
    return found


def array(x: torch.Tensor | None, dtype: torch.dtype = torch.float32) -> np.ndarray | None:
    return None if x is None else np.ascontiguousarray(x.double().numpy().astype(NUMPY[dtype]))


def of_reference(given: dict, do: torch.Tensor, dfinal: torch.Tensor | None, dtype: torch.dtype, exact: bool = True,
                 of_states: bool = True) -> Case:
    """Inputs and what the forward keeps are of `dtype`; g, beta and gradients of theirs fp32. Results begin as NaN."""
    q, v, g, beta, parts = given["q"], given["v"], given["g"], given["beta"], chunked(**given)
    (B, T, H, K), (HV, V) = q.shape, v.shape[2:]
    ends = None if given["cu_seqlens"] is None else given["cu_seqlens"].tolist()
    chunks, spans = tables(T, B, ends)
    states = parts.states.flatten(0, 1).transpose(-1, -2)
    of = backward.Given(*(array(given[name], dtype) for name in "qkv"), array(g), array(beta), array(by_chunk(parts.P, chunks), dtype),
                        None if beta is None else array(by_chunk(parts.T, chunks), dtype), array(parts.N, dtype),
                        array(states, dtype), array(do, dtype), chunks)

    def empty(*shape: int, dtype: torch.dtype = dtype) -> np.ndarray:
        return np.full(shape, np.nan, NUMPY[dtype])
    results = backward.Results(empty(B, T, H, K), empty(B, T, H, K), empty(B, T, HV, V),
                               *(None if x is None else empty(*x.shape, dtype=torch.float32) for x in (g, beta)))
    dinitial = empty(len(spans), HV, K, V, dtype=torch.float32) if of_states else None
    b = array(by_chunk(parts.b, chunks, goes_on=True)) if g is not None and g.dim() == 3 else None
    work = backward.workspace(of, lambda shape, kind: empty(*shape, dtype=torch.float32 if kind else dtype), b)
    launches = backward.launches(of, work, results, spans, array(dfinal), dinitial, exact=exact)
    return Case(launches, {"q": results.dq, "k": results.dk, "v": results.dv, "g": results.dg, "beta": results.dbeta,
                           "initial_state": dinitial, "D": work.D})


__all__ = ["Case", "array", "by_chunk", "of_reference", "tables"]
