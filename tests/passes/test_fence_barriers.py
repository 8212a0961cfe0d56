"""One fence after barriers that stand together, where copies will count on them."""

from mimw.compiler.passes import fence_barriers
from tests.analysis.building import Kernel, ring_copy


def names(program) -> list[str]:
    return [op.name for op in program.body.ops if op.name not in ("constant", "barrier_index", "buffer_index")]


def test_barriers_that_stand_together_share_a_fence():
    k = ring_copy()
    before = names(k.program())
    after = names(fence_barriers(k.program()))
    assert before.count("alloc_barriers") == 2 and "fence" not in before
    last = len(after) - 1 - after[::-1].index("alloc_barriers")
    assert after[last + 1] == "fence" and after.count("fence") == 1
    assert [name for name in after if name != "fence"] == before


def test_barriers_without_copies_stay_as_they_are():
    k = Kernel()
    k.barriers("full", 2)
    program = k.program()
    assert fence_barriers(program) is program
