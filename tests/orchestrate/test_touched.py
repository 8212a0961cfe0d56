"""Plans whose machine code touches registers of a product under way are out, measured or predicted."""

from types import SimpleNamespace

import pytest

from mimw.tools.orchestrate import choose
from mimw.tools.orchestrate.choose import Candidate, finished
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.spent import Spent
from mimw.tools.orchestrate.touched import takes_registers
from mimw.tools.orchestrate.written import written
from tests.orchestrate.found_by_fuzzing import CASES


def of(name, target="sm_90a"):
    kernel, args, plan = CASES[name]
    return written(plain_of(kernel, (1, ), args, {"num_warps": 4}, target), plan)


@pytest.fixture
def read(monkeypatch):
    """The kernels that are compiled, each of which has the same thing wrong."""
    seen = []
    monkeypatch.setattr(choose, "compiled", lambda kernel, *args, **options: seen.append(kernel) or SimpleNamespace(
        registers=168, stack_bytes=0))
    monkeypatch.setattr(choose, "touched", lambda made: "3 instructions touch registers of a product under way")
    return seen


@pytest.mark.parametrize("measured", [None, 12.5])
def test_a_plan_whose_code_touches_them_is_out(read, measured):
    one = of("computed rows")
    found = finished(Candidate(one, predicted=10.0, measured=measured), Spent())
    assert found.out == "3 instructions touch registers of a product under way" and read == [one.kernel]


def test_where_nothing_is_in_registers_nobody_looks(read):
    one = of("two loops of one pipe")
    assert not takes_registers(one) and finished(Candidate(one, measured=12.5), Spent()).out == "" and read == []
    assert finished(Candidate(one, predicted=10.0), Spent()).registers == 168 and read == [one.kernel]
