"""`mimw.ops.linear_attention_step`: one token of linear attention for each sequence, its state read and written in place.

Input: rows of queries, keys, values, gates and weights of the delta rule, and states, perhaps a server's pool of them. Output: rows
of o; the states behind the token. For example:

    o = linear_attention_step(q, k, v, state, g, beta)              q (N, H, K), state (N, HV, K, V)
    o = linear_attention_step(q, k, v, pool, g, beta, indices)      sequence n has the state pool[indices[n]]
    torch.ops.mimw.linear_attention_step(q, k, v, state, g, beta, indices)      the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mimw.kernels import linear_attention_step as library

from .contract import Contract, Extents
from .launching import Launch
from .operator import Operator
from .planned import Planned

CONTRACT = Contract("linear_attention_step", "q: float (N, H, K)", "k: =q (N, H, K)", "v: =q (N, HV, V)",
                    "state: float (slots, HV, K, V)", "g?: float (N, HV) or (N, HV, K)", "beta?: float (N, HV)",
                    "indices?: int (N)", "K > 0 and V > 0 -- heads of width 0 have no state",
                    "HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v",
                    "indices is not None or slots == N -- without indices there must be one state for each sequence",
                    "-> o: =q (N, HV, V)", flops="6 * N * HV * K * V")


def linear_attention_step(q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None = None, beta: Tensor | None = None,
                          indices: Tensor | None = None, *, scale: float | None = None, use_qk_l2norm: bool = False) -> Tensor:
    """o of one token: per head of v, S <- exp(g) S + k u^T in place and o = scale S^T q, with u = v, or with beta
    u = beta (v - (exp(g) S)^T k), as `mimw.ops.linear_attention` has it for sequences.

    args:      q, k           (N, H, K): bf16, fp16 or fp32, any strides
               v              (N, HV, V) of q's type; H divides HV, and head h of v reads head h * H // HV of q and k
               state          (N, HV, K, V), or with indices a pool (slots, HV, K, V), any of these types, best fp32, any strides;
                              it is written. Fastest where columns of V, or of K, lie side by side
               g              (N, HV) or (N, HV, K): logarithms of decays; None is no decay
               beta           (N, HV): the delta rule's weights; None is no delta rule
               indices        (N) int32 or int64: the state of each sequence. No two may have the same; one outside of the pool, as
                              -1, is none: its o is 0
               scale          of the outputs, by default K ** -0.5
               use_qk_l2norm  q and k are divided by sqrt(their sum of squares + 1e-6) first
    returns:   o (N, HV, V) of q's type, contiguous
    computed:  by `mimw.kernels.linear_attention_step` in fp32, plain Triton, one launch
    errors:    RuntimeError where shapes, types or devices do not fit, and for a state that may not be written in place;
               NotImplementedError for other types. There is no derivative
    """
    return LINEAR_ATTENTION_STEP(q, k, v, state, g, beta, indices, scale, use_qk_l2norm)


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None, beta: Tensor | None,
          indices: Tensor | None, scale: float | None, use_qk_l2norm: bool) -> Callable[..., Tensor]:
    if of.o.empty(q).numel() == 0:
        return lambda q, *_: of.o.empty(q)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    rows = [None if one is None else _rows(one) for one in (q, k, v, g)]
    places = None if indices is None else indices.contiguous()
    launch = Launch(q, *library.arguments(*rows, beta, state, places, of.o.empty(q), scale, use_qk_l2norm))

    def plan(q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None, beta: Tensor | None,
             indices: Tensor | None) -> Tensor:
        o = of.o.empty(q)
        more = [one for one in (None if g is None else _rows(g), beta, state,
                                None if indices is None else indices.contiguous()) if one is not None]
        launch(_rows(q), _rows(k), _rows(v), *more, o)
        return o

    return plan


def _rows(x: Tensor) -> Tensor:
    """The tensor with its last columns side by side."""
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


LINEAR_ATTENTION_STEP = Operator(
    "linear_attention_step(Tensor q, Tensor k, Tensor v, Tensor(a!) state, Tensor? g, Tensor? beta, Tensor? indices, "
    "float? scale=None, bool use_qk_l2norm=False) -> Tensor", Planned(_plan), CONTRACT)
