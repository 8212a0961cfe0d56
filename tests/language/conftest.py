import pytest

from .harness import Kernel


@pytest.fixture
def kernel() -> Kernel:
    """A kernel for sm_90."""
    return Kernel()
