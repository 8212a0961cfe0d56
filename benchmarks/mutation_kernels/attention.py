"""Attention and its gradients that are mutated: src/mimw/kernels, small and ready to be checked.

    next(case for case in CASES if case.name == "Decoding").make()      (kernel, grid, args, meta)

Input: nothing. Output: `CASES`.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import mimw
from mimw.kernels import (
    attention,
    attention_backward,
    attention_decode,
    attention_varlen,
    attention_varlen_backward,
    lightning_indexer,
    mla_decode,
    simplicial_attention,
    simplicial_attention_backward,
    sparse_mla,
    wide_attention_backward,
)
from tests.kernels.mla import packed, problem

from .case import Case, numbers


def _simplicial_attention() -> tuple:
    """Four blocks of keys in two chunks, three second keys for two consumers, three tasks of one program."""
    q, k, v, k2, v2 = numbers((1, 64, 3, 64), *4 * [(1, 1, 52, 64)])
    o, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    chosen = simplicial_attention.Configuration(bn=16, stages=2, chunk=2)
    return simplicial_attention.kernel, *simplicial_attention.arguments(q, k, v, k2, v2, o, lse, 1, (50, 3), chosen=chosen)


def _sparse_mla(form) -> tuple:
    """Two queries of 64 heads by one program, lists of 72 rows in blocks of 32; some count for nothing."""
    q, kv = numbers((1, 2, 64, 48), (1, 80, 1, 48), dtype=ml_dtypes.bfloat16)
    indices = np.random.default_rng(2).integers(0, 80, (1, 2, 1, 96)).astype(np.int32)
    indices[..., 5::11] = -1
    out, lse = np.zeros((1, 2, 64, 32), ml_dtypes.bfloat16), np.zeros((1, 2, 64), np.float32)
    return sparse_mla.arguments(q, kv, indices, np.full((1, 2, 1), 72, np.int32), out, lse, form=form, block=32, programs=1)


def _indexer() -> tuple:
    """Three pieces of two queries for two consumers by one program, each with up to three blocks of keys, in two slots."""
    q, k = numbers((5, 8, 32), (150, 32), dtype=ml_dtypes.float8_e4m3fn)
    weights, scores, scale = *numbers((5, 8), (5, 150), dtype=np.float32), np.ones(150, np.float32)
    chosen = lightning_indexer.Configuration(1, 64, 2, True, 2, 1, 192)
    return lightning_indexer.kernel, *lightning_indexer.arguments(q, k, weights, scores, 1, scale, causal=True, chosen=chosen)


def _indexer_of_bf16() -> tuple:
    """Rows of 256 bytes, in two parts: three pieces of two queries for two consumers by one program."""
    q, k = numbers((5, 8, 128), (150, 128), dtype=ml_dtypes.bfloat16)
    weights, scores, scale = *numbers((5, 8), (5, 150), dtype=np.float32), np.ones(150, np.float32)
    chosen = lightning_indexer.Configuration(1, 64, 2, True, 2, 1, 192)
    return lightning_indexer.kernel, *lightning_indexer.arguments(q, k, weights, scores, 1, scale, causal=True, chosen=chosen)


def _indexer_of_pages() -> tuple:
    """Two sequences in pages of 32 keys by one program, whose consumers share queries and have a half of each block of keys."""
    q, cache, weights = *numbers((2, 2, 8, 32), (9, 32, 32), dtype=ml_dtypes.float8_e4m3fn), np.ones((2, 2, 8), np.float32)
    table, lengths = np.full((2, 9), 99, np.int32), np.array([270, 40], np.int32)
    table[0], table[1, :2] = [3, 1, 6, 4, 0, 8, 2, 5, 7], [7, 2]
    chosen = lightning_indexer.Configuration(2, 128, 2, False, 2, 1, 384)
    scores, scales = np.zeros((2, 2, 288), np.float32), np.ones((9, 32), np.float32)
    return lightning_indexer.kernel, *lightning_indexer.paged(q, cache, weights, scores, lengths, table, 1, scales, chosen=chosen)


def _mla_decode() -> tuple:
    """Two sequences of one and three blocks in two groups' shares, 32 rows of queries, in pages of 16 keys."""
    q, cache = numbers((2, 2, 16, 192), (20, 16, 1, 192), dtype=ml_dtypes.bfloat16)
    table, lengths = np.random.default_rng(3).permutation(20).reshape(2, 10).astype(np.int32), np.array([20, 150], np.int32)
    out, lse = np.zeros((2, 2, 16, 128), ml_dtypes.bfloat16), np.zeros((2, 16, 2), np.float32)
    room = np.zeros(mla_decode.room_for(q, 128, 2), np.float32)
    return mla_decode.arguments(q, cache, lengths, out, lse, room, 2, table)[0]


