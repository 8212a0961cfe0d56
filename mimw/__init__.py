"""mimw: warp-group orchestration for stock Triton. The public names, one per line."""

from .cli.aliases import install_aliases

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "install_aliases",
]
