"""Collectives as operators, at ranks of the CPU: values, the same bits at all ranks, gradients, graphs of torch, errors."""

import pytest

torch = pytest.importorskip("torch", reason="operators need torch")

from mimw.distributed import symmetric_empty, world_of  # noqa: E402
from mimw.errors import NotSymmetric, RanksDisagree  # noqa: E402
from mimw.kernels.collectives import Configuration, configuration  # noqa: E402
from mimw.ops.distributed import all_gather, all_reduce, all_reduce_, all_to_all, reduce_scatter  # noqa: E402
from mimw.ops.distributed.collectives import _same_everywhere, choice  # noqa: E402
from tests.in_place.writing import holds  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


def drawn(rank, *shape, dtype=torch.bfloat16):
    """The same at all ranks for a rank's number."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank)).to(dtype)


@pytest.mark.long(but=["2-shape0-dtype0"], everywhere=True)
@pytest.mark.parametrize("ranks, shape, dtype", [(2, (6, 5, 3), torch.bfloat16), (3, (9, 7), torch.float32)])
def test_values(ranks, shape, dtype):
    def work(rank):
        every = [drawn(one, *shape, dtype=dtype) for one in range(ranks)]
        total = sum(one.float() for one in every).to(dtype)
        mine, place = every[rank], every[rank].clone()
        strided = torch.stack([mine, mine], -1)[..., 0]
        return [torch.equal(all_reduce(mine), total), torch.equal(all_reduce(strided), total), all_reduce_(place) is place,
                torch.equal(place, total), torch.equal(all_gather(mine), torch.cat(every)),
                torch.equal(reduce_scatter(mine), total.chunk(ranks)[rank])]

    assert at_ranks(ranks, work) == [[True] * 6] * ranks


def test_symmetric_tensors_of_many_bytes():
    """Of three ranks: by the rule, which has them read where they are."""
    def work(rank):
        every = [drawn(one, 70_000, dtype=torch.float32) for one in range(3)]
        x = symmetric_empty((70_000, ), torch.float32)
        x.copy_(every[rank])
        found = [torch.equal(all_reduce(x, symmetric=True), sum(every))]
        found.append(torch.equal(all_gather(x, symmetric=True), torch.cat(every)))
        found.append(torch.equal(all_reduce_(x, symmetric=True), sum(every)))
        with pytest.raises(RanksDisagree):
            all_reduce(x, symmetric=bool(rank))
        with pytest.raises(NotSymmetric):
            all_reduce(every[0], symmetric=True)
        other, world = symmetric_empty((70_000, ), torch.float32), world_of()
        with pytest.raises(RanksDisagree, match="rank 1: float32.70000. with .*offset"):
            all_reduce(other if rank == 1 else x, symmetric=True)
        with pytest.raises(RanksDisagree, match="not in the symmetric heap"):       # as on GPUs, from here on
            _same_everywhere(world, "all_reduce", every[0] if rank == 1 else x)
        with pytest.raises(RanksDisagree, match="offset"):
            _same_everywhere(world, "all_reduce", other if rank == 1 else x)
        for _ in range(2):
            _same_everywhere(world, "all_reduce", x)
            found.append(world.rendezvous.calls)
        return found

    for found in at_ranks(3, work):
        assert found[:3] == [True] * 3 and found[3] == found[4], "a tensor that is known is not asked about"


def test_what_reads_symmetric_tensors_where_they_are(monkeypatch):
    """Not what was found to be as quick by slots; nor a sum in two hops whose result is not symmetric."""
    many = 1 << 24
    assert choice("all_gather", 8, many, True, False)[1] and not choice("all_gather", 2, many, True, False)[1]
    assert choice("all_reduce", 8, many, True, True) == (configuration("all_reduce", 8, many, True), True)
    assert choice("all_reduce", 8, many, True, False) == (configuration("all_reduce", 8, many, False), False)
    assert choice("all_reduce", 2, many, False, True)[1] is False
    monkeypatch.setattr("mimw.kernels.collectives.configuration", lambda *asked: Configuration("direct"))
    assert choice("all_reduce", 2, many, True, True) == (Configuration("direct_two_shot"), True)
    assert choice("all_reduce", 2, many, True, False) == (Configuration("direct"), True)


def test_gradients():
    """Of the sum of all ranks' results, each weighted by numbers of that rank."""
    def work(rank):
        weights = [drawn(10 + one, 4, 3, dtype=torch.float32) for one in range(2)]
        x = drawn(rank, 4, 3, dtype=torch.float32).requires_grad_()
        (all_reduce(x) * weights[rank]).sum().backward()
        found, x.grad = [torch.equal(x.grad, sum(weights))], None
        (all_gather(x) * torch.cat([weights[rank]] * 2)).sum().backward()
        found.append(torch.equal(x.grad, sum(weights)))
        x.grad = None
        (reduce_scatter(x) * weights[rank][:2]).sum().backward()
        return [*found, torch.equal(x.grad, torch.cat([weight[:2] for weight in weights]))]

    assert at_ranks(2, work) == [[True] * 3] * 2


