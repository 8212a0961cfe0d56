"""Words of TLE that this release does not offer: each can be imported, and names itself when a kernel uses the word.

Input: the name of a word. Output: a callable that raises `NotYet` at the author's line. For example:

    call = missing("tle.call")      call(..) raises NotYet: not yet: tle.call is not offered by this release
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import NotYet
from ...ir import UNKNOWN


def missing(name: str):
    """A callable, in kernels and outside, that raises `NotYet` for `name`."""

    def not_offered(*args, _semantic=None, _generator=None, **kwargs):
        raise NotYet(f"not yet: {name} is not offered by this release", UNKNOWN if _semantic is None else _semantic.builder.site)

    not_offered.__name__ = not_offered.__qualname__ = name.rpartition(".")[2]
    not_offered.__doc__ = f"Not offered by this release: using it raises `mimw.errors.NotYet`, which names {name}."
    setattr(not_offered, tl.TRITON_BUILTIN, True)
    return not_offered
