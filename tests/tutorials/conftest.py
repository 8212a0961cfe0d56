"""A tutorial as a module, for its test; also with one edit, for what the tutorial says of wrong programs."""

import importlib.util
import sys
from pathlib import Path

import pytest

_TUTORIALS = Path(__file__).parents[2] / "tutorials"


@pytest.fixture(scope="module")
def tutorial(request):
    """The program that has the test module's name: test_01_pipelined_gemm.py tests 01_pipelined_gemm.py."""
    return _loaded(_source(request))


@pytest.fixture
def edited(request, tmp_path):
    """`edited(old, new, ...)` is the tutorial with each `old`, which must occur once in it, replaced by its `new`."""

    def edit(*texts: str):
        program = _source(request).read_text()
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            assert program.count(old) == 1, f"{old!r} occurs {program.count(old)} times"
            program = program.replace(old, new)
        path = tmp_path / _source(request).name
        path.write_text(program)
        return _loaded(path, "edited_")     # benchmarks and their tests find the tutorial itself under its own name

    return edit


def _source(request) -> Path:
    return _TUTORIALS / f"{Path(request.path).stem.removeprefix('test_')}.py"


def _loaded(path: Path, how: str = ""):
    spec = importlib.util.spec_from_file_location(f"{how}tutorial_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