def test_what_is_written_in_place_is_asked_for_what_torch_asks():
    def work(rank):
        holds("all_reduce_", lambda: (drawn(rank, 4, 8), torch.distributed.group.WORLD.group_name))

    at_ranks(1, work)


def test_opcheck_finds_nothing_and_graphs_of_torch_hold_them():
    def work(rank):
        name, x = torch.distributed.group.WORLD.group_name, drawn(rank, 4, 8)
        for operator in ("all_reduce", "all_gather", "reduce_scatter", "all_reduce_"):
            torch.library.opcheck(getattr(torch.ops.mimw, operator).default, (x.clone(), name))
        compiled = torch.compile(lambda x, splits: (all_gather(all_reduce(x + 1)) * 2, *all_to_all(x + 1, splits)), fullgraph=True,
                                 backend="eager")
        y, rows, counts = compiled(x, torch.tensor([3]))
        return torch.equal(y, (x + 1) * 2), torch.equal(rows[:3], x[:3] + 1), counts.tolist()

    assert at_ranks(1, work) == [(True, True, [3])]

    def both(rank):
        compiled = torch.compile(lambda x: reduce_scatter(x + 1) * 2, fullgraph=True, backend="eager")
        return compiled(torch.full((4, ), float(rank))).tolist()

    assert at_ranks(2, both) == [[6.0, 6.0]] * 2


def test_what_does_not_fit_is_named():
    def work(rank):
        with pytest.raises(NotImplementedError, match="torch.int32"):
            all_reduce(torch.zeros(4, dtype=torch.int32))
        with pytest.raises(RuntimeError, match="rows is 3 and ranks is 2; rows must be a multiple of the ranks"):
            reduce_scatter(torch.zeros(3, 2))
        with pytest.raises(RuntimeError, match="x has 0 dimensions, a number; it must have 1 or more dimensions:"):
            all_gather(torch.zeros(()))
        with pytest.raises(RuntimeError, match="x must be contiguous; its strides are 1 and 4 elements"):
            all_reduce_(torch.zeros(4, 4).T)
        with pytest.raises(NotImplementedError, match="all_reduce_ has no derivative"):
            all_reduce_(torch.ones(4, requires_grad=True) * 2)
        with pytest.raises(RuntimeError, match="all_reduce_: x is a view of a leaf"):
            all_reduce_(torch.ones(4, requires_grad=True)[1:])
        for wrong in (torch.zeros(4 + rank), torch.zeros(4 * rank)):
            with pytest.raises(RanksDisagree, match="the inputs of all_reduce"):
                all_reduce(wrong)
        return all_reduce(torch.zeros(())).item(), all_gather(torch.zeros(0, 3)).shape[0]

    assert at_ranks(2, work) == [(0.0, 0)] * 2
