"""The backend that fla's registry knows: for each function of fla an entry, with what computes it and what it refuses.

Input: entries. Output: a backend in each registry that has such functions. For example:

    register()                                                          all of ENTRIES
    register([Entry("gla", "fla.ops.gla.chunk:chunk_gla_fwd_o_gk", run, refused)])     one function of the operation "gla"

Of fla this file alone uses something: `fla.backends`, its `register` and `BaseBackend` (fla-core 0.6).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

from mimw.errors import MimwError

try:
    from fla.backends import BaseBackend
    from fla.backends import register as fla_register
except ImportError as error:
    raise ImportError("mimw.integrations.fla needs fla-core 0.6 or newer, whose fla.backends lets others compute: "
                      "pip install 'flash-linear-attention>=0.6'") from error

_LOG = logging.getLogger("mimw.integrations")


class UnsupportedFla(MimwError, RuntimeError):
    """The installed fla lacks a function that an entry names."""


@dataclass(frozen=True)
class Entry:
    """One function of fla.

    args:      operation  the name of its registry, "attn", if fla has one for several functions together; "" if it has its own
               function   "fla.ops.attn.parallel:parallel_attn_fwd"
               run        takes its arguments by their names, and returns what it returns
               refused    takes them, too, and says why mimw does not compute such a call; None if it does
    """

    operation: str
    function: str
    run: Callable
    refused: Callable[..., str | None]

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.function.rpartition(":")[2]


class MimwBackend(BaseBackend):
    """A backend of fla for some functions, before its own others of equal rank."""

    backend_type = "mimw"
    package_name = "mimw"
    env_var = "FLA_MIMW"
    priority = 4

    def __init__(self, entries: Iterable[Entry] = ()):
        super().__init__()
        self.entries = {entry.name: entry for entry in entries}

    def get_implementation(self, function_name: str) -> Callable | None:
        entry = self.entries.get(function_name)
        return entry and entry.run

    def verify(self, function_name: str, *args, **kwargs) -> tuple[bool, str | None]:
        """(True, None), or (False, the reason), which fla logs once."""
        entry = self.entries.get(function_name)
        if entry is None:
            return False, f"mimw has no kernel for {function_name}"
        try:
            reason = entry.refused(*args, **kwargs)
        except TypeError as error:      # parameters of another version of fla
            reason = str(error)
        return reason is None, reason


def register(entries: Iterable[Entry] | None = None) -> list[str]:
    """Register mimw for the functions of `entries`, by default all that it has; again is the same.

    returns:   the functions' names; none where FLA_DISABLE_BACKEND_DISPATCH=1 keeps fla from asking anybody
    errors:    UnsupportedFla if the installed fla has no such function
    """
    from .entries import ENTRIES

    if os.environ.get("FLA_DISABLE_BACKEND_DISPATCH") == "1":
        _LOG.warning("FLA_DISABLE_BACKEND_DISPATCH=1: fla asks no backend, so mimw computes nothing for it")
        return []
    entries = list(ENTRIES if entries is None else entries)
    together: dict[str, list[Entry]] = {}
    for entry in entries:
        function = _function(entry)
        if entry.operation:
            together.setdefault(entry.operation, []).append(entry)
        else:
            _put(function, [entry], entry.function)
    for operation, of in together.items():
        _put(operation, of, operation)
    return [entry.name for entry in entries]


def _function(entry: Entry) -> Callable:
    module, _, name = entry.function.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnsupportedFla(f"fla-core {version('fla-core')} has no {entry.function}",
                             hint="this mimw was written for fla-core 0.6.0: pip install 'fla-core==0.6.0'") from error


def _put(place: Callable | str, entries: list[Entry], what: str) -> None:
    """Give a registry of fla our backend for these entries. Its `register` takes a class, and makes one of it."""
    try:
        fla_register(place)(type("MimwBackend", (MimwBackend, ), {"__init__": lambda self: MimwBackend.__init__(self, entries)}))
    except KeyError as error:
        raise UnsupportedFla(f"fla-core {version('fla-core')} asks no backend for {what}",
                             hint="this mimw was written for fla-core 0.6.0: pip install 'fla-core==0.6.0'") from error


__all__ = ["Entry", "MimwBackend", "UnsupportedFla", "register"]
