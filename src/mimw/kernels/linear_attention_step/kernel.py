"""One token of linear attention for each sequence: its state is read once, and written once where it lies.

Input: q, k [N, H, K], v [N, HV, V], perhaps g [N, HV] or [N, HV, K], beta [N, HV], and states. Output: o [N, HV, V]; states anew.
For example:

    kernel, grid, args, meta = arguments(q, k, v, g, beta, state, indices, o, scale)
    kernel[grid](*args, **meta)

Program (sequence, head of v, block of columns of v). A state's tile [K, BV], or [BV, K] where columns of K lie side by side, is in
registers; both sums over K are of fp32.
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle


class Problem(NamedTuple):
    """The states of the pool, heads of q and of v for each, columns of K and V; the scale of outputs, the norm's epsilon."""

    slots: Any
    heads: Any
    K: Any
    V: Any
    scale: Any
    epsilon: Any


class Steps(NamedTuple):
    """The distances of a tensor's sequences and heads."""

    sequence: Any
    head: Any


class StateSteps(NamedTuple):
    """The distances of states, of heads, and of the columns of K and V."""

    slot: Any
    head: Any
    key: Any
    value: Any


class AllSteps(NamedTuple):
    """Of all tensors but o, which is contiguous."""

    q: Any
    k: Any
    v: Any
    g: Any
    beta: Any
    state: Any


@tle.struct
class Form:
    """Constants of a launch: K holds the columns of keys, BV those of values of a program; VALUE_AXIS: that of values in a tile of
    the state; BY_KEY: g has columns; NORM: q and k are divided by their norms."""

    K: tl.constexpr
    BV: tl.constexpr
    VALUE_AXIS: tl.constexpr
    BY_KEY: tl.constexpr
    NORM: tl.constexpr


@mimw.jit
def row_of(tensor, steps, sequence, head, columns, inside):
    """Some columns of a row in fp32, 0 where there are none."""
    return tl.load(tensor + sequence * steps.sequence + head * steps.head + columns, mask=inside, other=0.0).to(tl.float32)


@mimw.jit
def normed(x, epsilon, NORM: tl.constexpr):
    """x divided by its norm, if asked for."""
    if NORM:
        x = x * tl.rsqrt(tl.sum(x * x, 0) + epsilon)
    return x


@mimw.jit
def step(q_ptr, k_ptr, v_ptr, g_ptr, beta_ptr, state_ptr, indices_ptr, o_ptr, problem, steps, FORM: tl.constexpr):
    """g, beta and indices may be None. A sequence whose index is outside of the pool gets o = 0, and changes nothing."""
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = sequence
    if indices_ptr is not None:
        slot = tl.load(indices_ptr + sequence).to(tl.int64)
    there = (slot >= 0) & (slot < problem.slots)
    keys = tl.arange(0, FORM.K)
    values = tl.program_id(2) * FORM.BV + tl.arange(0, FORM.BV)
    of_keys, of_values = keys < problem.K, values < problem.V
    shared = head // problem.heads
    q = normed(row_of(q_ptr, steps.q, sequence, shared, keys, of_keys), problem.epsilon, FORM.NORM)
    k = normed(row_of(k_ptr, steps.k, sequence, shared, keys, of_keys), problem.epsilon, FORM.NORM)
    u = row_of(v_ptr, steps.v, sequence, head, values, of_values)

    KEY_AXIS: tl.constexpr = 1 - FORM.VALUE_AXIS
    down, across = tl.expand_dims(keys.to(tl.int64), FORM.VALUE_AXIS), tl.expand_dims(values.to(tl.int64), KEY_AXIS)
    inside = tl.expand_dims(of_keys, FORM.VALUE_AXIS) & tl.expand_dims(of_values, KEY_AXIS) & there
    place = state_ptr + slot * steps.state.slot + head * steps.state.head + down * steps.state.key + across * steps.state.value
    S = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    if g_ptr is not None:
        if FORM.BY_KEY:
            S *= tl.expand_dims(tl.exp(row_of(g_ptr, steps.g, sequence, head, keys, of_keys)), FORM.VALUE_AXIS)
        else:
            S *= tl.exp(tl.load(g_ptr + sequence * steps.g.sequence + head * steps.g.head).to(tl.float32))
    k_down = tl.expand_dims(k, FORM.VALUE_AXIS)
    if beta_ptr is not None:
        beta = tl.load(beta_ptr + sequence * steps.beta.sequence + head * steps.beta.head).to(tl.float32)
        u = beta * (u - tl.sum(S * k_down, KEY_AXIS))
    S += k_down * tl.expand_dims(u, KEY_AXIS)
    tl.store(place, S.to(state_ptr.dtype.element_ty), mask=inside)
    o = tl.where(there, problem.scale * tl.sum(S * tl.expand_dims(q, FORM.VALUE_AXIS), KEY_AXIS), 0.0)
    row = (sequence * tl.num_programs(1) + head) * problem.V
    tl.store(o_ptr + row + values, o.to(o_ptr.dtype.element_ty), mask=of_values)
