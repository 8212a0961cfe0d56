"""What tests and users share: compare results, compare texts, measure times."""

from .compare import compare
from .golden import Golden
from .gpus import gpu_available

__all__ = ["Golden", "compare", "gpu_available"]
