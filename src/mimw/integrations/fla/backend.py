"""The backend in fla's registries: for each function of fla one that computes it, and a verifier that gives reasons against a call.

Input: entries. Output: a backend in each registry that has such functions. For example:

    register()                                                          all of ENTRIES
    register([Entry("fla.ops.gla.chunk:chunk_gla_fwd_o_gk", run, refused, "gla")])     one function of the operation "gla"

Of fla only this file uses something: `fla.backends`, its `register`, `dispatch` and `BaseBackend` (fla-core 0.6.0).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from mimw.errors import MimwError

from .entries import ENTRIES, Entry

_LOG = logging.getLogger("mimw.integrations")
_READ = "this mimw was written for fla-core 0.6.0: pip install 'fla-core==0.6.0'"


class UnsupportedFla(MimwError, RuntimeError):
    """The installed fla lacks a function that an entry names, or asks no backend for it."""


def register(entries: Iterable[Entry] = ENTRIES) -> list[str]:
    """Register mimw for the functions of `entries`; once more replaces the backends of the first time.

    returns:   the functions' names; none where FLA_DISABLE_BACKEND_DISPATCH=1 keeps fla from asking any backend
    errors:    ImportError without fla; UnsupportedFla if the installed fla has no such function or does not dispatch it, and on a
               machine without a GPU if mimw was imported ahead of fla
    """
    try:
        from fla import backends
    except ImportError as error:
        raise ImportError("mimw.integrations.fla needs fla-core 0.6, which asks registered backends first: "
                          "pip install 'fla-core==0.6.0'") from error
    except (AssertionError, RuntimeError) as error:     # fla asks Triton for a GPU, mimw answers, and then torch has none
        raise UnsupportedFla("fla cannot be imported behind mimw on a machine without a GPU; import fla first") from error
    if os.environ.get("FLA_DISABLE_BACKEND_DISPATCH") == "1":
        _LOG.warning("FLA_DISABLE_BACKEND_DISPATCH=1: fla asks no backend, so mimw computes nothing for it")
        return []
    places: dict[Any, list[Entry]] = {}
    for entry in (entries := list(entries)):
        function = _function(entry)
        if entry.inner:
            function = _asking(entry, backends.dispatch)
        places.setdefault(entry.operation or function, []).append(entry)
    for place, of in places.items():
        try:
            backends.register(place)(_backend(backends.BaseBackend, of))
        except KeyError as error:
            raise UnsupportedFla(f"fla-core {version('fla-core')} asks no backend for {of[0].function}; {_READ}") from error
    return [entry.name for entry in entries]


def _function(entry: Entry) -> Callable:
    module, _, name = entry.function.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnsupportedFla(f"fla-core {version('fla-core')} has no {entry.function}; {_READ}") from error


def _asking(entry: Entry, dispatch: Callable) -> Callable:
    """The `apply` of an entry's autograd function, by which fla's function computes wherever it was imported. The first time a
    class takes its place, whose `apply` asks backends and falls back to the one that was there."""
    module = import_module(entry.function.partition(":")[0])
    theirs = getattr(module, entry.inner, None)
    if theirs is None:
        raise UnsupportedFla(f"fla-core {version('fla-core')} has no {entry.inner} in {module.__name__}; {_READ}")
    if not hasattr(theirs, "theirs"):
        def apply(*args: Any) -> Any:
            return theirs.apply(*args)

        apply.__name__, apply.__module__ = entry.name, module.__name__
        setattr(module, entry.inner, type(entry.inner, (), {"apply": staticmethod(dispatch(apply)), "theirs": theirs}))
    return getattr(module, entry.inner).apply


def _backend(base: type, entries: list[Entry]) -> type:
    """A class of fla's for these entries. fla looks for methods of the functions' names, and for verifiers `NAME_verifier`, whose
    exceptions are reasons, too. A lower `priority` is asked earlier: fla's tilelang and Gluon have 5."""
    methods = {entry.name: staticmethod(entry.run) for entry in entries}
    verifiers = {f"{entry.name}_verifier": staticmethod(_verifier(entry.refused)) for entry in entries}
    facts = {"backend_type": "mimw", "package_name": "mimw", "env_var": "FLA_MIMW", "priority": 4}
    return type("MimwBackend", (base, ), {"__doc__": "Functions of fla by mimw.ops.", **facts, **methods, **verifiers})


def _verifier(refused: Callable[..., str | None]) -> Callable[..., tuple[bool, str | None]]:

    def verifier(*args: Any, **named: Any) -> tuple[bool, str | None]:
        reason = refused(*args, **named)
        return reason is None, reason

    return verifier


__all__ = ["UnsupportedFla", "register"]
