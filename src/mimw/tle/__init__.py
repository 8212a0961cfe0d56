"""TLE, as kernels import it: `import mimw.tle as tle`. All of it is defined in `mimw.language.tle`."""

from ..language.names import suggesting
from ..language.tle import *  # noqa: F403
from ..language.tle import __all__ as __all__

__getattr__ = suggesting("tle", __all__)
