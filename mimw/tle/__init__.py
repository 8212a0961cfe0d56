"""TLE, as kernels import it: `import mimw.tle as tle`. All of it is defined in `mimw.language.tle`."""

from ..language.tle import *  # noqa: F403
from ..language.tle import __all__ as __all__
