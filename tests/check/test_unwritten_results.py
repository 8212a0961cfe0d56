"""What is told of results that nobody expects: elements that no program wrote, or two; and the book of writers behind that."""

import numpy as np
import pytest

import mimw
from mimw.runtime.simulate import prepare
from mimw.simulator import Hooks, Writers, run
from tests.kernels.lines import line_of
from tests.kernels.results import adds, tiled, writes


def check(kernel, grid, args, meta, **options):
    return mimw.check(kernel, grid, *args, **{"seeds": 2, "jobs": 1, "rounds": False, **options}, **meta)


def test_elements_that_no_program_wrote_are_a_note():
    kernel, _, args, meta, _ = tiled()
    report = check(kernel, (2, ), args, meta)
    assert report.ok and report.unwritten == ("no program wrote 2048 of 4096 elements of 'y': y[0:64, 32:64]", )
    assert "\nresults not compared: no `expected=` was given\nnote: no program wrote 2048 of" in str(report)
    assert report.as_json()["unwritten"] == list(report.unwritten)
    assert check(*tiled()[:4]).unwritten == ()


@pytest.mark.parametrize("n, y, said", [
    (64, np.zeros(128, np.float32), ()),
    (60, np.zeros(128, np.float32), ("no program wrote 8 of 128 elements of 'y': some in y[60:128]", )),
    (60, np.zeros(128, np.float32).reshape(2, 64), ("no program wrote 8 of 128 elements of 'y': y[0:2, 60:64]", )),
    (64, np.zeros((128, 2), np.float32)[:, 0], ("no program wrote 64 of 128 elements of 'y': y[64:128]", )),
    (0, np.zeros(128, np.float32), ("no program wrote any of the 128 elements of 'y'", ))])
def test_where_nobody_wrote(n, y, said):
    assert check(writes, (2, ), (np.ones(64, np.float32), y, n), {"N": 64, "SAME": False}).unwritten == said


@pytest.mark.parametrize("atomic", [False, True])
def test_what_held_something_before_need_not_be_written(atomic):
    args = np.ones(64, np.float32), np.ones(128, np.float32)
    assert check(adds, (1, ), args, {"N": 64, "ATOMIC": atomic}).unwritten == ()


@pytest.mark.parametrize("same", [False, True])
def test_elements_that_two_programs_wrote_are_a_race(same):
    """Also where both store the same number."""
    report = check(writes, (2, ), (np.ones(64, np.float32), np.zeros(128, np.float32), 64), {"N": 64, "SAME": same})
    assert report.ok == (not same)
    if same:
        (finding, ) = report.findings
        assert finding.kind == "DataRace" and "store to a place of its own" in finding.hint and "tl.program_id" in finding.hint
        assert finding.sites[0].line == line_of(writes, "# written")


def test_a_check_that_expects_nothing_keeps_one_book(monkeypatch):
    books = []
    monkeypatch.setattr("mimw.tools.search.results.Writers", lambda: books.append(Writers()) or books[-1])
    check(*tiled()[:4], seeds=4)
    assert len(books) == 1


def test_the_last_writer_of_each_element():
    x, y = np.ones(64, np.float32), np.zeros(192, np.float32)
    launch = prepare(writes, (3, ), (x, y, 64), {"N": 64, "SAME": False})
    writers = Writers()
    run(launch.program, launch.grid, launch.values, hooks=Hooks(writers=writers))
    assert [writers.at(y.ctypes.data + 4 * place).cta for place in (0, 63, 64, 191)] == [(0, 0, 0)] * 2 + [(1, 0, 0), (2, 0, 0)]
    assert writers.at(x.ctypes.data) is None
    assert (writers.numbers(y.ctypes.data, (96, ), (8, ), 8) > 0).all()     # in pairs
