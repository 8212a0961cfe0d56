"""The gradients of chunked linear attention on Hopper: GLA, DeltaNet, Gated DeltaNet, Kimi delta attention, Mamba-2's SSD.

Input: what the forward was given, what it computes anew (N, the states before each chunk, its workspace), and the gradients of o
and of the final states. Output: gradients of q, k, v, g, beta and the initial states. For example:

    back = tables(made)                                     made: those of the forward, as numpy
    work = workspace(given, back, empty, of_forward)        what launches hand on, made by empty(shape, type)
    for kernel, grid, args, meta in launches(given, work, results, back, of_forward, dfinal, dinitial):
        kernel[grid](*args, **meta)

**Derivation.** Of a chunk, with b the sum of the gate, E = diag(e^b), F = diag(e^(b_C - b)), and e^(b_i - b_j) inside of P and A:

    A = stril(beta K K^T), T = (I + A)^-1 diag(beta), R = V - E K S, N = T R        N = V without the delta rule
    O = scale (E Q S + P N), S' = e^b_C S + (F K)^T N

Given dO and D, the gradient of S', the recurrence (`kernel`) has

    dN = scale P^T dO + F K D,  dR = T^T dN,  dV = dR
    dS = e^b_C D + scale (E Q)^T dO - (E K)^T dR

and then every chunk by itself (`gradients`; `by_roles` and `by_key` are other forms), as N = T R is (I + A) N = beta R, whence
beta dA = -stril(dR N^T) with dR as above:

    dP = scale tril(dO N^T)
    dQ_i = sum_j dP_ij K_j e^(b_i - b_j) + scale (E dO S^T)_i
    dK = up + down + end:   up_i = sum_j (beta dA)_ij K_j e^(b_i - b_j) - (E dR S^T)_i          where k stands with e^b
                            down_j = sum_i (dP_ij Q_i + (beta dA)_ij K_i) e^(b_i - b_j)         where it stands with e^-b
                            end = F N D^T
    dbeta_i = dR_i N_i / beta_i^2                                                               (`beta` where one is 0)

b stands wherever q and k do, so db = q dq + k (up - down - end), of a gate a head the sum over columns, and at the last row also
the sum of k end over rows plus e^b_C (S D), the sum over values; dg_t is the sum of db from t to the chunk's end.
"""

from __future__ import annotations

from .launches import launches, of_chunks, workspace
from .nouns import Given, Results, Work
from .tables import Tables, tables

__all__ = ["Given", "Results", "Tables", "Work", "launches", "of_chunks", "tables", "workspace"]
