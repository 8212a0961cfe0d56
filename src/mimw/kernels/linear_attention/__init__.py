"""Chunked linear attention, forward, for Hopper: gated linear attention, DeltaNet, Gated DeltaNet, Mamba-2's SSD; bf16 and fp16.

With `tensor_memory=True` launches are for Blackwell: simulated, compiled for sm_100a, and never run.

Input: q, k, v, the logarithms of gates g, beta, states before sequences. Output: o, and states behind sequences. For example:

    made = tables(batch, rows, cu_seqlens, parts_for(...)).map(to_device)
    work = workspace(k, v, g, beta, made, empty)
    for kernel, grid, args, meta in forward(q, k, v, g, beta, made, work, o=o, initial=h0, final=ht): ...

Per head, with the state S [K, V]: S' = e^g_t S; u_t = v_t, or beta_t (v_t - S'^T k_t); S = S' + k_t u_t^T; o_t = scale S^T q_t.
Chunks have C = 64 rows. What launches hand on, and the backward may take from the workspace (NT: chunks of all sequences, in
order; rows behind the end of a sequence have the last b, and zeros in what else there is; with `l2norm` k stands for k / |k|, and
q for q / |q|; g and beta are what becomes of them where they are `Raw`):

    b       [NT, HV, C] fp32            sums of g, -128 at least, from the chunk's first row on; by key [NT, HV, K], the last row's
    factors [NT, HV, 4, C] fp32         with `l2norm`, of rows of k and their b, see `put_factors` (prepare.py); by key none
    T       [NT, HV, C, C], k's type    (I + A)^-1 diag(beta), A_ij = beta_i e^(b_i - b_j) k_i . k_j for j < i
    starts  [spans, HV, K, V] fp32      the state before each part of a sequence that is cut into parts

With gates by key there are besides, of k's type, P [NT, HV, C, C], e^(b_i - b_j) q_i . k_j for j <= i without the scale, and rows
with gates [NT, HV, C, K]: q e^b, k e^b (`k`) and k e^(b_C - b) (`w`); else the recurrence makes P for itself.

W and U are not made: with E = diag(e^b) the new values are N = T (V - E K S). `forward(..., new=N, states=S, again=True)` computes
from these anew, in one launch, what a backward wants, both of k's type:

    new     [B, T, HV, V]               N; v itself without beta
    states  [NT, HV, V, K]              S^T before each chunk: transposed, columns of values first
"""

from __future__ import annotations

from .gates import Raw
from .launches import CONTRACT, Workspace, forward, workspace
from .tables import Tables, parts_for, tables

__all__ = ["CONTRACT", "Raw", "Tables", "Workspace", "forward", "parts_for", "tables", "workspace"]
