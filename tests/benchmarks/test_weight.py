"""The figures of `python -m benchmarks.weight`: what each counts, and that none grows above its limit."""

import pytest

from benchmarks.weight import __main__ as command
from benchmarks.weight import imports
from benchmarks.weight.clones import clone_pairs
from benchmarks.weight.docstrings import clauses
from benchmarks.weight.figures import FIGURES, Figure, reads_by_number
from benchmarks.weight.sources import files, functions, struct_lines


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
def test_no_figure_grows(figure):
    """What has to grow for a reason raises its limit in figures.py, in the commit that says why."""
    assert figure.value() <= figure.limit, f"python -m benchmarks.weight --list {figure.name}"


def package(folder, **sources: str):
    """Files of a package `mimw`: a__b is a/b.py."""
    root = folder / "mimw"
    for name, text in sources.items():
        path = root / f"{name.replace('___', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_lines_parameters_and_reads(tmp_path):
    kernel = '''"""Page."""
import mimw

# a comment
@mimw.jit(do_not_specialize=["n"])
def kernel(shape, n, *, wide):
    """One."""
    return shape[5] + n.shape[7] + tile[3] + shape[n]

def arguments(shape):
    """What is
    given."""
    raise ValueError(shape[0],
                     shape)

@tle.struct
class Tiles:
    """Sizes."""
    BM: tl.constexpr
'''
    (file, ) = files(package=package(tmp_path, kernel=kernel))
    one, other = functions([file])
    assert (one.is_jit, one.parameters, other.is_jit) == (True, ("shape", "n", "wide"), False)
    assert sorted(file.code_lines() - one.lines()) == [2, 10, 13, 14, 16, 17, 19]
    assert struct_lines(file) == {16, 17, 18, 19}
    nouns = "class Steps(NamedTuple):\n    row: Any\n\nclass Other(Base):\n    pass\n"
    assert [struct_lines(one) for one in files(package=package(tmp_path / "more", nouns=nouns, kernel=nouns))] == [set(), {1, 2}]
    assert [number for number, _ in reads_by_number(one)] == [5]
    assert clauses([file]) == [f"{file.path}:10 arguments: What is"]


BODY = """
    a = load(x, mask=m)
    for i in range(3):
        a = a * 2 + i
        store(y, a)
    return a.sum
"""


@pytest.mark.parametrize("body, pairs", [
    (BODY, 1), (BODY.replace("x", "given"), 1), (BODY.replace("store", "put"), 1),
    (BODY.replace("2", "3"), 0), (BODY.replace("mask", "other"), 0), (BODY.replace(".sum", ".max"), 0),
    (BODY.replace("        store(y, a)\n", ""), 0), (f"{BODY}\n    return 1", 1)])
def test_clones(tmp_path, body, pairs):
    sources = files(package=package(tmp_path, one=f"def one(x, y, m):{BODY}", other=f"def other(y, m, x):\n    '''More.'''{body}"))
    assert len(clone_pairs(functions(sources))) == pairs


def test_arrows_floors_and_circles(tmp_path):
    root = package(
        tmp_path, __init__="from .top import thing", errors="", top___a="from ..middle.b import c\nimport mimw",
        top____main="", middle___b="def f():\n    from ..errors import E\n    from . import c", middle___c="from .b import f")
    (root / "middle" / "__init__.py").touch()
    (root / "top" / "__init__.py").touch()
    graph = imports.imports(root)
    assert graph["mimw.middle.b"] == {"mimw.errors", "mimw.middle.c"} and graph["mimw.top.a"] == {"mimw.middle.b", "mimw"}
    rooms = imports.rooms(graph)
    assert rooms == {"__init__": {"top"}, "errors": set(), "top": {"middle"}, "middle": {"errors"}}
    assert imports.heights(rooms) == {"errors": 1, "middle": 2, "top": 3, "__init__": 4}
    assert imports.circles(imports.inside(graph, "middle")) == [("mimw.middle.b", "mimw.middle.c")]
    assert imports.arrows_up(rooms) == []


def test_an_arrow_up():
    """Of a circle, the one of the room that fewest of its imports keep from the ground."""
    rooms = {"a": {"b", "c"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}
    assert imports.circles(rooms) == [("a", "b", "c")]
    assert imports.arrows_up(rooms) == [("c", "a")]
    assert imports.heights(rooms) == {"d": 1, "c": 2, "b": 3, "a": 4, "e": 5}


def test_the_command(capsys, monkeypatch):
    assert command.main(["--list", "batched"]) == 0
    assert "src/mimw/kernels/batched_gemm/kernel.py:1" in capsys.readouterr().out
    monkeypatch.setattr(command, "FIGURES", (Figure("some", "some things", 0, 1, lambda: ["a.py:1", "a.py:2"]), ))
    assert command.main(["--check"]) == 1
    assert "above its limit: some: some things: 2, the limit is 1" in capsys.readouterr().out
    assert command.main([]) == 0
    monkeypatch.setattr(command, "FIGURES", FIGURES[-1:])
    assert command.main(["--check"]) == 0
    assert FIGURES[-1].title in capsys.readouterr().out
