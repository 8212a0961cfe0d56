"""The library is a package of its own, mimw-kernels, whose files lie in the folder of this one.

Input: `import mimw.ops`, where mimw-kernels is not installed. Output: LibraryMissing, an ImportError that names the command:

    from mimw import ops        mimw.ops is of the package mimw-kernels, which is not installed: pip install 'mimw[kernels]==0.2.0'

A checkout has everything, and so has whoever installed both: then nobody loads this file but docs/support/package.py, which divides
the tree by it.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader

from ..errors import LibraryMissing

DISTRIBUTION = "mimw-kernels"
_PACKAGE = __name__.partition(".")[0]
MODULES = ("integrations", "kernels", "nn", "ops", "score_mods", "tuning")


class Absent(MetaPathFinder, Loader):
    """The last finder that Python asks: it finds what no folder has, and refuses to load it."""

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        return spec_from_loader(name, self) if package == _PACKAGE and module in MODULES else None

    def exec_module(self, module) -> None:
        version = sys.modules[_PACKAGE].__version__
        raise LibraryMissing(f"{module.__name__} is of the package {DISTRIBUTION}, which is not installed: "
                             f"pip install 'mimw[kernels]=={version}'")


def refuse_by_name() -> None:
    """Let imports of the library say what is missing, in this process. Idempotent."""
    if not any(isinstance(finder, Absent) for finder in sys.meta_path):
        sys.meta_path.append(Absent())
