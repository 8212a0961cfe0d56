"""Gates and betas of linear attention, of the numbers that a model's projections give, by torch, and their gradients.

Input: raw gates g (B, T, HV) or (B, T, HV, K) and betas (B, T, HV), A_log (HV), dt_bias (HV) or (HV, K). Output: in fp32. For
example:

    gates(g, A_log, dt_bias)                    -exp(A_log) softplus(g + dt_bias)
    gates(g, A_log, dt_bias, lower_bound=-5.0)  -5 sigmoid(exp(A_log) (g + dt_bias))
    betas(beta, twice=False)                    sigmoid(beta)
    dg, dA_log, dbias = gate_gradients(dgates, made, g, A_log, dt_bias, -5.0)

Without A_log its exponentials are 1. `mimw.kernels.linear_attention` makes the same where it first reads them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _parts(g: Tensor, A_log: Tensor | None, dt_bias: Tensor | None) -> tuple[Tensor, Tensor | float]:
    """(g + dt_bias, exp(A_log)), for each gate."""
    rates = 1.0 if A_log is None else A_log.float().exp().view(-1, *[1] * (g.dim() - 3))
    return g.float() if dt_bias is None else g.float() + dt_bias.float(), rates


def gates(g: Tensor, A_log: Tensor | None = None, dt_bias: Tensor | None = None, lower_bound: float | None = None) -> Tensor:
    """Logarithms of decays."""
    x, rates = _parts(g, A_log, dt_bias)
    if lower_bound is None:
        return -rates * torch.logaddexp(x, x.new_zeros(()))
    return lower_bound * torch.sigmoid(rates * x)


def gate_gradients(dgates: Tensor, made: Tensor, g: Tensor, A_log: Tensor | None, dt_bias: Tensor | None,
                   lower_bound: float | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Of g, A_log and dt_bias, each of its type; of those that are not there None. `made` is what `gates` gave."""
    x, rates = _parts(g, A_log, dt_bias)
    dx = rates * dgates * (-torch.sigmoid(x) if lower_bound is None else made * (1.0 - made / lower_bound))
    dA_log = None
    if A_log is not None:
        of_rates = dgates * made if lower_bound is None else x * dx
        dA_log = of_rates.sum([0, 1, *range(3, g.dim())]).to(A_log.dtype)
    return dx.to(g.dtype), dA_log, None if dt_bias is None else dx.sum((0, 1)).to(dt_bias.dtype)


def betas(beta: Tensor, twice: bool) -> Tensor:
    """Sigmoids; times 2 where states may have negative eigenvalues."""
    return torch.sigmoid(beta.float()) * (2.0 if twice else 1.0)


def beta_gradients(dbetas: Tensor, made: Tensor, beta: Tensor, twice: bool) -> Tensor:
    """Of beta, in its type. `made` is what `betas` gave."""
    return (dbetas * made * (1.0 - made * (0.5 if twice else 1.0))).to(beta.dtype)
