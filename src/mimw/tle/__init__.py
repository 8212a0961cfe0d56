"""TLE, as kernels import it: `import mimw.tle as tle`. All words of TLE are defined in `mimw.language.tle`.

Input: a name. Output: the word of that name, or an AttributeError that names a close one. For example:

    tle.cumsun          AttributeError: tle has no 'cumsun'. Did you mean tle.cumsum?
"""

from __future__ import annotations

import sys

from ..language.names import suggesting
from ..language.tle import *  # noqa: F403
from ..language.tle import __all__ as _words
from ..language.tle import dsa, gpu, raw

__all__ = [*_words, "jit"]


def jit(fn=None, **options):
    """`mimw.jit` under the name that TLE has for it."""
    from ..runtime.jit import jit as decorate
    return decorate(fn, **options)


# `from mimw.tle.raw import ir` and `from mimw.tle.raw.mlir import vprintf` import what `tle.raw` and its modules are.
for _name, _family in {"dsa": dsa, "gpu": gpu, "raw": raw, **{f"raw.{name}": one for name, one in raw.MODULES.items()}}.items():
    sys.modules[f"{__name__}.{_name}"] = _family

__getattr__ = suggesting("tle", __all__)
