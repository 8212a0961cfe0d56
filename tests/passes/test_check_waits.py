"""A wait that only its own task could let pass, later, is refused; one that anybody else could is not."""

import pytest

from mimw.compiler.passes import check_waits
from mimw.errors import WaitCycle
from mimw.target import target
from tests.analysis.building import Kernel

SM90 = target("sm_90a")


def kernel(order: str, phase: int = 0, other: bool = False):
    """A task that waits (w) and arrives (a) in that order, on a barrier where another task may arrive, too."""
    k = Kernel()
    bars = k.at(2).barriers("ready", 2)
    with k.task("one", warps=4), k.loop(k.number(4)):
        for line, letter in enumerate(order):
            bar = k.at(5 + line).one(bars, 0)
            k.wait(bar, phase) if letter == "w" else k.arrive(bar)
    if other:
        with k.task("two", warps=4):
            k.at(9).arrive(k.one(bars, 0))
    return k.program()


@pytest.mark.parametrize("order, phase, other, right", [
    ("wa", 0, False, False), ("aw", 0, False, True), ("wa", 1, False, True), ("wa", 0, True, True), ("w", 0, False, True)])
def test_a_task_that_waits_for_itself(order, phase, other, right):
    """Right iff the arrive comes first or from elsewhere, or the wait is for what a fresh barrier has; that nothing arrives at all
    is another check's."""
    if right:
        assert check_waits(kernel(order, phase, other), SM90) is None
        return
    with pytest.raises(WaitCycle) as caught:
        check_waits(kernel(order, phase, other), SM90)
    assert str(caught.value).splitlines()[:2] == [
        "WaitCycle at kernel.py:5: the wait of task 'one' for 'ready' never returns: the arrivals that complete the phase "
        "come from the same task, behind the wait, at kernel.py:6.",
        "Mend: arrive before the wait, or let another task arrive; a wait that must pass a fresh barrier at once takes parity 1."]
