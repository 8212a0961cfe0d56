"""The rule: what is written must not be a parameter, must be one element in each place, and is counted up.

Input: an operator's schema, and a call's arguments. Output: a refusal that names the argument, or nothing:

    rule = InPlace("mimw::rope_", "rope_(Tensor(a!) x, Tensor cos) -> ()")
    found = rule.around(run)(x, cos)        refused, or run and noted
    refuse_leaves("rope", x=x)              the part for functions that have a derivative of their own, before they detach x

It is torch's own (`check_inplace` of autograd, `assert_no_overlap` of its kernels): a leaf that requires grad is what the
optimizer changes, so neither it nor a view of it is written while gradients are recorded; elements that share memory would be
written by several programs in no order; a version that is counted up tells autograd that a saved tensor is no longer what it was.
torch goes by strides of 0 and by ranges; here overlaps are told to the element (`overlap.py`), as our kernels read while they
write, and as queries and keys of one packed tensor lie between each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from .overlap import overlap, overlaps_itself, span

_grad_enabled, _increment = torch.is_grad_enabled, torch.autograd.graph.increment_version
_views = torch._C._autograd
_plain_view = getattr(getattr(_views, "CreationMeta", None), "DEFAULT", None)


class InPlace:
    """The rule for one operator that writes into its arguments.

    args:      name      of the operator, as it is told
               schema    torch's, whose tensors come first or among numbers; those marked "!" are written. torch leaves out the last
                         arguments of a call that have their default
               overlaps  whether elements that share memory are refused, and read tensors that require grad. False for a kernel of
                         somebody else's, who alone knows which elements it touches
    """

    def __init__(self, name: str, schema: str, overlaps: bool = True):
        self.name, self.overlaps = name, overlaps
        kinds = [one.split() for one in schema[schema.index("(") + 1:schema.rindex("->")].rpartition(")")[0].split(",")]
        tensors = [(at, kind, names[0].partition("=")[0]) for at, (kind, *names) in enumerate(kinds) if kind.startswith("Tensor")]
        self._names = {at: name for at, _, name in tensors}
        self.written = tuple(at for at, kind, _ in tensors if "!" in kind)
        self._read = tuple(at for at, kind, _ in tensors if "!" not in kind)
        self._tensors = self.written + self._read * overlaps

    def refuse(self, args: tuple) -> None:
        """Nothing, if all is well.

        errors:    RuntimeError for a leaf that requires grad or a view of one, and for elements that share memory;
                   NotImplementedError for any other tensor that requires grad: what writes in place has no derivative
        """
        graded, places = _grad_enabled(), []        # written out: it runs at each call, and each look at a tensor takes 50 ns
        for at in self._tensors:
            if at >= len(args) or (x := args[at]) is None:
                continue
            if graded and x.requires_grad:
                self._no_derivative(args)
            begin = x.data_ptr()
            if x.is_contiguous():
                places.append((begin, begin + x.nbytes, at))
                continue
            elements, twice = _laid_out(x.shape, x.stride())
            if twice and self.overlaps and at in self.written:
                raise _within(self.name, self._names[at], x)
            places.append((begin, begin + elements * x.itemsize, at))
        if self.overlaps:
            for number in range(len(self.written)):
                begin, end, at = places[number]
                for first, last, other in places[number + 1:]:
                    if first < end and begin < last and _share(args[at], args[other]):
                        raise _shared(self.name, self._names[at], self._names[other])

    def note(self, args: tuple) -> None:
        """The written tensors' versions, counted up."""
        _increment([args[at] for at in self.written])

    def around(self, run: Callable) -> Callable:
        """`run` with the rule before and the note behind it."""
        def ruled(*args):
            self.refuse(args)
            found = run(*args)
            self.note(args)
            return found

        ruled.__module__ = run.__module__       # who asks an operator's function where it stands is told the operator's file
        return ruled

    def around_fake(self, fake: Callable) -> Callable:
        """`fake` with what can be told of tensors without memory: torch.compile would hand copies to `run`, which share nothing."""
        def ruled(*args):
            if self.overlaps:
                _refuse_seen(self.name, {self._names[at]: args[at] for at in self.written},
                             {self._names[at]: args[at] for at in self._read if at < len(args)})
            return fake(*args)

        return ruled

    def _no_derivative(self, args: tuple) -> None:
        refuse_leaves(self.name, **{self._names[at]: args[at] for at in self.written})
        raise NotImplementedError(f"{self.name} has no derivative: call it under torch.no_grad(), or on tensors that require none")


