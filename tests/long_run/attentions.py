"""Operators of attention: forward and backward, changed scores, packed sequences, decoding, sparse MLA, 2-simplicial.

Input: a `Draw`. Output: a `Case`. For example:

    CASES["attention"](draw).found()
"""

from __future__ import annotations

import torch
from torch import Tensor

from mimw import ops
from tests.kernels.linear_attention_reference import draw as drawn_call
from tests.kernels.linear_attention_reference import gates_of_raw, recurrence
from tests.ops.test_attention_varlen import reference as varlen_reference
from tests.ops.test_simplicial_attention import reference as simplicial_reference

from .draws import Case, Draw, with_gradients

TYPES = (torch.bfloat16, torch.bfloat16, torch.float16)


def _scores(q: Tensor, k: Tensor, past: int, causal: bool, window, softcap, scale: float) -> Tensor:
    """(..., queries, keys) with -inf where a query does not see; query i is at position i + past."""
    scores = (q @ k.mT) * scale
    if softcap is not None:
        scores = softcap * (scores / softcap).tanh()
    distance = torch.arange(q.shape[-2], device=q.device)[:, None] + past - torch.arange(k.shape[-2], device=q.device)
    hidden = distance < 0 if causal else torch.zeros_like(distance, dtype=torch.bool)
    if window[0] is not None:
        hidden = hidden | (distance > window[0])
    if window[1] is not None:
        hidden = hidden | (-distance > window[1])
    return scores.masked_fill(hidden, float("-inf"))


def attention(draw: Draw) -> Case:
    """Values and gradients without, values with changed scores."""
    dtype, dim, causal = draw.kind(*TYPES), draw.kind(64, 128, 256, 80), draw.kind(True, False)
    changed = draw.kind(False, False, True)
    window, softcap = (draw.kind((None, None), (100, 20), (64, 0)), draw.kind(None, 20.0)) if changed else ((None, None), None)
    batch, kv_heads, length = draw.number(1, 2), draw.number(1, 3), draw.extent(1, 700, 1)
    heads, queries = kv_heads * draw.kind(1, 2, 4), length
    q = draw.normal(batch, heads, queries, dim, dtype=dtype)
    k, v = (draw.normal(batch, kv_heads, length, dim, dtype=dtype) for _ in range(2))

    sinks = draw.normal(heads, dtype=torch.float32) if changed and draw.kind(True, False) else None

    def ours(q, k, v):
        return ops.attention(q, k, v, causal=causal, window=window, softcap=softcap, sinks=sinks)

    def torchs(q, k, v):
        k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
        scores = _scores(q, k, 0, causal, window, softcap, dim**-0.5)
        if sinks is not None:
            scores = torch.cat((scores, sinks.double()[:, None, None].expand(*scores.shape[:-1], 1).to(scores.dtype)), -1)
        return scores.softmax(-1).nan_to_num()[..., :length] @ v

    if changed:
        return Case(lambda: (ours(q, k, v), ), lambda: (torchs(q.double(), k.double(), v.double()), ), 2e-2)
    dy = draw.normal(batch, heads, queries, dim, dtype=dtype)
    return Case(lambda: with_gradients(ours, [q, k, v], [dy], False), lambda: with_gradients(torchs, [q, k, v], [dy], True), 3e-2)


def attention_varlen(draw: Draw) -> Case:
    """Values of packed sequences, some of them empty, and gradients without a window and soft cap."""
    dtype, (dim, value_dim) = draw.kind(*TYPES), draw.kind((64, 64), (96, 96), (128, 128), (192, 128), (80, 48))
    causal, changed, heads, kv_heads = draw.kind(True, False), draw.kind(False, True), *draw.kind((2, 2), (4, 1))
    options = dict(causal=causal) | (dict(window=(100, 20), softcap=20.0) if changed else {})
    sequences = draw.number(1, 3 if draw.device == "cpu" else 200)
    starts = []
    for _ in range(2):
        lengths = (draw.integers(0, draw.extent(2, 400, 1), sequences) * draw.integers(0, 5, sequences).clamp(max=1)).cumsum(0)
        starts.append(torch.nn.functional.pad(lengths, (1, 0)).int())
    (total_q, longest_q), (total_k, longest_k) = ((int(one[-1]), int(one.diff().max())) for one in starts)
    inputs = [draw.normal(rows, *rest, dtype=dtype) for rows, *rest in
              ((total_q, heads, dim), (total_k, kv_heads, dim), (total_k, kv_heads, value_dim))]

    def ours(q, k, v):
        return ops.attention_varlen(q, k, v, *starts, longest_q, longest_k, **options)

    def torchs(q, k, v):
        return varlen_reference(q, k, v, *starts, **options)[0]

    if changed or not total_q:
        return Case(lambda: (ours(*inputs), ), lambda: (torchs(*inputs), ), 2e-2)
    dy = draw.normal(total_q, heads, value_dim, dtype=dtype)
    return Case(lambda: with_gradients(ours, inputs, [dy], False), lambda: with_gradients(torchs, inputs, [dy], True), 3e-2)


