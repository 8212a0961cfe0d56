"""`mimw.nn.functional.mamba_chunk_scan_combined`: Mamba-2's state space duality (SSD), with the parameters of mamba_ssm.

Input: x, steps dt, rates A, B and C. Output: y, and the final states. For example:

    y = mamba_chunk_scan_combined(x, dt, A, B, C, 256, D=D, z=z, dt_bias=bias, dt_softplus=True)
    y, states = mamba_chunk_scan_combined(x, dt, A, B, C, 256, return_final_states=True)

It is `mimw.ops.linear_attention` of queries C, keys B, values dt x and gates dt A (arXiv 2405.21060).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import silu, softplus

from mimw import ops


def mamba_chunk_scan_combined(
        x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, chunk_size: int, D: Tensor | None = None, z: Tensor | None = None,
        dt_bias: Tensor | None = None, initial_states: Tensor | None = None, seq_idx: Tensor | None = None,
        cu_seqlens: Tensor | None = None, dt_softplus: bool = False, dt_limit: tuple[float, float] = (0.0, float("inf")),
        return_final_states: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """y_t = S_t C_t + D x_t of the states S_t = exp(dt_t A) S_(t - 1) + dt_t x_t B_t^T, times silu(z) if there is z.

    args:      x              (batch, length, heads, dim): bf16, fp16 or fp32
               dt             (batch, length, heads), any of these types: steps, of which dt_bias (heads), softplus and the limits
                              are taken first, in fp32
               A              (heads): rates, below 0
               B, C           (batch, length, groups, states) of x's type; groups divides heads
               chunk_size     of mamba_ssm; chunks have 64 rows here, whatever it is
               D              (heads) or (heads, dim), or None
               z              of x's shape, or None
               initial_states   (batch, heads, dim, states), or None for 0
               seq_idx        not offered; packed sequences are given by cu_seqlens
               cu_seqlens     as `mimw.ops.linear_attention` has it, with batch 1 and a state for each sequence
    returns:   y of x's shape and type; with return_final_states also the states (batch, heads, dim, states) in fp32
    computed:  by `mimw.ops.linear_attention`, on sm_90 by its kernels where dim and states have the columns that these take; dt,
               D and z by torch
    gradients  of all tensors but seq_idx and cu_seqlens
    errors:    NotImplementedError for seq_idx; those of `mimw.ops.linear_attention`, with its names: C is q, B is k, dt x is v
    """
    if seq_idx is not None:
        raise NotImplementedError("mamba_chunk_scan_combined: seq_idx is not offered; say where sequences begin by cu_seqlens, "
                                  "(sequences + 1) numbers from 0 to the length, with batch 1")
    steps = dt.float() if dt_bias is None else dt.float() + dt_bias.float()
    steps = (softplus(steps) if dt_softplus else steps).clamp(*dt_limit)
    values = (x.float() * steps[..., None]).to(x.dtype)
    first = None if initial_states is None else initial_states.transpose(2, 3)
    y, states = ops.linear_attention(C, B, values, steps * A.float(), None, 1.0, first, return_final_states, cu_seqlens)
    if D is not None or z is not None:
        wide = y.float()
        if D is not None:
            wide = wide + x.float() * (D if D.dim() == 2 else D[:, None]).float()
        y = (wide if z is None else wide * silu(z.float())).to(x.dtype)
    return (y, states.transpose(2, 3)) if return_final_states else y


__all__ = ["mamba_chunk_scan_combined"]
