"""A tutorial as a module, for its test; also with one edit, for what the tutorial says of wrong programs; and the picture of one
of its runs, which docs/gallery keeps."""

import importlib.util
import sys
from pathlib import Path

import pytest

import mimw
from docs.support import gallery
from docs.support.gallery_cases import CASES, drawing

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


@pytest.fixture
def kept(request):
    """`kept(path, text)` compares with a picture of docs/gallery, or writes it."""

    def compare(path: Path, text: str):
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.read_text() == text, f"{path.name} shows another run: python docs/support/gallery.py"

    return compare


@pytest.fixture(autouse=True)
def drawn(request, monkeypatch, kept):
    """The test that a picture of docs/gallery shows simulates with a trace, and the picture is compared; with --update-golden it is
    written."""
    number = _source(request).name[:2]
    case = CASES[number]
    if request.node.name != case.test:
        yield
        return
    runs, simulate = [], mimw.simulate
    monkeypatch.setattr(mimw, "simulate", lambda *args, **meta: runs.append(simulate(*args, **{"trace": True, **meta})) or runs[-1])
    yield
    kept(gallery.GALLERY / f"{number}.svg", drawing(number, runs, _source(request)))


@pytest.fixture(scope="module", autouse=True)
def a_test_is_drawn(request):
    """A test that gets another name must not leave its picture behind."""
    yield
    asked = request.config.option
    some = asked.keyword or asked.markexpr or asked.deselect or asked.lf or any("::" in one for one in request.config.args)
    if not some:
        case = CASES[_source(request).name[:2]]
        assert case.test in {item.name for item in request.session.items if item.path == request.path}, f"no test {case.test}"


def _source(request) -> Path:
    return _TUTORIALS / f"{Path(request.path).stem.removeprefix('test_')}.py"


def _loaded(path: Path, how: str = ""):
    spec = importlib.util.spec_from_file_location(f"{how}tutorial_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