def scaled_dot_product_attention(draw: Draw) -> Case:
    """Values and gradients: causal with lengths that differ, padded batches, masks that are torch's."""
    dtype, dim, mask = draw.kind(*TYPES), draw.kind(64, 128, 80), draw.kind(None, "causal", "keys", "all")
    batch, kv_heads, group = draw.number(1, 2), draw.number(1, 2), draw.kind(1, 2)
    queries, keys = draw.extent(1, 500, 1), draw.extent(1, 500, 1)
    q = draw.normal(batch, kv_heads * group, queries, dim, dtype=dtype)
    k, v = (draw.normal(batch, kv_heads, keys, dim, dtype=dtype) for _ in range(2))
    seen = None if mask in (None, "causal") else draw.integers(0, 3, batch, 1, queries if mask == "all" else 1, keys) > 0
    options = dict(attn_mask=seen, is_causal=mask == "causal", enable_gqa=True)

    def ours(q, k, v):
        return ops.scaled_dot_product_attention(q, k, v, **options)

    def torchs(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    dy = draw.normal(*q.shape, dtype=dtype)
    return Case(lambda: with_gradients(ours, [q, k, v], [dy], False), lambda: with_gradients(torchs, [q, k, v], [dy], True), 3e-2)


def attention_decode(draw: Draw) -> Case:
    dtype, dim, group, page = draw.kind(*TYPES), draw.kind(64, 128), draw.kind(1, 4, 8), draw.kind(None, 16, 64)
    batch, kv_heads, queries, most = draw.number(1, 4), draw.kind(1, 2), draw.kind(1, 2), draw.extent(2, 3000, 1)
    lengths = draw.integers(queries, most + queries, batch, dtype=torch.int32)
    pages = -(-(most + queries) // (page or 1))
    front = (batch, most + queries) if page is None else (batch * pages, page)
    k, v = (draw.normal(*front, kv_heads, dim, dtype=dtype) for _ in range(2))
    scales, wide = {}, (k, v)
    if draw.kind(False, True):
        k, v = (x.to(torch.float8_e4m3fn) for x in (k, v))
        scales, wide = dict(k_scale=0.5, v_scale=2.0), (k.double() * 0.5, v.double() * 2.0)
    table = None if page is None else draw.permutation(batch * pages).view(batch, pages).int()
    q = draw.normal(batch, queries, kv_heads * group, dim, dtype=dtype)

    def expected():
        out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        for at, length in enumerate(lengths.tolist()):
            k_of, v_of = ((x[at] if table is None else x[table[at].long()].flatten(0, 1))[:length].double().transpose(0, 1)
                          .repeat_interleave(group, 0) for x in wide)
            scores = _scores(q[at].double().transpose(0, 1), k_of, length - queries, True, (None, None), None, dim**-0.5)
            out[at] = (scores.softmax(-1) @ v_of).transpose(0, 1)
        return (out, )

    return Case(lambda: (ops.attention_decode(q, k, v, lengths, page_table=table, **scales), ), expected, 3e-2)


def mla_decode(draw: Draw) -> Case:
    """Pages of any size, or one a sequence; caches of q's type and of e4m3 with a scale."""
    dtype, others, page = draw.kind(*TYPES), draw.kind(64, 24), draw.kind(None, 16, 20, 64)
    batch, queries, heads, most = draw.number(1, 4), draw.number(1, 4), draw.kind(16, 128, 5), draw.extent(1, 2000, 1)
    lengths = draw.integers(0, most + 1, batch, dtype=torch.int32)
    pages = -(-most // (page or most))
    cache = draw.normal(batch * pages, page or most, 1, 512 + others, dtype=dtype)
    scales, wide = {}, cache
    if draw.kind(False, True):
        cache = cache.to(torch.float8_e4m3fn)
        scales, wide = dict(k_scale=0.5), cache.double() * 0.5
    table = None if page is None else draw.permutation(batch * pages).view(batch, pages).int()
    q = draw.normal(batch, queries, heads, 512 + others, dtype=dtype)

    def expected():
        out = torch.zeros(*q.shape[:3], 512, dtype=torch.float64, device=q.device)
        for at, length in enumerate(lengths.tolist()):
            keys = (wide[at] if table is None else wide[table[at].long()].flatten(0, 1))[:length, 0].double()
            scores = _scores(q[at].double().transpose(0, 1), keys.expand(heads, -1, -1), length - queries, True, (None, None), None,
                             q.shape[3]**-0.5)
            out[at] = (scores.softmax(-1).nan_to_num() @ keys[:, :512]).transpose(0, 1)
        return (out, )

    return Case(lambda: (ops.mla_decode(q, cache, lengths, page_table=table, **scales)[0], ), expected, 3e-2)


def sparse_mla(draw: Draw) -> Case:
    heads, topk = draw.kind(64, 128), draw.kind(64, 128)
    seq, keys = draw.number(1, 6), draw.number(topk, 600)
    q, kv = draw.normal(1, seq, heads, 576), draw.normal(1, keys, 1, 576)
    indices = torch.stack([draw.permutation(keys)[:topk] for _ in range(seq)]).view(1, seq, 1, topk)
    lengths = draw.integers(1, topk + 1, 1, seq, 1)

    def expected():
        out = torch.empty(1, seq, heads, 512, dtype=torch.float64, device=q.device)
        for at in range(seq):
            rows = kv[0, indices[0, at, 0, :int(lengths[0, at, 0])], 0].double()
            out[0, at] = (q[0, at].double() @ rows.T * 576**-0.5).softmax(-1) @ rows[:, :512]
        return (out, )

    return Case(lambda: (ops.sparse_mla(q, kv, indices, lengths)[0], ), expected, 2e-2)


def _indexed(q, k, weights, scale, ends):
    """Scores of the lightning indexer, -inf from each query's end on."""
    scores = torch.einsum("sht,sh->st", torch.einsum("shd,td->sht", q.double(), k.double()).relu(), weights.double()) * scale
    return scores.masked_fill(torch.arange(len(k), device=q.device) >= ends[:, None], float("-inf"))


def lightning_indexer(draw: Draw) -> Case:
    dtype, heads, dim = draw.kind(torch.float8_e4m3fn, torch.bfloat16), draw.kind(64, 32, 20), draw.kind(128, 64)
    queries, keys, packed = draw.extent(1, 100, 1), draw.extent(1, 3000, 1), draw.kind(False, True)
    q, k = draw.normal(queries, heads, dim).to(dtype), draw.normal(keys, dim).to(dtype)
    weights, scale = draw.normal(queries, heads, dtype=torch.float32), draw.normal(keys, dtype=torch.float32).abs()
    ends = draw.integers(0, keys + 1, queries) if packed else torch.arange(queries, device=q.device) + 1 + keys - queries
    options = dict(ends=ends) if packed else dict(causal=True)
    return Case(lambda: (ops.lightning_indexer(q, k, weights, scale, **options), ),
                lambda: (_indexed(q, k, weights, scale, ends), ), 2e-2)


def lightning_indexer_decode(draw: Draw) -> Case:
    batch, queries, page, most = draw.number(1, 4), draw.kind(1, 2, 3, 4), draw.kind(64, 16, 20), draw.number(1, 30)
    q, cache = (draw.normal(*shape).to(torch.float8_e4m3fn) for shape in ((batch, queries, 64, 128), (batch * most, page, 128)))
    weights, scales = (draw.normal(*shape, dtype=torch.float32).abs() for shape in ((batch, queries, 64), (batch * most, page)))
    table, lengths = draw.permutation(batch * most).view(batch, most).int(), draw.integers(0, most * page + 1, batch)

    def expected():
        own = lengths[:, None] - queries + 1 + torch.arange(queries, device=q.device)
        return (torch.stack([_indexed(q[at], cache[table[at].long()].flatten(0, 1), weights[at], scales[table[at].long()].flatten(),
                                      own[at]) for at in range(batch)]), )

    return Case(lambda: (ops.lightning_indexer_decode(q, cache, weights, lengths, table, scales), ), expected, 2e-2)


def _raw(draw: Draw, given: dict) -> tuple[dict, dict]:
    """(Options by which gates and betas may be made of those given, the gates and betas that they become)."""
    options, made, g, beta = {}, {}, given["g"], given["beta"]
    if g is not None and draw.kind(False, True):
        options = dict(A_log=draw.normal(g.shape[2], dtype=torch.float32), dt_bias=draw.normal(*g.shape[2:], dtype=torch.float32),
                       lower_bound=draw.kind(None, -5.0))
        made["g"] = gates_of_raw(g.cpu(), options["A_log"].cpu(), options["dt_bias"].cpu(), options["lower_bound"])
        options["use_gate"] = True
    if beta is not None and draw.kind(False, True):
        twice = draw.kind(False, True)
        options |= dict(use_beta_sigmoid=True, allow_neg_eigval=twice)
        made["beta"] = beta.cpu().double().sigmoid() * (2 if twice else 1)
    return options, made


def linear_attention(draw: Draw) -> Case:
    """Every family; packed sequences, lengths 1 to 300, gates near 1 and near 0; the step for what follows the last row."""
    dtype, columns = draw.kind(torch.bfloat16, torch.float16), draw.kind(64, 128)
    gates, delta, packed, group = draw.kind("none", "head", "key"), draw.kind(False, True), draw.kind(False, True), draw.kind(1, 2)
    lengths = [draw.extent(1, 300, 1) for _ in range(draw.number(1, 3) if packed else 1)]
    ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)] if packed else None
    decay = draw.choice((-0.2, 0.0), (-1e-3, 0.0), (-60.0, 0.0))
    given = drawn_call(draw.number(0, 1 << 30), T=sum(lengths), H=1, HV=group, K=columns, V=columns, gates=gates, delta=delta,
                       decay=decay, cu_seqlens=ends)
    given = {name: one if one is None else one.to(draw.device).to(dtype if name in "qkv" else one.dtype)
             for name, one in given.items()}
    options, made = _raw(draw, given)
    inputs = [given[name] for name in ("q", "k", "v")]

    def ours(q, k, v):
        return ops.linear_attention(**given | dict(q=q, k=k, v=v), output_final_state=True, **options)

    def exact(q, k, v):
        named = given | made | dict(q=q, k=k, v=v)
        o, final = recurrence(**{name: one if one is None else one.cpu() for name, one in named.items()})
        return o.to(draw.device), final.to(draw.device)

    dys = [draw.normal(*given["v"].shape, dtype=dtype), draw.normal(len(lengths), group, columns, columns, dtype=torch.float32)]
    return Case(lambda: with_gradients(ours, inputs, dys, False), lambda: with_gradients(exact, inputs, dys, True), 3e-2)


def linear_attention_step(draw: Draw) -> Case:
    """A token of some sequences, states in a pool, which are results, too."""
    dtype, K, V = draw.kind(*TYPES), draw.kind(64, 100, 128), draw.kind(64, 128, 256)
    gates, delta, group = draw.kind("none", "head", "key"), draw.kind(False, True), draw.kind(1, 2)
    sequences, slots = draw.number(1, 5), draw.number(5, 9)
    given = drawn_call(draw.number(0, 1 << 30), B=sequences, T=1, H=2, HV=2 * group, K=K, V=V, gates=gates, delta=delta)
    given |= {name: given[name].to(dtype) for name in "qkv"}
    options, made = _raw(draw, given)
    pool, indices = draw.normal(slots, 2 * group, K, V, dtype=torch.float32), draw.permutation(slots)[:sequences]

    def found():
        state, rows = pool.clone(), [None if given[name] is None else given[name][:, 0].to(draw.device)
                                     for name in ("q", "k", "v", "g", "beta")]
        return ops.linear_attention_step(*rows[:3], state, *rows[3:], indices, **options), state

    def expected():
        state = pool.double()
        o, state[indices] = (one.to(draw.device) for one in recurrence(**given | made | {"initial_state": pool[indices].cpu()}))
        return o[:, 0], state

    return Case(found, expected, 1e-2)


def simplicial_attention(draw: Draw) -> Case:
    dtype, dim, windows = draw.kind(*TYPES), draw.kind(64, 128), draw.kind((64, 8), (32, 32))
    heads, kv_heads, length = draw.kind((64, 1), (4, 2))[0], 1, draw.extent(1, 60, 1)
    q = draw.normal(1, heads, length, dim, dtype=dtype)
    rest = [draw.normal(1, kv_heads, length, dim, dtype=dtype) for _ in range(4)]
    return Case(lambda: (ops.simplicial_attention(q, *rest, windows), ),
                lambda: (simplicial_reference(q, *rest, windows)[0], ), 3e-2)


CASES = {"attention": attention, "attention_varlen": attention_varlen, "attention_decode": attention_decode,
         "mla_decode": mla_decode,
         "scaled_dot_product_attention": scaled_dot_product_attention, "sparse_mla": sparse_mla,
         "lightning_indexer": lightning_indexer, "lightning_indexer_decode": lightning_indexer_decode,
         "linear_attention": linear_attention, "linear_attention_step": linear_attention_step,
         "simplicial_attention": simplicial_attention}
