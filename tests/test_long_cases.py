"""Cases that are marked `long` are left out on a GPU, those that are so `everywhere` without one, too; a pattern that no case has
is an error."""

from types import SimpleNamespace

import pytest

from tests import long_cases


class Item:
    """A collected test, with a mark `long` unless `but` is None."""

    def __init__(self, name: str, gpu: bool = True, but: list | None = None, path: str = "tests/test_a.py",
                 everywhere: bool | list = False, shown_by: str = ""):
        self.path = path
        self.nodeid, self.marks = f"{path}::{name}", {"gpu": gpu, "long": but is not None or bool(everywhere or shown_by)}
        self.kwargs = ({"but": but} if but else {}) | ({"everywhere": everywhere} if everywhere else {})
        self.kwargs |= {"shown_by": shown_by} if shown_by else {}
        if "[" in name:
            self.callspec = SimpleNamespace(id=name.partition("[")[2][:-1])

    def get_closest_marker(self, name):
        return SimpleNamespace(kwargs=self.kwargs) if self.marks[name] else None


ITEMS = [Item("test_x[simulator-a-1]", gpu=False, but=["b-*"]), Item("test_x[gpu-a-1]", but=["b-*"]),
         Item("test_x[gpu-b-1]", but=["b-*"]), Item("test_y", but=[]), Item("test_z")]


def collected(monkeypatch, items, gpu=True, long=False, args=("tests", )):
    """The names that are left, and how many the hook of pytest was told of."""
    monkeypatch.setattr(long_cases, "gpu_available", lambda: gpu)
    left, gone = list(items), []
    config = SimpleNamespace(args=list(args), stash={}, getoption=lambda name: long,
                             hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)))
    long_cases.pytest_collection_modifyitems(config, left)
    return [item.nodeid.partition("::")[2] for item in left], len(gone)


def test_on_a_gpu_the_long_ones_are_left_out(monkeypatch):
    assert collected(monkeypatch, ITEMS) == (["test_x[simulator-a-1]", "test_x[gpu-b-1]", "test_z"], 2)


@pytest.mark.parametrize("given", [dict(gpu=False), dict(long=True), dict(args=("tests/test_a.py::test_y", ))])
def test_elsewhere_and_asked_for_all_stay(monkeypatch, given):
    assert collected(monkeypatch, ITEMS, **given) == ([item.nodeid.partition("::")[2] for item in ITEMS], 0)


def test_modules_with_long_cases_come_first(monkeypatch):
    others = [Item("test_first", path="tests/test_b.py"), *ITEMS, Item("test_last", gpu=False, path="tests/test_b.py")]
    assert collected(monkeypatch, others)[0] == ["test_x[simulator-a-1]", "test_x[gpu-b-1]", "test_z", "test_first", "test_last"]
    assert collected(monkeypatch, others, gpu=False)[0][0] == "test_first"


def test_a_pattern_without_a_case_is_an_error(monkeypatch):
    with pytest.raises(pytest.UsageError, match=r"test_a.py::test_x: no case is called 'c-\*'"):
        collected(monkeypatch, [Item("test_x[gpu-a]", but=["a", "c-*"])], gpu=False)


def test_a_module_keeps_a_quick_one(monkeypatch):
    simulated, only = Item("test_x[simulator-a]", gpu=False, but=["b"]), Item("test_x[gpu-a]", but=["b"])
    monkeypatch.setattr(long_cases, "unknown", lambda items: [])
    with pytest.raises(pytest.UsageError, match="test_a.py: no test on a GPU is quick"):
        collected(monkeypatch, [simulated, only], gpu=False)
    assert collected(monkeypatch, [simulated, only, Item("test_y")], gpu=False)[1] == 0


OF_ANY = [Item("test_c[a]", gpu=False, but=["a"], everywhere=True), Item("test_c[b]", gpu=False, but=["a"], everywhere=True),
          Item("test_d[simulator-b]", gpu=False, but=["a", "c"], everywhere=True),
          Item("test_d[simulator-a]", gpu=False, but=["a", "c"], everywhere=True),
          Item("test_d[gpu-c]", but=["a", "c"], everywhere=True)]


def test_long_everywhere_is_left_out_without_a_gpu(monkeypatch):
    """What needs a GPU is left out elsewhere (tests/conftest.py)."""
    assert collected(monkeypatch, OF_ANY, gpu=False) == (["test_c[a]", "test_d[simulator-a]", "test_d[gpu-c]"], 2)
    assert collected(monkeypatch, OF_ANY) == (["test_c[a]", "test_d[simulator-a]", "test_d[gpu-c]"], 2)
    assert collected(monkeypatch, OF_ANY, gpu=False, long=True)[1] == 0


def test_a_test_keeps_a_quick_case(monkeypatch):
    monkeypatch.setattr(long_cases, "unknown", lambda items: [])
    with pytest.raises(pytest.UsageError, match="test_a.py::test_c: no case is quick"):
        collected(monkeypatch, OF_ANY[1:], gpu=False)


def test_other_cases_may_be_quick_where_no_gpu_is(monkeypatch):
    """A list of those says nothing of a GPU."""
    both = [Item(f"test_e[{machine}-{case}]", gpu=machine == "gpu", but=but, everywhere=["a"])
            for machine in ("simulator", "gpu") for case in "ab" for but in (["b"], None)]
    left = [f"test_e[{name}]" for name in ("simulator-a", "simulator-a", "gpu-a", "gpu-b", "gpu-b")]
    assert collected(monkeypatch, both, gpu=True) == (left, 3)
    with pytest.raises(pytest.UsageError, match="no case is called 'c'"):
        collected(monkeypatch, [Item("test_e[a]", gpu=False, everywhere=["a", "c"])])


def test_another_test_may_be_the_quick_one(monkeypatch):
    """It is looked for where its module is collected; it must be quick."""
    long = Item("test_f[a]", gpu=False, shown_by="test_b.py::test_g")
    shown, other = Item("test_g[1]", gpu=False, path="tests/test_b.py"), Item("test_h", gpu=False, path="tests/test_b.py")
    on_a_gpu = Item("test_f[gpu-a]", but=["a"], shown_by="tests/test_b.py::test_g")
    assert collected(monkeypatch, [long, shown, other], gpu=False) == (["test_g[1]", "test_h"], 1)
    assert collected(monkeypatch, [long, on_a_gpu, shown]) == (["test_f[gpu-a]", "test_g[1]"], 1)
    assert collected(monkeypatch, [long], gpu=False) == ([], 1)
    with pytest.raises(pytest.UsageError, match="test_f: no case is quick, nor is tests/test_b.py::test_g, which is to show it"):
        collected(monkeypatch, [long, other], gpu=False)
    with pytest.raises(pytest.UsageError, match="nor is tests/test_a.py::test_i"):
        collected(monkeypatch, [Item("test_f[a]", gpu=False, shown_by="test_i")])