def _mla_decode_packed() -> tuple:
    """The same of a packed cache, whose NaN lie behind the last keys: producers widen e4m3 by scales into the slots."""
    arrays = problem(queries=2, heads=16, page=16, lengths=(20, 150))
    room = np.zeros(mla_decode.room_for(arrays.q, 128, 2), np.float32)
    return mla_decode.arguments(arrays.q, packed(arrays.cache, 128)[0], arrays.lengths, arrays.out, arrays.lse, room, 2,
                                arrays.table)[0]


def _simplicial_gradients() -> tuple:
    """As forward."""
    q, do, k, v, k2, v2 = numbers(*2 * [(1, 64, 3, 64)], *4 * [(1, 1, 52, 64)])
    rows, chosen = np.full(q.shape[:3], 5, np.float32), simplicial_attention.Configuration(bn=16, stages=2, chunk=2)
    return simplicial_attention_backward.kernel, *simplicial_attention_backward.arguments(
        q, k, v, k2, v2, do, rows, rows, np.zeros_like(q), 1, (50, 3), chosen=chosen)


def _attention() -> tuple:
    """Two tiles in one program, so that it starts the second before it has finished the first."""
    q, k, v = numbers(*[(1, 1, 256, 64)] * 3)
    o, lse, counter = np.zeros_like(q), np.zeros(q.shape[:3], np.float32), np.zeros(1, np.int32)
    chosen = attention.Configuration(bm=128, bn=64)
    return attention.kernel, *attention.arguments(q, k, v, o, lse, counter, 1, True, chosen=chosen)


def _attention_varlen() -> tuple:
    """Three sequences, one without queries, in one program: tiles that end inside of the next sequence, blocks without a mask."""
    q, k, v = numbers((100, 1, 64), *[(370, 1, 64)] * 2)
    o, lse, counter = np.zeros_like(q), np.zeros((1, 100), np.float32), np.zeros(1, np.int32)
    cu_q, cu_k = (np.array(starts, np.int32) for starts in ((0, 60, 60, 100), (0, 70, 90, 370)))
    chosen = attention_varlen.Configuration(bm=128, bn=64)
    return attention_varlen.kernel, *attention_varlen.arguments(q, k, v, o, lse, cu_q, cu_k, counter, 1, 60, 280, True,
                                                                chosen=chosen)


def _gradients_of_queries() -> tuple:
    """128 of 150 queries, four blocks of keys, of which the last two need a mask."""
    q, do, dq, k, v = numbers(*[(1, 1, 150, 64)] * 3, *[(1, 1, 500, 64)] * 2)
    lse, rows = np.zeros(q.shape[:3], np.float32), np.zeros((2, 1, 192), np.float32)
    chosen = attention_backward.Configuration(bm=64)
    *_, (kernel, _, args, meta) = attention_backward.launches(q, k, v, q, lse, do, dq, k, v, rows, None, True, chosen=chosen,
                                                              one_order=True)
    return kernel, (1, 1, 1), args, meta


