"""One token of linear attention for each sequence: its state is read once, and written once where it lies.

Input: q, k [N, H, K], v [N, HV, V], perhaps g [N, HV] or [N, HV, K], beta [N, HV], and states. Output: o [N, HV, V]; states anew.
For example:

    kernel, grid, args, meta = arguments(q, k, v, g, beta, state, indices, o, scale)
    kernel[grid](*args, **meta)

A program has a sequence, a head of v and a block of columns of v; blocks of a state and heads of a sequence are neighbours in
time, as they are in memory. A state's tile [K, BV], or [BV, K] where columns of K lie side by side, is in registers; sums over K
are of fp32, and are taken in one go: with S the decayed state and u what is written at k, the new state's answer is
S^T q + u (k . q).
"""

from typing import Any, NamedTuple

import triton.language as tl

import mimw
import mimw.tle as tle

from ..linear_attention.gates import betas_of, gates_of, maker_of


class Problem(NamedTuple):
    """The states of the pool, heads of v, those for each of q, columns of K and V; the scale of outputs, the norm's epsilon."""

    slots: Any
    of_values: Any
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
    the state; BY_KEY: g has columns; NORM: q and k are divided by their norms; MAKING: of gates and betas, where they are raw."""

    K: tl.constexpr
    BV: tl.constexpr
    VALUE_AXIS: tl.constexpr
    BY_KEY: tl.constexpr
    NORM: tl.constexpr
    MAKING: tl.constexpr


@mimw.jit
def row_of(tensor, steps, sequence, head, columns, inside):
    """Some columns of a row in fp32, 0 where there are none."""
    return tl.load(tensor + sequence * steps.sequence + head * steps.head + columns, mask=inside, other=0.0).to(tl.float32)


@mimw.jit
def three(a, b, c, d, e, f):
    """Three sums side by side."""
    return a + d, b + e, c + f


@mimw.jit
def products(q, k, epsilon, NORM: tl.constexpr):
    """Factors that divide q and k by their norms, 1 where that is not asked for, and the product of both rows so divided. A row
    whose squares overflow counts as 0, also where the product of both does."""
    if NORM:
        of_q, of_k, both_rows = tl.reduce((q * q, k * k, q * k), 0, three)
        of_q, of_k = tl.rsqrt(of_q + epsilon), tl.rsqrt(of_k + epsilon)
        return of_q, of_k, tl.where(tl.minimum(of_q, of_k) == 0.0, 0.0, both_rows * of_q * of_k)
    else:
        return 1.0, 1.0, tl.sum(q * k, 0)


@mimw.jit
def both(a, b, c, d):
    """Two sums side by side."""
    return a + c, b + d


@mimw.jit
def decays_of(g, maker, columns, inside):
    """Factors of a state, of gates by a maker if they are raw, whose biases lie in these columns."""
    if maker is None:
        return tl.exp(g)
    else:
        bias = None
        if maker.bias is not None:
            bias = tl.load(maker.bias + columns, mask=inside, other=0.0).to(tl.float32)
        return tl.exp(gates_of(g, bias, maker))


@mimw.jit
def step(q_ptr, k_ptr, v_ptr, g_ptr, beta_ptr, parameters, state_ptr, indices_ptr, o_ptr, problem, steps, FORM: tl.constexpr):
    """g, beta and indices may be None; `parameters` make gates of raw ones (linear_attention/gates.py). A sequence whose index is
    outside of the pool gets o = 0, and changes nothing."""
    blocks = tl.cdiv(problem.V, FORM.BV)
    row, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    sequence, head = (row // problem.of_values).to(tl.int64), row % problem.of_values
    slot = sequence
    if indices_ptr is not None:
        slot = tl.load(indices_ptr + sequence).to(tl.int64)
    there = (slot >= 0) & (slot < problem.slots)
    keys = tl.arange(0, FORM.K)
    values = block * FORM.BV + tl.arange(0, FORM.BV)
    of_keys, of_values = keys < problem.K, values < problem.V

    # The state comes first: nothing else takes as long, and every sum is a barrier, past which no load is moved. Norms are factors
    # of sums, so that all of them need two.
    KEY_AXIS: tl.constexpr = 1 - FORM.VALUE_AXIS
    down, across = tl.expand_dims(keys.to(tl.int64), FORM.VALUE_AXIS), tl.expand_dims(values.to(tl.int64), KEY_AXIS)
    inside = tl.expand_dims(of_keys, FORM.VALUE_AXIS) & tl.expand_dims(of_values, KEY_AXIS) & there
    place = state_ptr + slot * steps.state.slot + head * steps.state.head + down * steps.state.key + across * steps.state.value
    S = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    shared = head // problem.heads
    q, k = row_of(q_ptr, steps.q, sequence, shared, keys, of_keys), row_of(k_ptr, steps.k, sequence, shared, keys, of_keys)
    u = row_of(v_ptr, steps.v, sequence, head, values, of_values)
    if beta_ptr is not None:
        beta = tl.load(beta_ptr + sequence * steps.beta.sequence + head * steps.beta.head).to(tl.float32)
        beta = betas_of(beta, there, FORM.MAKING)
    if g_ptr is not None:
        if FORM.BY_KEY:
            maker = maker_of(parameters, head, problem.K, FORM.MAKING)
            decays = decays_of(row_of(g_ptr, steps.g, sequence, head, keys, of_keys), maker, keys, of_keys)
            S *= tl.expand_dims(decays, FORM.VALUE_AXIS)
        else:
            maker = maker_of(parameters, head, 1, FORM.MAKING)
            S *= decays_of(row_of(g_ptr, steps.g, sequence, head, 0, True), maker, 0, True)
    by_q, by_k, q_k = products(q, k, problem.epsilon, FORM.NORM)
    k_down, q_down = tl.expand_dims(k, FORM.VALUE_AXIS), tl.expand_dims(q, FORM.VALUE_AXIS)
    if beta_ptr is not None:
        of_k, of_q = tl.reduce((S * k_down, S * q_down), KEY_AXIS, both)
        u = beta * (u - by_k * of_k)
    else:
        of_q = tl.sum(S * q_down, KEY_AXIS)
    o = tl.where(there, problem.scale * (by_q * of_q + u * q_k), 0.0)
    S += k_down * tl.expand_dims(by_k * u, KEY_AXIS)
    tl.store(place, S.to(state_ptr.dtype.element_ty), mask=inside)
    tl.store(o_ptr + row.to(tl.int64) * problem.V + values, o.to(o_ptr.dtype.element_ty), mask=of_values)
