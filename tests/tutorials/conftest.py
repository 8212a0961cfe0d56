"""A tutorial as a module, for its test."""

import importlib.util
import sys
from pathlib import Path

import pytest

_TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.fixture(scope="module")
def tutorial(request):
    """The program in tutorials/ that has the test module's name: test_01_pipelined_gemm.py tests 01_pipelined_gemm.py."""
    name = Path(request.path).stem.removeprefix("test_")
    spec = importlib.util.spec_from_file_location(f"tutorial_{name}", _TUTORIALS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
