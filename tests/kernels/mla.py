"""MLA decoding on numpy arrays: problems whose pages hold NaN behind the last key, packed caches, and the reference.

    arrays = problem(batch=2, lengths=(100, 300))               an `Arrays`
    exact_out, exact_lse = reference(arrays, causal=True)
    bytes_, stands_for = packed(arrays.cache, 128)              FlashMLA's layout, and the numbers that it holds

Input: sizes. Output: arrays for `mimw.kernels.mla_decode` and `plain_mla_decode`; results hold something else before a launch.
"""

from typing import NamedTuple

import ml_dtypes
import numpy as np

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
OTHERS = 64     # columns that are key only


class Arrays(NamedTuple):
    """The arguments of a launch, and the pages of each sequence."""

    q: np.ndarray
    cache: np.ndarray
    lengths: np.ndarray
    out: np.ndarray
    lse: np.ndarray
    table: np.ndarray


def problem(batch=2, queries=1, heads=64, values=128, page=64, lengths=(100, 300), dtype=BF16, seed=0) -> Arrays:
    """Pages in any order, two of which no sequence has."""
    random, width = np.random.default_rng(seed), values + OTHERS
    lengths = np.array(lengths, np.int32)
    most = max(1, -(-int(lengths.max()) // page))
    cache = random.standard_normal((batch * most + 2, page, 1, width)).astype(dtype)
    table = random.permutation(len(cache))[:batch * most].reshape(batch, most).astype(np.int32)
    for pages, length in zip(table, lengths):
        rows = cache[pages].reshape(-1, width)
        rows[length:] = np.nan
        cache[pages] = rows.reshape(most, page, 1, width)
    q = random.standard_normal((batch, queries, heads, width)).astype(dtype)
    return Arrays(q, cache, lengths, np.full((batch, queries, heads, values), 7, dtype),
                  np.full((batch, heads, queries), 7, np.float32), table)


def reference(arrays: Arrays, cache: np.ndarray | None = None, causal: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """out and lse, of the numbers that the cache stands for."""
    q, cache = arrays.q.astype(np.float64), (arrays.cache if cache is None else cache).astype(np.float64)
    out, lse = np.zeros(arrays.out.shape), np.full(arrays.lse.shape, -np.inf)
    queries, values = q.shape[1], out.shape[3]
    for batch, query in np.ndindex(q.shape[:2]):
        length = int(arrays.lengths[batch])
        seen = max(0, length - queries + query + 1) if causal else length
        if seen:
            keys = cache[arrays.table[batch], :, 0].reshape(-1, q.shape[3])[:seen]
            scores = q[batch, query] @ keys.T * q.shape[3]**-0.5
            most = scores.max(1, keepdims=True)
            p = np.exp(scores - most)
            out[batch, query] = p @ keys[:, :values] / p.sum(1, keepdims=True)
            lse[batch, :, query] = most[:, 0] + np.log(p.sum(1))
    return out, lse


def packed(cache: np.ndarray, values: int) -> tuple[np.ndarray, np.ndarray]:
    """(e4m3 with a float32 scale for each 128 values, the others as bf16 behind them; what that stands for)."""
    groups = cache[..., :values].astype(np.float32).reshape(*cache.shape[:-1], values // 128, 128)
    scales = np.nan_to_num(np.abs(groups).max(-1), nan=1.0).astype(np.float32) / 448
    small = (groups / scales[..., None]).astype(E4M3)
    stands_for = (small.astype(np.float32) * scales[..., None]).astype(BF16).reshape(*cache.shape[:-1], values)
    others = np.ascontiguousarray(cache[..., values:])
    parts = [np.ascontiguousarray(part).reshape(*cache.shape[:-1], -1).view(np.uint8) for part in (small, scales, others)]
    return np.concatenate(parts, -1).view(E4M3), np.concatenate([stands_for, others], -1)


def close(arrays: Arrays, exact: tuple[np.ndarray, np.ndarray], allowed: float = 1e-2) -> None:
    """out and lse as they should be, -inf where no key is seen."""
    out, lse = exact
    np.testing.assert_allclose(arrays.out.astype(np.float64), out, rtol=0, atol=allowed)
    finite = np.isfinite(lse)
    assert (np.isneginf(arrays.lse) == ~finite).all()
    np.testing.assert_allclose(arrays.lse[finite], lse[finite], rtol=0, atol=1e-3)