def refuse_leaves(call: str, **written: Tensor) -> None:
    """RuntimeError, while gradients are recorded, for a tensor that requires grad and is a leaf or a view of one. Under
    torch.compile leaves alone are told here; views torch tells itself.

    args:      call     the function, as it is told
               written  name -> tensor
    """
    if not _grad_enabled():
        return
    for name, x in written.items():
        if not x.requires_grad:
            continue
        if x.is_leaf:
            raise _leaf(call, name, "a leaf")
        if torch.compiler.is_compiling() or not x._is_view():
            continue
        if x._base.is_leaf and x._base.requires_grad:
            raise _leaf(call, name, "a view of a leaf")


def refuse_views_of_several(call: str, **written: Tensor) -> None:
    """RuntimeError for what torch refuses when the change of a view is noted, which is too late: views made by one call of several
    (`unbind`, `split`), by an autograd function, or under torch.no_grad()."""
    for name, x in written.items():
        if x.requires_grad and not torch.compiler.is_compiling() and x._is_view():
            made = _views._get_creation_meta(x)
            if made != _plain_view:
                raise RuntimeError(f"{call}: {name} requires grad, and is one of several views that one call gave (unbind, split, "
                                   "chunk), or a view made by an autograd function or under torch.no_grad(): autograd cannot note "
                                   f"its change. Take views one by one, {name} = x[..., a:b], or leave out in place")


def refuse_overlaps(call: str, written: dict[str, Tensor], read: dict[str, Tensor | None] | None = None) -> None:
    """RuntimeError where two elements of a written tensor share memory, or one of it with one of another tensor. Under
    torch.compile as far as it can be told of tensors without memory.

    args:      call     the function, as it is told
               written, read     name -> tensor, or None
    """
    if torch.compiler.is_compiling():
        return _refuse_seen(call, written, read or {})
    others = [(name, x) for name, x in {**written, **(read or {})}.items() if x is not None]
    for name, x in written.items():
        if overlaps_itself(x.shape, x.stride()):
            raise _within(call, name, x)
        for other, y in others:
            if other != name and _share(x, y):
                raise _shared(call, name, other)


@lru_cache(4096)
def _laid_out(extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, bool]:
    """Of tensors with these: the elements between the first and the last, and whether two share memory."""
    return span(extents, strides), overlaps_itself(extents, strides)


def _share(x: Tensor, y: Tensor) -> bool:
    """True if an element of x and one of y share a byte."""
    return overlap(y.data_ptr() - x.data_ptr(), x.shape, x.stride(), x.itemsize, y.shape, y.stride(), y.itemsize)


def _refuse_seen(call: str, written: dict[str, Tensor], read: dict[str, Tensor | None]) -> None:
    """Expanded tensors, and one given twice: what is seen of tensors without memory, whose extents may be symbols."""
    for name, x in written.items():
        for extent, stride in zip(x.shape, x.stride()):
            if type(stride) is int and stride == 0 and not (type(extent) is int and extent < 2):
                raise _within(call, name, x)
        for other, y in {**written, **read}.items():
            if other != name and y is x:
                raise _shared(call, name, other)


def _leaf(call: str, name: str, what: str) -> RuntimeError:
    return RuntimeError(f"{call}: {name} is {what} that requires grad, and cannot be written in place: its values are what the "
                        f"optimizer changes. Give {name}.clone(), or leave out in place")


def _within(call: str, name: str, x: Tensor) -> RuntimeError:
    return RuntimeError(f"{call}: elements of {name}, {tuple(x.shape)} with strides {tuple(x.stride())}, share memory, as those of "
                        f"an expanded tensor do, and each would be written. Give {name}.clone()")


def _shared(call: str, name: str, other: str) -> RuntimeError:
    return RuntimeError(f"{call}: {name} and {other} share memory, and {name} is written while {other} is used. Give a clone() of "
                        "one")


__all__ = ["InPlace", "refuse_leaves", "refuse_overlaps", "refuse_views_of_several"]
