"""Weights that travel with the dispatch, and results of calls that follow each other, at ranks that plan for themselves."""

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

from mimw.ops.distributed import moe_dispatch, moe_dispatch_rows  # noqa: E402
from mimw.ops.distributed.launching import name_of  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

from .test_moe import EXPERTS, K, tokens  # noqa: E402
from .threads import MODULES, moved, on_gpu, ranks_in_threads  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
MOST = 3


def all_of(counts, dtype):
    """(ranks, MOST, k) fp32: what every rank gets."""
    found = torch.zeros(len(counts), MOST, K)
    for rank, count in enumerate(counts):
        found[rank, :count] = tokens(rank, count)[2].to(dtype).float()
    return found


@pytest.mark.long(but=["counts1-dtype1"], everywhere=True)
@pytest.mark.parametrize("counts, dtype", [((3, 1), torch.float16), ((0, 2), torch.bfloat16), ((0, 0), torch.float32)])
def test_every_rank_has_all_weights(counts, dtype):
    def work(rank):
        x, ids, weights = tokens(rank, counts[rank])
        given = moe_dispatch(x, ids, EXPERTS, max_tokens=MOST, weights=weights.to(dtype))
        plain = moe_dispatch(x, ids, EXPERTS, max_tokens=MOST)
        assert plain.handle.weights is None and torch.equal(plain.handle.places, given.handle.places)
        assert torch.equal(plain.rows[:plain.ends[-1]], given.rows[:given.ends[-1]])
        found = moe_dispatch_rows(x, ids, EXPERTS, max_tokens=MOST, weights=weights.to(dtype))
        assert torch.equal(found.handle.weights, given.handle.weights)
        return torch.equal(given.handle.weights, all_of(counts, dtype))

    assert at_ranks(2, work) == [True] * 2


def test_opcheck_and_what_is_refused():
    def work(rank):
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        x, ids, weights = tokens(rank, 2)
        checked = torch.library.opcheck(torch.ops.mimw.moe_dispatch_weighted,
                                        (x, ids, weights, None, EXPERTS, 2, 8, 1, name_of()), test_utils=tests)
        checked |= torch.library.opcheck(torch.ops.mimw.moe_dispatch_rows_weighted,
                                         (x, ids, weights, None, EXPERTS, 2, 1, name_of()), test_utils=tests)
        assert len(torch.ops.mimw.moe_dispatch(x, ids, None, EXPERTS, 2, 8, 1, name_of())) == 4
        with pytest.raises(RuntimeError, match="weights is 1 x 2; "):
            moe_dispatch(x, ids, EXPERTS, weights=weights[:1])
        with pytest.raises(NotImplementedError, match="weights is torch.int64"):
            moe_dispatch(x, ids, EXPERTS, weights=ids)
        with pytest.raises(NotImplementedError, match="no derivative"):
            moe_dispatch(x, ids, EXPERTS, weights=weights.requires_grad_()).rows.sum().backward()
        return {*checked.values()}

    assert at_ranks(2, work) == [{"SUCCESS"}] * 2


def test_results_in_turn_where_ranks_plan_at_different_times():
    """As GPUs run it: a result is there until the next call, also with weights, and where one rank has another plan."""
    dispatch, rows = MODULES["moe_dispatch"]._run, MODULES["moe_dispatch_rows"]._run
    counts, number = (2, 3), 5

    def work(rank):
        x, ids, weights = tokens(rank, counts[rank])
        others, other_ids, _ = tokens(1 - rank, counts[1 - rank])
        last = None
        for n in range(number):
            given = on_gpu(moved(x + n) if rank == 1 and n in (1, 2, 4) else x + n)     # where it lies is another plan
            beside = on_gpu(weights) if n % 2 else None
            assert last is None or torch.equal(*last), f"call {n}: the last result has changed before it"
            found = rows(given, on_gpu(ids), None, EXPERTS, MOST, 1, "0", beside)
            by_expert = dispatch(given, on_gpu(ids), None, EXPERTS, MOST, 2 * MOST * K, 1, "0", weights=beside)
            assert len(found) == 5 + n % 2 and len(by_expert) == 4 + n % 2
            for every in (found[-1], by_expert[-1]) if n % 2 else ():
                assert torch.equal(every.as_subclass(torch.Tensor), all_of(counts, torch.float32))
            mine = [one.as_subclass(torch.Tensor) for one in found]
            listed, end = mine[1][:mine[2][-1]].long(), int(by_expert[1][-1])
            assert torch.equal(mine[0][listed], by_expert[0].as_subclass(torch.Tensor)[:end])
            has = (other_ids // 2 == rank).any(1)
            start = (1 - rank) * MOST
            assert torch.equal(mine[0][start:start + len(others)][has], (others + n)[has])
            last = mine[0], mine[0].clone()
        return True

    with ranks_in_threads(2) as threads:
        assert threads(work) == [True] * 2
        assert threads.launched == ["dispatch_rows", "dispatch"] * number
