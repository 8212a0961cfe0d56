"""TLE, as kernels import it: `import mimw.tle as tle`. All words of TLE are defined in `mimw.language.tle`.

Input: a name. Output: the word of that name, or an AttributeError that names a close one. For example:

    tle.cumsun          AttributeError: tle has no 'cumsun'. Did you mean tle.cumsum?
"""

from ..language.names import suggesting
from ..language.tle import *  # noqa: F403
from ..language.tle import __all__ as __all__

__getattr__ = suggesting("tle", __all__)
