"""What a tile loads once: operands of products to a producer, small loads a tile ahead; mistakes that a proof finds."""

from dataclasses import replace

import pytest

from mimw.compiler.orchestrate.plan import Plan
from mimw.tools.orchestrate import written as module
from mimw.tools.orchestrate.plain import plain_of
from mimw.tools.orchestrate.prove import prove
from mimw.tools.orchestrate.written import written

from .cases import tile_loads


def plain(**sizes):
    kernel, grid, args, meta, _ = tile_loads.case(**sizes)
    return plain_of(kernel, grid, args, meta, "sm_90a")


@pytest.mark.long(but=["more0", "more1"], everywhere=True)
@pytest.mark.parametrize("more", [{}, {"persistent": True}, {"persistent": True, "programs": 2}])
def test_a_plan_is_proved(more):
    one = written(plain(), Plan(stages=2, **more))
    assert one.kernel is not None and len(one.made.rings.loads) == 4, (one.wrong, one.refused, one.remarks)
    proof = prove(one, seeds=2, limit=10)
    assert proof.ok and proof.compared, proof
    assert sorted(ring.stages for ring in one.made.rings.roots) in ([1, 2], [1, 1, 2])


def test_where_consumers_have_tiles_of_their_own_the_next_one_is_another_s():
    one = written(plain(), Plan(stages=2, persistent=True, tiles_in_turn=True, consumers=2, warps=4))
    assert one.kernel is not None and not any("runs a trip ahead" in remark.message for remark in one.remarks)
    assert prove(one, seeds=2, limit=10).ok


def test_a_tile_s_scales_are_loaded_beside_the_tile_before():
    one = written(plain(), Plan(stages=2, persistent=True))
    assert any(remark.message.endswith("runs a trip ahead, into registers") for remark in one.remarks)
    body = one.text.partition("for tile in")[2].partition("for k in")[0]
    assert "tl.load(" in body and " < tiles" in body      # the next tile's, in front of this one's products


def test_scales_of_this_tile_for_the_next_one_are_found(monkeypatch):
    """The next tile's loads have this tile's place: right for the first tile of each program alone."""
    right = module.loaded_ahead

    def wrong(program, outer=False, shared=None):
        made = right(program, outer, shared)
        if not outer:
            return made
        *front, loop = made.program.body.ops
        *ops, last = loop.blocks[0].ops
        values = tuple(loop.blocks[0].args[1 + at] for at in range(len(last.values)))
        body = loop.blocks[0].with_ops((*ops, last.with_operands(values=values)))
        now = made.program.body.with_ops((*front, replace(loop, blocks=(body, ))))
        return replace(made, program=replace(made.program, body=now))

    monkeypatch.setattr(module, "loaded_ahead", wrong)
    one = written(plain(), Plan(stages=2, persistent=True))
    assert one.wrong or not prove(one, seeds=1, limit=5).ok