def _gradients() -> tuple:
    """128 of 300 keys, five blocks of queries, two of which need the mask: with one program the sums of dQ have one order."""
    q, do, k, v, dk, dv = numbers(*[(1, 1, 298, 64)] * 2, *[(1, 1, 300, 64)] * 4)
    chosen = attention_backward.Configuration(bm=64)
    rows, sums = (np.zeros(shape, np.float32) for shape in attention_backward.workspace(q, chosen))
    _, args, meta = attention_backward.arguments(q, k, v, do, dk, dv, rows, sums, True, chosen=chosen)
    return attention_backward.kernel, (1, 1, 1), args, meta


def _packed_gradients(number: int = 1, dim: int = 64, one_order: bool = False, keys: int = 190) -> tuple:
    """Keys, or queries, of the longer of two sequences, which end inside of a block: with one program the sums of dQ have one
    order."""
    q, do, o, dq, k, v, dk, dv = numbers(*[(200, 1, dim)] * 4, *[(40 + keys, 1, dim)] * 4)
    cu_q, cu_k = (np.array(starts, np.int32) for starts in ((0, 30, 200), (0, 40, 40 + keys)))
    chosen = None if dim > 64 else attention_varlen_backward.Configuration(bm=64)
    work = [None if one is None else np.zeros(*one) for one in
            attention_varlen_backward.workspace(q, k, v, cu_q, 170, keys, True, chosen, one_order)]
    before, *others = attention_varlen_backward.launches(
        q, k, v, o, np.zeros((1, 200), np.float32), do, dq, dk, dv, cu_q, cu_k, work, 170, keys, True, chosen=chosen,
        one_order=one_order)
    mimw.simulate(before[0], before[1], *before[2], **before[3])
    kernel, _, args, meta = others[number - 1]
    return kernel, (1, 1), args, meta


def _wide_gradients() -> tuple:
    """64 of 130 keys, heads of 72 with values of 40, four blocks of queries of two heads."""
    q, dq, o, do = numbers(*[(1, 2, 100, 72)] * 2, *[(1, 2, 100, 40)] * 2)
    k, dk, v, dv = numbers(*[(1, 1, 130, 72)] * 2, *[(1, 1, 130, 40)] * 2)
    rows, lse = np.zeros(wide_attention_backward.workspace(q), np.float32), np.zeros(q.shape[:3], np.float32)
    _, (kernel, _, args, meta), _ = wide_attention_backward.launches(q, k, v, o, lse, do, dq, dk, dv, rows, True)
    return kernel, (1, 1, 1), args, meta


def _decoding(streams: int) -> tuple:
    """Four sequences, in pages of 16 keys, with strangers behind them; two workers of one consumer share the first, and the second
    has the others, or one worker of two consumers, who have 64 and 16 rows of the same keys, has all. A ring of two blocks of keys
    and of values, so that a producer may begin an item before its consumers have read the one before."""
    q, k, v = numbers((4, 1 if streams == 2 else 16, 5, 64), (14, 16, 1, 64), (14, 16, 1, 64), dtype=ml_dtypes.bfloat16)
    chosen = attention_decode.Configuration(bn=32, stages=4, streams=streams, least=1)
    o, lse = np.zeros_like(q), np.zeros((4, 5, q.shape[1]), np.float32)
    table, lengths = np.full((4, 9), 99, np.int32), np.array([130, 20, 20, 5], np.int32)
    table[0], table[1, :2], table[2, :2], table[3, 0] = [3, 1, 6, 4, 0, 13, 2, 12, 5], [7, 8], [3, 9], 11
    room = np.zeros(attention_decode.room_for(q, 1, 1, chosen), np.float32)
    return attention_decode.arguments(q, k, v, lengths, o, lse, room, 1, table, chosen=chosen)[0]


