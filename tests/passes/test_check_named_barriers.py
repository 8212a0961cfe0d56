"""Named barriers that the compiler takes for itself are refused with what they are for."""

import pytest

from mimw.compiler.passes import check_named_barriers
from mimw.errors import ProtocolError
from mimw.target import target
from tests.analysis.building import Kernel


def kernel_with(number: int, workers: int):
    k = Kernel()
    for worker in range(workers):
        with k.at(10 + worker).task(f"w{worker}", warps=1):
            k.op("named_barrier_arrive", number, 64)
    if not workers:
        k.at(10).op("named_barrier_wait", number, 128)
    return k.program()


@pytest.mark.parametrize("number, workers, right", [
    (0, 0, False), (1, 0, True), (1, 1, False), (2, 1, False), (3, 1, True), (3, 2, False), (4, 2, True), (8, 6, True),
    (8, 7, False), (15, 6, True)])
def test_numbers(number, workers, right):
    program = kernel_with(number, workers)
    if right:
        assert check_named_barriers(program, target("sm_90a")) is None
    else:
        with pytest.raises(ProtocolError, match=f"named barrier {number} is the compiler's here"):
            check_named_barriers(program, target("sm_90a"))


def test_the_message():
    with pytest.raises(ProtocolError) as caught:
        check_named_barriers(kernel_with(2, 2), target("sm_90a"))
    assert ("it takes 0 for the CTA, 1 to start and end tasks, 2 to 3 for the 2 tasks besides the default one.\n"
            "Mend: use 8 to 15.") in str(caught.value)
