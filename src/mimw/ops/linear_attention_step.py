"""`mimw.ops.linear_attention_step`: one token of linear attention for each sequence, its state read and written in place.

Input: rows of queries, keys, values, gates and weights of the delta rule, and states, perhaps a server's pool of them. Output: rows
of o; the states behind the token. For example:

    o = linear_attention_step(q, k, v, state, g, beta)              q (N, H, K), state (N, HV, K, V)
    o = linear_attention_step(q, k, v, pool, g, beta, indices)      sequence n has the state pool[indices[n]]
    o = linear_attention_step(q, k, v, state, x, y, A_log=A, dt_bias=b, use_gate=True, use_beta_sigmoid=True)   of projections
    torch.ops.mimw.linear_attention_step(q, k, v, state, g, beta, indices)      the operator itself
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mimw.kernels import linear_attention_step as library
from mimw.kernels.linear_attention.gates import lines

from .contract import Contract, Extents
from .launching import Launch
from .operator import Operator
from .planned import Planned

CONTRACT = Contract("linear_attention_step", "q: float (N, H, K)", "k: =q (N, H, K)", "v: =q (N, HV, V)",
                    "state: float (slots, HV, K, V)", "g?: float (N, HV) or (N, HV, K)", "beta?: float (N, HV)",
                    "indices?: int (N)", "K > 0 and V > 0 -- heads of width 0 have no state",
                    "HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v",
                    "indices is not None or slots == N -- without indices there must be one state for each sequence",
                    *lines("N"), "-> o: =q (N, HV, V)", flops="6 * N * HV * K * V")


def linear_attention_step(q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None = None, beta: Tensor | None = None,
                          indices: Tensor | None = None, *, scale: float | None = None, use_qk_l2norm: bool = False,
                          A_log: Tensor | None = None, dt_bias: Tensor | None = None, lower_bound: float | None = None,
                          use_gate: bool = False, use_beta_sigmoid: bool = False, allow_neg_eigval: bool = False) -> Tensor:
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
               A_log, dt_bias, lower_bound, use_gate, use_beta_sigmoid, allow_neg_eigval   g and beta are raw, and gates and betas
                              are made of them, as `mimw.ops.linear_attention` has it
    returns:   o (N, HV, V) of q's type, contiguous
    computed:  by `mimw.kernels.linear_attention_step` in fp32, plain Triton, one launch
    errors:    RuntimeError where shapes, types or devices do not fit, and for a state that may not be written in place;
               NotImplementedError for other types. There is no derivative
    """
    return LINEAR_ATTENTION_STEP(q, k, v, state, g, beta, indices, A_log, dt_bias, scale, use_qk_l2norm, use_gate, lower_bound,
                                 use_beta_sigmoid, allow_neg_eigval)


def _plan(of: Extents, q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None, beta: Tensor | None,
          indices: Tensor | None, A_log: Tensor | None, dt_bias: Tensor | None, scale: float | None, use_qk_l2norm: bool,
          *making: bool | float | None) -> Callable[..., Tensor]:
    if of.o.empty(q).numel() == 0:
        return lambda q, *_: of.o.empty(q)
    *rows, A_log, dt_bias, state, indices = _ready(q, k, v, state, g, beta, indices, A_log, dt_bias)
    raw = library.Raw(A_log, dt_bias, *making)
    launch = Launch(q, *library.arguments(*rows, state, indices, of.o.empty(q), scale, use_qk_l2norm, raw))

    def plan(*given: Tensor | None) -> Tensor:
        o = of.o.empty(given[0])
        launch(*(one for one in _ready(*given) if one is not None), o)
        return o

    return plan


def _ready(q: Tensor, k: Tensor, v: Tensor, state: Tensor, g: Tensor | None, beta: Tensor | None,
           *more: Tensor | None) -> tuple[Tensor | None, ...]:
    """The tensors as the launch takes them, in its order."""
    indices, *makers = (None if one is None else one.contiguous() for one in more)
    return *(one if one is None or one.shape[-1] == 1 or one.stride(-1) == 1 else one.contiguous() for one in (q, k, v, g)), beta, \
        *makers, state, indices


LINEAR_ATTENTION_STEP = Operator(
    "linear_attention_step(Tensor q, Tensor k, Tensor v, Tensor(a!) state, Tensor? g, Tensor? beta, Tensor? indices, "
    "Tensor? A_log=None, Tensor? dt_bias=None, float? scale=None, bool use_qk_l2norm=False, bool use_gate=False, "
    "float? lower_bound=None, bool use_beta_sigmoid=False, bool allow_neg_eigval=False) -> Tensor", Planned(_plan), CONTRACT)
