"""`mimw.ops.rope`: rotary position embedding of queries and keys in one launch, in place or not, with a derivative.

Input: x, or a pair (q, k), of attention's shape; tables cos and sin. Output: the same, turned. For example:

    q, k = rope((q, k), cos, sin)                           cos and sin (length, dim / 2), as of FlashAttention
    q, k = rope((q, k), cos, sin, positions, inplace=True)  position i at row positions[i] of the tables
    torch.ops.mimw.rope(x, cos, sin, None, False, False)    the operator itself, of one tensor
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.fx import Proxy
from torch.fx.node import has_side_effect

from mimw.kernels import rope as library
from mimw.runtime.in_place import refuse_leaves, refuse_overlaps, refuse_views_of_several

from .contract import Contract, Extents
from .launching import Launch
from .operator import Operator
from .planned import Planned

NAMES = {1: ("x", ), 2: ("q", "k")}     # of so many tensors


@cache
def _contract(count: int, results: bool = False) -> Contract:
    """The contract of one tensor or of two, with results where they are not written in place."""
    first, *second = NAMES[count]
    return Contract(
        "rope", f"{first}: float (batch, heads, length, dim) or (heads, length, dim) or (length, dim)",
        *(f"{name}: ={first} (batch, k_heads, length, dim) or (k_heads, length, dim) or (length, dim)" for name in second),
        *(f"{name}.dim() == {first}.dim() -- they may differ in their heads alone" for name in second),
        "cos: float ((batch)|1, table, half) or (table, half)", "sin: float ((batch)|1, table, half) or (table, half)",
        "cos.shape == sin.shape -- tables must be alike", "positions?: int ((batch)|1, length) or (length)",
        "2 * half <= dim -- tables turn twice as many columns as they have, and x must have these. Tables that repeat themselves "
        "are given as cos[..., :R // 2]", "positions is not None or table >= length -- tables must have a row for each position",
        *(f"-> {name}_out: ={name} () order {name}" for name in NAMES[count] if results))


@has_side_effect        # of torch.fx's graphs, in which it stands by itself in place only
def rope(x: Tensor | tuple[Tensor, Tensor], cos: Tensor, sin: Tensor, positions: Tensor | None = None, *, interleaved: bool = False,
         inplace: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """The first columns of each row turned, pair by pair: (a cos - b sin, a sin + b cos); the columns behind them as they are.

    args:      x            (..., heads, length, dim), at most four dimensions, or a pair of such, say queries and keys, which may
                            differ in their heads: bf16, fp16 or fp32, any strides. Of (batch, length, heads, dim) give
                            x.transpose(1, 2): nothing is copied, and the result lies as x does
               cos, sin     (length or more, R / 2) or (batch, length or more, R / 2), R <= dim, any of these types. Tables that
                            repeat themselves, as Hugging Face's, are given as cos[..., :R // 2]
               positions    (length) or (batch, length), int32 or int64: the row of the tables for each position; by default 0, 1,
                            ... A position outside of the tables gives NaN
               interleaved  columns 2i and 2i + 1 are a pair; else columns i and i + R / 2
               inplace      write into x itself, which is also the result
    returns:   of x's shape, type and order in memory; computed in fp32, rounded once
    computed:  by `mimw.kernels.rope`, plain Triton, one launch for both
    gradients  of x, of any order: the rotation by the negative angles. Tables have none
    errors:    RuntimeError where shapes, types or devices do not fit; in place for a leaf that requires grad, a view of one, and
               elements that share memory, as those of an expanded tensor or of (x, x); NotImplementedError for other types and
               for tables that require grad
    """
    both = isinstance(x, (tuple, list))
    xs = tuple(x) if both else (x, )
    if len(xs) not in (1, 2):
        raise RuntimeError(f"rope: x is {len(xs)} tensors; it may be one, or two of them, as queries and keys")
    rest = cos, sin, positions, interleaved, False
    if inplace and isinstance(xs[0], Proxy):
        return xs[0].tracer.create_proxy("call_function", rope, (x, *rest[:3]), dict(interleaved=interleaved, inplace=True))
    graded = torch.is_grad_enabled()
    if graded and (cos.requires_grad is True or sin.requires_grad is True):     # not so of a graph's variables
        raise NotImplementedError("rope: cos or sin requires grad, and tables have no gradient: detach them")
    if not inplace:
        found = BOTH(*xs, *rest) if len(xs) == 2 else (ROPE(xs[0], *rest), )
    else:
        found = _in_place(xs, rest, graded)
    return found if both else found[0]


def _in_place(xs: tuple[Tensor, ...], rest: tuple, graded: bool) -> tuple[Tensor, ...]:
    graded = graded and any(x.requires_grad for x in xs)
    named = dict(zip(("x", ) if len(xs) == 1 else ("q", "k"), xs))
    if graded:
        refuse_leaves("rope", **named)
        refuse_views_of_several("rope", **named)
    if any(x.dim() and x.shape[-1] > 1 and x.stride(-1) != 1 for x in xs) or graded and torch.compiler.is_compiling():
        refuse_overlaps("rope", named, dict(zip(("cosines", "sines", "positions"), rest)))
        return tuple(x.copy_(ROPE(x, *rest)) for x in xs)
    plain = [x.detach() for x in xs] if graded else xs
    (BOTH_IN_PLACE if len(xs) == 2 else IN_PLACE)(*plain, *rest)
    return tuple(_Turned.apply(x, *rest) if x.requires_grad else x for x in xs) if graded else xs


class _Turned(torch.autograd.Function):
    """A launch's change of x in place, for autograd: one tensor each, as functions that change views must have one result."""

    @staticmethod
    def forward(ctx, x, cos, sin, positions, interleaved, back):
        ctx.mark_dirty(x)
        ctx.save_for_backward(cos, sin, positions)
        ctx.interleaved, ctx.back = interleaved, back
        return x

    @staticmethod
    def backward(ctx, dy):
        return ROPE(dy, *ctx.saved_tensors, ctx.interleaved, not ctx.back), None, None, None, None, None


