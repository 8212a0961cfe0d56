"""Inputs of a kernel's recording, kept with the kernel and read anew as soon as one of them has changed.

    seen_by(kernel, {(2, ): helper})        `frontend.seen.Seen`: a digest, what has no digest, and whether all is as it was
    launch_key(kernel)                      what a launch asks in nanoseconds; None for a kernel of which nothing can change
    key_of_values(values)                   the same of functions that are given as arguments
    content_key(kernel)                     for notes about a kernel that are kept on disk

Input: a JIT function and its compile-time arguments. Output: parts of keys. They say when to record again; what a binary is kept
under is what was recorded (`compile.source`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import GlobalChanged
from ..frontend.seen import Seen, look
from ..triton_port.runtime import keep_defaults


class Rebind(Exception):
    """A launch has to bind its arguments again."""


_KEPT = 64      # of a kernel: how many sets of functions among its arguments
_NUMBERS = (type(None), bool, int, float, str)


def seen_by(fn, constants: dict | None = None) -> Seen:
    """The current inputs of recording `fn` for these compile-time arguments."""
    roots = (fn, *_followed((constants or {}).values()))
    kept = fn.__dict__.setdefault("_mimw_seen", {})
    key = tuple(map(id, roots))
    found = kept.get(key)
    if found is None or not _is_current(found[1]):
        if len(kept) >= _KEPT:
            kept.clear()
        found = kept[key] = roots, look(list(roots))     # with the roots, whose numbers would else be those of other things
        for function in found[1].functions:
            keep_defaults(function)
    return found[1]


def launch_key(fn) -> Callable[[], str] | None:
    """A function that gives "" as long as all that recording `fn` looks at is as it is now, and another text for any other state.
    It raises `Rebind` where the kernel's own defaults were changed: the launch has bound its arguments with the old ones."""
    def now() -> Seen:
        signature, found = fn.signature, seen_by(fn)
        if fn.signature is not signature:
            raise Rebind
        return found

    seen_by(fn)
    return _asked(now)


def key_of_values(values: Iterable[Any]) -> tuple[str, Callable[[], str] | None]:
    """(a text that differs for functions among `values` that read different things, and a `launch_key` if that can change)."""
    followed = _followed(values)
    if not followed:
        return "", None
    state = [look(followed)]

    def now() -> Seen:
        if not _is_current(state[0]):
            state[0] = look(followed)
        return state[0]

    return state[0].digest, _asked(now)


def content_key(fn) -> str:
    """A digest of the inputs of recording `fn`, kernels of this package by their content, too: for files that are kept from
    release to release."""
    seen = look([fn], own_kernels=True)
    return hashlib.sha256(f"{seen.digest}{seen.native_key()}".encode()).hexdigest()


def check_seen(fn, before: Seen, constants: dict) -> None:
    """Raise GlobalChanged if a value that a kernel read when it was compiled is another one now."""
    if changed := before.changed(seen_by(fn, constants)):
        raise GlobalChanged(f"{fn.__name__} was compiled with {changed}",
                            hint="compile, freeze or launch it again; pass a value that changes often as `NAME: tl.constexpr`")


def _asked(seen: Callable[[], Seen]) -> Callable[[], str] | None:
    found = seen()
    still, first, text = found.still, found.digest, ""
    if found.natives:
        return lambda: f"{'' if (now := seen()).digest == first else now.digest}{now.native_key()}"
    if still is None:
        return None

    def key() -> str:
        nonlocal still, text
        if not still():
            found = seen()
            still, text = found.still or _always, "" if found.digest == first else found.digest
        return text

    return key


def _always() -> bool:
    return True


def _is_current(seen: Seen) -> bool:
    return seen.still is None or seen.still()


def _followed(values: Iterable[Any]) -> list[Any]:
    """The compile-time arguments that are more than a number or a text, which every key holds by itself."""
    found = []
    for value in values:
        inner = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        if isinstance(inner, (tuple, list)):
            found += _followed(inner)
        elif not isinstance(inner, _NUMBERS):
            found.append(inner)
    return found
