"""Names that a family of words does not have: the AttributeError proposes the name that the author may have meant.

Input: a family and the names of its words. Output: the `__getattr__` of the family's module. For example:

    __getattr__ = suggesting("tlx", __all__)     in the family's module
    tlx.local_alocc                              AttributeError: tlx has no 'local_alocc'. Did you mean tlx.local_alloc?
    tlx.load_local                               AttributeError: tlx has no 'load_local'. Did you mean tlx.local_load?
    tlx.pipe                                     AttributeError: tlx has no 'pipe', but there is tle.pipe
    tlx.TensorDescriptor                         AttributeError: ..: a kernel cannot call it. On the host it is mimw.Tensor...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

_FAMILIES: dict[str, tuple[str, ...]] = {}
_ON_THE_HOST = ("Config", "TensorDescriptor", "World", "autotune", "check", "compile", "explain", "jit", "predict", "profile",
                "simulate")


def suggesting(family: str, names: Iterable[str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: it is asked only for names that the module does not have."""
    _FAMILIES[family] = tuple(names)

    def __getattr__(name: str):
        if name.startswith("_"):        # no word is; tools that list a module ask for such names
            raise AttributeError(f"{family} has no {name!r}")
        raise AttributeError(no_such_name(family, name))

    return __getattr__


def no_such_name(family: str, name: str, names: Iterable[str] | None = None) -> str:
    """The message about a name that `family`, which has `names`, does not have."""
    elsewhere = [f"{other}.{name}" for other, words in _FAMILIES.items() if other != family and name in words]
    if elsewhere:
        return f"{family} has no {name!r}, but there is {' and '.join(elsewhere)}"
    if name in _ON_THE_HOST:
        return f"{family} has no {name!r}: a kernel cannot call it. On the host it is mimw.{name}"
    own = tuple(_FAMILIES.get(family, ()) if names is None else names)
    close = _same_parts(name, own) or get_close_matches(name, own, n=2, cutoff=0.65) or _same_parts(name, own, subset=True)
    if not close:
        every = [f"{other}.{word}" for other, words in _FAMILIES.items() for word in words]
        close = get_close_matches(f"{family}.{name}", every, n=2, cutoff=0.75)
        return f"{family} has no {name!r}" + (f". Did you mean {' or '.join(close)}?" if close else "")
    return f"{family} has no {name!r}. Did you mean {' or '.join(f'{family}.{one}' for one in close)}?"


def _same_parts(name: str, words: Iterable[str], subset: bool = False) -> list[str]:
    """The words made of the same parts in another order, as `local_load` for `load_local`; or of these and one or two more."""
    parts = sorted(name.split("_"))
    if subset:
        return [word for word in words if len(parts) > 1 and set(parts) < set(word.split("_"))][:2]
    return [word for word in words if sorted(word.split("_")) == parts]
