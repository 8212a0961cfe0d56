"""Attention with all that changes its scores, in fp64 of numpy.

Input: q, k, v as (batch, heads, length, dim), the options of `mimw.kernels.attention.arguments`. Output: o and lse; a query that
sees no key has o = 0 and lse = -inf, or the sink:

    o, lse = reference(q, k, v, causal=True, window=(128, None), sinks=sinks)
"""

import numpy as np


def reference(q, k, v, causal=False, scale=None, window=(None, None), softcap=None, sinks=None, slopes=None):
    group = q.shape[1] // k.shape[1]
    q, k, v = q.astype(np.float64), *(np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = (q.shape[-1]**-0.5 if scale is None else scale) * q @ k.swapaxes(-1, -2)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    position, keys = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], np.arange(k.shape[2])
    if slopes is not None:
        scores = scores - np.atleast_2d(slopes)[:, :, None, None].astype(np.float64) * np.abs(position - keys)
    left, right = window
    right = 0 if causal else right
    for bound, seen in ((left, keys >= position - (left or 0)), (right, keys <= position + (right or 0))):
        scores = scores if bound is None else np.where(seen, scores, -np.inf)
    total = np.exp(scores).sum(-1)
    if sinks is not None:
        total = total + np.exp(sinks.astype(np.float64))[None, :, None]
    with np.errstate(divide="ignore"):
        return np.exp(scores) @ v / np.where(total == 0, 1, total)[..., None], np.log(total)