def _like(x: Tensor) -> Tensor:
    """A result for x: in its order in memory, columns side by side."""
    return torch.empty_like(x, memory_format=torch.preserve_format if x.shape[-1] == 1 or x.stride(-1) == 1 else
                            torch.contiguous_format)


def _columns(x: Tensor) -> Tensor:
    return x if x.shape[-1] == 1 or x.stride(-1) == 1 else x.contiguous()


def _plan(of: Extents, *given) -> Callable:
    plan = _plan_for(*given)
    return lambda *tensors: found if len(found := plan(*tensors)) > 1 else found[0]


def _plan_in_place(of: Extents, *given) -> Callable:
    plan = _plan_for(*given, in_place=True)

    def write(*tensors: Tensor | None) -> None:
        plan(*tensors)

    return write


def _plan_for(*given, in_place: bool = False) -> Callable[..., tuple[Tensor, ...]]:
    *xs, cos, sin, positions, interleaved, back = given
    if all(x.numel() == 0 for x in xs) or cos.shape[-1] == 0:
        return lambda *tensors: tensors[:-3] if in_place else tuple(_like(x).copy_(x) for x in tensors[:-3])
    used = [x for x in xs if x.numel()]
    ready = [_columns(x) for x in used]
    outs = ready if in_place else [_like(x) for x in used]
    tables = [_columns(one)[None] if one.dim() == 2 else _columns(one) for one in (cos, sin)]
    places = positions if positions is None else positions.contiguous().view(-1, positions.shape[-1])
    four = [tuple(x[(None, ) * (4 - x.dim())] for x in group) for group in (ready, outs)]
    launch = Launch(xs[0], *library.arguments(four[0], four[0] if in_place else four[1], *tables, places, interleaved, back))
    whole = len(used) == len(xs)

    def plan(*tensors: Tensor | None) -> tuple[Tensor, ...]:
        *xs, cos, sin, positions = tensors
        outs = xs if in_place else tuple(map(_like, xs))
        given, into = (xs, outs) if whole else ([x for x in group if x.numel()] for group in (xs, outs))
        more = () if positions is None else (positions.contiguous(), )
        launch(*map(_columns, given), *into, _columns(cos), _columns(sin), *more)
        return outs

    return plan


_REST = "Tensor cos, Tensor sin, Tensor? positions, bool interleaved, bool back"


def _save(ctx, inputs, output) -> None:
    *_, cos, sin, positions, ctx.interleaved, ctx.back = inputs
    ctx.save_for_backward(cos, sin, positions)


ROPE = Operator(f"rope(Tensor x, {_REST}) -> Tensor", Planned(_plan), _contract(1, results=True), _save,
                lambda ctx, dy: ROPE(dy, *ctx.saved_tensors, ctx.interleaved, not ctx.back))
BOTH = Operator(f"rope_of_two(Tensor q, Tensor k, {_REST}) -> (Tensor, Tensor)", Planned(_plan), _contract(2, results=True), _save,
                lambda ctx, dq, dk: BOTH(dq, dk, *ctx.saved_tensors, ctx.interleaved, not ctx.back))
IN_PLACE = Operator(f"rope_(Tensor(a!) x, {_REST}) -> ()", Planned(_plan_in_place), _contract(1))
BOTH_IN_PLACE = Operator(f"rope_of_two_(Tensor(a!) q, Tensor(b!) k, {_REST}) -> ()", Planned(_plan_in_place), _contract(2))
