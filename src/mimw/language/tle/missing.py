"""Words of TLE that this release does not offer: each can be imported, and names itself when it is used."""

from __future__ import annotations

import triton.language.core as tl

from ...errors import NotYet
from ...ir import UNKNOWN


def missing(name: str):
    """A callable, in kernels and outside, that raises `NotYet` for `name`."""

    def refuse(*args, _semantic=None, _generator=None, **kwargs):
        raise NotYet(f"not yet: {name} is not offered by this release", UNKNOWN if _semantic is None else _semantic.builder.site)

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Not offered by this release: using it raises `mimw.errors.NotYet`, which names {name}."
    setattr(refuse, tl.TRITON_BUILTIN, True)
    return refuse
