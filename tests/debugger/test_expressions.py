"""Expressions over the names of a kernel: tiles, buffers, barriers, structs, helpers, arguments; and what has no value."""

import numpy as np
import pytest

from mimw.errors import SimulatorMisuse
from mimw.tools.debugger.values import statistics, text
from tests.kernels import debugged
from tests.kernels.lines import line_of

HELPER = line_of(debugged.doubled, "return scaled")
SCALED = line_of(debugged.doubled, "scaled = tile * factor")
LOAD = line_of(debugged.row_sums, "tile = tlx.local_load(ring[slot])")


@pytest.fixture(scope="module")
def session():
    with debugged.session() as found:
        found.go()
        yield found


X = np.arange(7 * 64, dtype=np.float32).reshape(7, 64)


@pytest.mark.parametrize("expression, expected", [
    ("row", 3), ("slot + phase", 2), ("row == STOP", True), ("N", 64), ("MISTAKE", ""), ("rows", 7), ("sums.count", 3),
    ("ring[1].max()", X[3].max()), ("full[1].phase", 2), ("[one.arrived for one in free]", [0, 0]), ("x.shape", (7, 64)),
    ("y.any()", False), ("np.abs(x).sum()", X.sum()), ("sums.total.shape", (1, 64)), ("len(full)", 2),
    ("np.array_equal(sums.total[0], 2 * x[:3].sum(0))", True)])
def test_values(session, expression, expected):
    assert session[expression] == expected


def test_names_of_a_helper_are_its_own():
    with debugged.session(-1) as session:
        session.until(f"{SCALED} if factor == 2.0")
        assert session.note == "" and "called from: debugged.py" in session.here()
        assert session["tile"].shape == (1, 64) and "scaled" not in session.names.of(session.places()[0])
        assert session.actor[1] == "add" and session["tile.max() * factor"] == 126


def test_what_nobody_has_written_is_masked():
    with debugged.session(-1) as session:
        session.until("wait add")
        ring = session["ring"]
        assert np.ma.is_masked(ring) and np.ma.count_masked(ring[1]) == 64
        assert "not written" in text(ring) and "--" in text(ring)


def test_the_name_of_another_task_says_so():
    with debugged.session(-1) as session:
        session.until(str(LOAD + 2))
        assert session.value("row") == (0, [])
        session.choose("load")
        value, others = session.value("tile")
        assert others == ["tile of task 'add'"] and value.shape == (1, 64) and session.value("sums.count")[0] == 0


@pytest.mark.parametrize("expression, mend", [("rwo", "did you mean 'row'"), ("quite_another", "there are ")])
def test_a_name_without_a_value(session, expression, mend):
    with pytest.raises(SimulatorMisuse, match=f"'{expression}' has no value here") as caught:
        session[expression]
    assert mend in caught.value.hint


def test_a_field_that_a_struct_has_not(session):
    with pytest.raises(AttributeError, match="sums has no field 'sum' here; there are count, total"):
        session["sums.sum"]
    assert repr(session["sums"]) == "sums with the fields count, total"


def test_variables_are_a_line_each(session):
    rows = dict(line.split(None, 1) for line in session.variables().splitlines())
    assert rows["row"] == "3" and rows["full"].startswith("barriers in phase") and "min" in rows["sums.total"]
    assert not any(name.startswith("x_") or name.startswith("x.") for name in rows)


@pytest.mark.parametrize("array, told", [
    (np.arange(4, dtype=np.int32), "int32[4]: min 0, max 3, mean 1.5"),
    (np.array([1, np.nan, np.inf], np.float32), "float32[3]: min 1, max 1, mean 1; 1 NaN, 1 infinite"),
    (np.array([True, False]), "bool[2]: 1 of 2 true"), (np.zeros(0), "float64[0]"),
    (np.ma.masked_array([1.0, 2.0], [True, False]), "float64[2]: min 2, max 2, mean 2; 1 of 2 not written")])
def test_statistics(array, told):
    assert statistics(array) == told
