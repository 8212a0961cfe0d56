"""What torch asks of an operator that writes into its arguments, asked of one.

    holds("rope_", lambda: (torch.randn(2, 5, 16), cos, sin, None, False, False))

Input: the operator's name, and what makes arguments of a call, new ones each time. Output: nothing, or an AssertionError that says
what does not hold. Arguments that share nothing are taken, and versions counted up; leaves, their views, tensors that require grad,
expanded ones and those that share memory with another argument are refused before anything is written.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

import mimw.ops.distributed  # noqa: F401  its operators, too
from mimw.ops.operator import OPERATORS


@dataclass(frozen=True)
class Argument:
    """A tensor among the arguments of an operator."""

    at: int
    name: str
    written: bool


def arguments_of(name: str) -> list[Argument]:
    """The tensors of an operator's schema, as torch has read it."""
    return [Argument(at, one.name, one.alias_info is not None and one.alias_info.is_write)
            for at, one in enumerate(OPERATORS[name].op._schema.arguments) if "Tensor" in str(one.type)]


def writing() -> list[str]:
    """The operators that write into their arguments."""
    return [name for name in OPERATORS if any(one.written for one in arguments_of(name))]


def holds(name: str, make: Callable[[], tuple]) -> None:
    op, tensors = OPERATORS[name].op, arguments_of(name)
    written = [one for one in tensors if one.written]
    args = make()
    before = [args[one.at]._version for one in written]
    assert OPERATORS[name](*args) is not NotImplemented
    assert [args[one.at]._version for one in written] == [version + 1 for version in before], "versions are counted up"
    for one in written:
        _refused(op, _with(make(), one, lambda x: x.requires_grad_()), RuntimeError, f"{one.name} is a leaf")
        _refused(op, _with(make(), one, lambda x: x.requires_grad_()[...]), RuntimeError, f"{one.name} is a view of a leaf")
        with torch.no_grad():
            op(*_with(make(), one, lambda x: x.requires_grad_()))
        _refused(op, _with(make(), one, _expanded), RuntimeError, f"elements of {one.name}")
    for one in tensors:
        args = make()
        if args[one.at] is not None and args[one.at].dtype.is_floating_point:
            _refused(op, _with(args, one, lambda x: x.requires_grad_() * 1), NotImplementedError, "has no derivative")
        for other in written:
            if other.at != one.at and args[one.at] is not None:
                _refused(op, _with(make(), one, lambda x, other=other, args=args: _over(args[other.at], x), other, args[other.at]),
                         RuntimeError, f"{other.name} and {one.name} share memory|{one.name} and {other.name} share memory")


def _with(args: tuple, one: Argument, change: Callable, *more) -> tuple:
    """The arguments with one changed; and `more`, another argument and its value."""
    args = list(args)
    args[one.at] = change(args[one.at])
    if more:
        args[more[0].at] = more[1]
    return tuple(args)


def _expanded(x: torch.Tensor) -> torch.Tensor:
    """Of x's shape and type, all along the first extent in one place."""
    return x[:1].clone().expand(x.shape)


def _over(memory: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Of x's shape and type, in the last element of `memory` and behind it."""
    count = 8 * (x.numel() + memory.numel())
    room = torch.zeros(count, dtype=memory.dtype)
    memory.set_(room[:memory.numel()].view(memory.shape))
    skipped = (memory.numel() - 1) * memory.itemsize
    skipped -= skipped % x.itemsize
    return room.view(torch.uint8)[skipped:skipped + x.numel() * x.itemsize].view(x.dtype).view(x.shape)


def _refused(op, args: tuple, error: type, text: str) -> None:
    import re
    kept = [one.detach().clone() if isinstance(one, torch.Tensor) else None for one in args]
    try:
        op(*args)
    except error as raised:
        assert re.search(text, str(raised)), f"{text!r} is not in {raised}"
    else:
        raise AssertionError(f"not refused: {text}")
    same = [one is None or torch.equal(one, arg.detach()) for one, arg in zip(kept, args)]
    assert all(same), f"written although refused: {text}"
