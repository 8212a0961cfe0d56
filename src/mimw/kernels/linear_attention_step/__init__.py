"""One token of linear attention for each sequence, states in place: bf16, fp16 and fp32 on any GPU, bound by the states' bytes.

Input: rows of q, k, v, g and beta, states or a pool of states with an index for each sequence. Output: rows of o. For example:

    arguments(q, k, v, g, beta, state, None, o, scale)          (kernel, grid, args, meta) of a launch or `mimw.simulate`
    arguments(q, k, v, None, None, pool, indices, o, scale)     sequence n has the state pool[indices[n]]
    arguments(q, k, v, x, y, state, None, o, scale, raw=Raw(A_log, dt_bias, use_gate=True))       of raw gates
"""

from __future__ import annotations

from ..contract import Contract
from ..contract.memory import strides
from ..linear_attention.gates import Raw, lines
from ..powers import power_of_two
from .kernel import AllSteps, Form, Problem, StateSteps, Steps
from .kernel import step as kernel

CONTRACT = Contract("q: float (N, H, K) rows", "k: =q (N, H, K) rows", "v: =q (N, HV, V) rows", "o: =q (N, HV, V) contiguous",
                    "g?: float (N, HV) or (N, HV, K) rows", "beta?: float (N, HV)", "state: float (slots, HV, K, V)",
                    "indices?: int (N) contiguous", *lines("N", " contiguous"), "K > 0 and V > 0 -- heads of width 0 have no state",
                    "HV == H or H > 0 and HV % H == 0 -- heads of q and k must divide those of v",
                    "indices is not None or slots == N -- without indices there must be one state for each sequence")
ELEMENTS = 4096         # of a state that a program of 4 warps takes: 32 a thread
EPSILON = 1e-6          # of the L2 norm, as fla has it

__all__ = ["CONTRACT", "EPSILON", "Raw", "arguments", "kernel"]


def arguments(q, k, v, g, beta, state, indices, o, scale: float | None = None, l2norm: bool = False, raw: Raw = Raw()) -> tuple:
    """(kernel, grid, args, meta) of the launch.

    args:      q, k     (N, H, K), columns side by side; one type with v and o
               v, o     (N, HV, V); H divides HV; o is contiguous
               g        (N, HV) or (N, HV, K): logarithms of decays; None is no decay
               beta     (N, HV); None is no delta rule
               state    (slots, HV, K, V), any strides; fastest where columns of V, or of K, lie side by side
               indices  (N) int32 or int64: each sequence's state, each at most once; one outside of the pool is none: o is 0
               scale    of the outputs, by default K ** -0.5
               l2norm   q and k are divided by sqrt(their sum of squares + 1e-6) first
               raw      how gates and betas are made, if g and beta are not they; A_log and dt_bias are contiguous
    errors:    ValueError where a shape, a type or a stride does not fit, with the numbers
    """
    of = CONTRACT.check(q=q, k=k, v=v, o=o, g=g, beta=beta, state=state, indices=indices, **raw._asdict())
    by_key, width = g is not None and len(g.shape) == 3, power_of_two(of.K)
    columns = min(power_of_two(of.V), max(1, ELEMENTS // width))
    of_state = StateSteps(*strides(state))
    steps = AllSteps(*(Steps(0, 0) if one is None else Steps(*strides(one)[:2]) for one in (q, k, v, g, beta)), of_state)
    keys_first = of_state.key < of_state.value and of.K > 1
    form = Form(width, columns, 0 if keys_first else 1, by_key, l2norm, raw.making)
    problem = Problem(of.slots, of.HV, of.HV // max(1, of.H), of.K, of.V, of.K**-0.5 if scale is None else float(scale), EPSILON)
    args = q, k, v, g, beta, raw.parameters, state, indices, o, problem, steps
    return kernel, (of.N * of.HV * -(-of.V // columns),), args, dict(FORM=form, num_warps=4)
