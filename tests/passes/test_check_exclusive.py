"""`exclusive=True` counts the regions of the kernel."""

import pytest

from mimw.compiler.passes import check_exclusive
from mimw.errors import TaskError
from mimw.target import target
from tests.analysis.building import Kernel


def kernel_with(regions: int, exclusive: bool = True):
    k = Kernel()
    for region in range(regions):
        with k.at(10 * region + 10).task("worker"):
            pass
        k.start_tasks(**({"exclusive": True} if exclusive and not region else {}))
    return k.program()


@pytest.mark.parametrize("regions, exclusive, chip", [(1, True, "sm_90a"), (2, False, "sm_90a"), (0, False, "sm_90a"),
                                                      (2, True, "gfx942")])
def test_accepted(regions, exclusive, chip):
    assert check_exclusive(kernel_with(regions, exclusive), target(chip)) is None


def test_two_regions():
    with pytest.raises(TaskError, match="requires exactly one warp_specialize op in the module, but found 2"):
        check_exclusive(kernel_with(2), target("sm_90a"))
