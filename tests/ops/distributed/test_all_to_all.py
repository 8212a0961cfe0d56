"""Each rank's parts to each rank: equal ones, and parts whose sizes are on the device; types, pieces, errors."""

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

from mimw.errors import RanksDisagree  # noqa: E402
from mimw.ops.distributed import all_to_all  # noqa: E402
from mimw.ops.distributed.moe_dispatch import words  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


def test_equal_parts():
    """Twice is as at first; bytes, 48 to a part, with strides; none. Gradients go back the same way."""
    def work(rank):
        x = (torch.arange(3 * 4 * 4, dtype=torch.float32).view(6, 8) + 100 * rank).requires_grad_()
        y = all_to_all(x)
        other = all_to_all(x.to(torch.uint8).repeat(3, 1).T.reshape(9, 16).T.T)
        (y * (rank + 1)).sum().backward()
        back = torch.equal(all_to_all(y.detach()), x) and x.grad[:, 0].tolist() == [1, 1, 2, 2, 3, 3]
        return y.tolist(), back, other.tolist(), all_to_all(x[:0]).numel()

    found = at_ranks(3, work)
    base = torch.arange(48.).view(3, 2, 8)
    bytes_of = [(torch.arange(48.).view(6, 8) + 100 * source).to(torch.uint8).repeat(3, 1).T.reshape(9, 16) for source in range(3)]
    for rank, (y, back, other, none) in enumerate(found):
        assert torch.equal(torch.tensor(y).view(3, 2, 8), torch.stack([base[rank] + 100 * source for source in range(3)]))
        assert back and none == 0 and torch.equal(torch.tensor(other).view(3, -1)[0], bytes_of[0].view(3, -1)[rank])


def test_parts_by_splits():
    """Rows of 48 bytes, another number of them at each rank, some for nobody."""
    splits = [[2, 1, 0], [0, 0, 3], [1, 1, 1]]

    def work(rank):
        x = torch.arange(rank + 3)[:, None].repeat(1, 6) + 10 * rank
        y, counts = all_to_all(x, torch.tensor(splits[rank]), max_rows=5)
        assert y.shape == (15, 6) and y.dtype is torch.int64
        return y[:int(counts.sum()), 5].tolist(), counts.tolist()

    assert at_ranks(3, work) == [([0, 1, 20], [2, 0, 1]), ([2, 21], [1, 0, 1]), ([10, 11, 12, 22], [0, 3, 1])]


def test_what_is_refused():
    def work(rank):
        x = torch.zeros(4, 4)
        for match, wrong in (("rows is 3, ranks is 2, rest is .4,. and x is 3 x 4 of", lambda: all_to_all(x[:3])),
                             ("and a part of 16 bytes", lambda: all_to_all(x[:, :1])),
                             ("x has no dimensions", lambda: all_to_all(x[0, 0])),
                             ("max_rows is for parts by splits", lambda: all_to_all(x, max_rows=4)),
                             (r"splits are \(3,\)", lambda: all_to_all(x, torch.tensor([1, 2, 1]))),
                             ("a row of x has 4 bytes", lambda: all_to_all(x[:, :1], torch.tensor([1, 1])))):
            with pytest.raises(RuntimeError, match=match):
                wrong()
        with pytest.raises(NotImplementedError, match="by splits has no derivative"):
            all_to_all(x.requires_grad_(), torch.tensor([1, 1]))
        with pytest.raises(RanksDisagree, match="the inputs of moe_dispatch"):
            all_to_all(torch.zeros(4 + 4 * rank, 4))
        return torch.library.opcheck(torch.ops.mimw.all_to_all.default, (torch.zeros(4, 4), "0"), test_utils=("test_faketensor", ))

    at_ranks(2, work)


def test_rows_begin_where_bulk_copies_take_them():
    x = torch.arange(18, dtype=torch.bfloat16)
    for given in (x[:16].view(2, 8), x[1:17].view(2, 8), x[:16].view(8, 2).T, x[:16].view(torch.uint8).view(2, 16)):
        found = words(given)
        assert found.data_ptr() % 16 == 0 and torch.equal(found.view(given.dtype), given)
    assert words(x[:16]).data_ptr() == x.data_ptr()