def _decoding_few_rows(few: int, cache=ml_dtypes.bfloat16) -> tuple:
    """Five sequences, in pages of 32 keys, with strangers behind them: the first program has three of one block and half of the
    fourth; who comes last adds the parts. A ring of two blocks, so that a producer is up to two sequences ahead."""
    q, = numbers((5, 1, 5, 64), dtype=ml_dtypes.bfloat16)
    k, v = numbers((16, 32, 1, 64), (16, 32, 1, 64), dtype=cache)
    chosen = attention_decode.Configuration(bn=64, stages=2, streams=1, least=1, drawn=0, few=few)
    o, lse = np.zeros_like(q), np.zeros((5, 5, 1), np.float32)
    table, lengths = np.full((5, 7), 99, np.int32), np.array([20, 30, 10, 200, 130], np.int32)
    table[:3, 0], table[3], table[4, :5] = [11, 14, 10], [13, 2, 12, 5, 7, 8, 9], [3, 1, 6, 4, 0]
    room = np.zeros(attention_decode.room_for(q, 1, 2, chosen), np.float32)
    flags = np.zeros(attention_decode.flags_for(2, chosen), np.int32)
    scales = {} if cache is ml_dtypes.bfloat16 else dict.fromkeys(("k_scale", "v_scale"), np.ones(1, np.float32))
    return attention_decode.arguments(q, k, v, lengths, o, lse, room, 2, table, chosen=chosen, flags=flags, **scales)[0]


CASES = (
    Case("Attention", "src/mimw/kernels/attention/kernel.py", _attention),
    Case("Attention, packed sequences", "src/mimw/kernels/attention_varlen/kernel.py", _attention_varlen),
    Case("Attention, backward", "src/mimw/kernels/attention_backward/kernel.py", _gradients),
    Case("Attention, backward, one order", "src/mimw/kernels/attention_backward/kernel.py", _gradients_of_queries),
    Case("Attention, packed sequences, backward", "src/mimw/kernels/attention_varlen_backward/kernel.py", _packed_gradients),
    Case("Attention, packed sequences, backward, one order", "src/mimw/kernels/attention_varlen_backward/kernel.py",
         lambda: _packed_gradients(2, one_order=True, keys=450)),
    Case("Attention, packed sequences, backward, wide", "src/mimw/kernels/attention_varlen_backward/kernel.py",
         lambda: _packed_gradients(1, 136)),
    Case("Attention, backward, wide heads", "src/mimw/kernels/wide_attention_backward/kernel.py", _wide_gradients),
    Case("2-simplicial attention", "src/mimw/kernels/simplicial_attention/kernel.py", _simplicial_attention),
    Case("Sparse MLA, pipe", "src/mimw/kernels/sparse_mla/pipe.py", lambda: _sparse_mla(sparse_mla.pipelined)),
    Case("Sparse MLA, without roles", "src/mimw/kernels/sparse_mla/shared.py", lambda: _sparse_mla(sparse_mla.shared)),
    Case("Lightning indexer", "src/mimw/kernels/lightning_indexer/kernel.py", _indexer),
    Case("Lightning indexer, bf16", "src/mimw/kernels/lightning_indexer/kernel.py", _indexer_of_bf16),
    Case("Lightning indexer, pages", "src/mimw/kernels/lightning_indexer/kernel.py", _indexer_of_pages),
    Case("MLA decoding", "src/mimw/kernels/mla_decode/kernel.py", _mla_decode),
    Case("MLA decoding, packed cache", "src/mimw/kernels/mla_decode/kernel.py", _mla_decode_packed),
    Case("Decoding", "src/mimw/kernels/attention_decode/split_kv/kernel.py", lambda: _decoding(2)),
    Case("Decoding, many rows", "src/mimw/kernels/attention_decode/split_kv/kernel.py", lambda: _decoding(1)),
    Case("Decoding, few rows", "src/mimw/kernels/attention_decode/few_rows_epilogue/kernel.py", lambda: _decoding_few_rows(2)),
    Case("Decoding, warps apart", "src/mimw/kernels/attention_decode/few_rows/kernel.py", lambda: _decoding_few_rows(1)),
    Case("Decoding, caches of e4m3", "src/mimw/kernels/attention_decode/few_rows_epilogue/fp8.py",
         lambda: _decoding_few_rows(2, ml_dtypes.float8_e4m3fn)),
    Case("2-simplicial attention, backward", "src/mimw/kernels/simplicial_attention_backward/kernel.py", _simplicial_gradients),
)
