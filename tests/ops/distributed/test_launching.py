"""What operators of several GPUs share, by an operator of the tests: x of the neighbour, put into its memory by a kernel."""

import functools
import os
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

import triton.language as tl  # noqa: E402

import mimw  # noqa: E402
from mimw import tlx  # noqa: E402
from mimw.distributed import world_of  # noqa: E402
from mimw.errors import NoProcessGroup, PeerLost, RanksDisagree  # noqa: E402
from mimw.ops.distributed.launching import RankLaunch, agreed, name_of, simulated, tensors_of, workspace  # noqa: E402
from mimw.ops.operator import Operator  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")


@mimw.jit
def put(x, y, flag, world, N: tl.constexpr):
    at = tl.arange(0, N)
    peer = (tlx.world_rank(world) + 1) % tlx.world_size(world)
    tl.store(tlx.peer_pointer(y, peer, world) + at, tl.load(x + at))
    tlx.signal(tlx.peer_pointer(flag, peer, world))
    tlx.wait_signal(flag, 1)


def _at_all_ranks(ranks, xs):
    y, flag = ranks.symmetric(xs[0].shape, xs[0].dtype, "y"), ranks.symmetric(1, "int32", "flag")
    mimw.simulate(put, (1, ), ranks.each(xs, "x"), y, flag, ranks, xs[0].numel())
    return tensors_of(y)


def _run(x, group_name):
    return simulated("shifted", group_name, (x, ), _at_all_ranks)


@functools.cache
def _operator():
    """Registered by the processes of ranks alone: other tests count the library's operators."""
    return Operator("shifted_in_tests(Tensor x, str group_name) -> Tensor", _run, lambda x, group_name: torch.empty_like(x))


def shifted(x, group=None):
    return _operator()(x, name_of(group))


@pytest.mark.parametrize("size, dtype", [(1, torch.float32), (3, torch.bfloat16)])
def test_every_rank_gets_its_part_of_a_simulated_world(size, dtype):
    def work(rank):
        x = torch.full((4, 8), rank + 1, dtype=dtype)
        y = shifted(x)
        return y.dtype is dtype and y.shape == x.shape, float(y[0, 0]), bool((y == y[0, 0]).all())

    assert at_ranks(size, work) == [(True, (rank - 1) % size + 1, True) for rank in range(size)]


def test_two_groups_at_once():
    """Ranks 0 and 2, and 1 alone."""
    import torch.distributed as dist

    def work(rank):
        groups = [dist.new_group(ranks) for ranks in ([0, 2], [1])]
        mine = groups[rank % 2]
        return float(shifted(torch.full((16, ), float(rank)), mine)[0]), world_of(mine).size

    assert at_ranks(3, work) == [(2.0, 2), (1.0, 1), (0.0, 2)]


def test_in_a_graph_of_torch():
    def work(rank):
        operator, group = _operator(), torch.distributed.group.WORLD
        compiled = torch.compile(lambda x: operator(x + 1, name_of(group)) * 2, fullgraph=True, backend="eager")
        return float(compiled(torch.full((16, ), 2.0))[0])

    assert at_ranks(1, work) == [6.0]


def test_another_shape_at_one_rank_is_named_at_all():
    def work(rank):
        shifted(torch.zeros(16 if rank else 8))

    for error in at_ranks(3, work, failing=True):
        assert type(error) is RanksDisagree and error.ranks == (0, )
        assert "inputs of shifted" in str(error) and "rank 0: float32[8]; ranks 1 and 2: float32[16]" in str(error)


def test_ragged_inputs_and_none():
    def work(rank):
        def everyone(ranks, xs, none):
            return [(torch.cat(xs).tolist(), none)] * len(ranks)
        return simulated("cat", None, (torch.arange(rank + 1), None), everyone, ragged=True)

    assert at_ranks(2, work) == [([0, 0, 1], [None, None])] * 2


def test_a_rank_that_has_ended_is_named():
    def work(rank):
        if rank == 1:
            raise SystemExit
        shifted(torch.zeros(16))

    error, ended = at_ranks(2, work, failing=True)
    assert type(error) is PeerLost and error.ranks == (1, ) and "rank 1 of group '0' comes no more to shifted on CPU" in str(error)


def test_a_rank_that_ends_while_inputs_travel_is_named():
    def work(rank):
        if rank == 1:
            torch.distributed.all_gather = lambda *args, **options: os._exit(3)
        shifted(torch.zeros(16))

    error, ended = at_ranks(2, work, failing=True)
    assert ended == 3 and type(error) is PeerLost and error.ranks == (1, )
    assert "shifted: the inputs of all ranks do not arrive: rank 1: its process" in str(error)


def test_rank_0_simulates_for_all():
    """Its own elements of a heap travel, of any type; where it fails each rank finds out what; no rank waits for it in vain."""
    def work(rank):
        ran = []

        def everyone(ranks, xs):
            ran.append(len(ranks))
            if xs[0][0] < 0:
                raise ValueError(f"not at rank {rank}")
            if xs[0][0] > 5:
                os._exit(3)
            return [(x[1:].to(torch.float8_e4m3fn), None) for x in xs]

        mine, none = simulated("last", None, (torch.full((1000, ), rank + 1.0), ), everyone)
        for wrong in (-1.0, 6.0):
            try:
                simulated("last", None, (torch.full((2, ), wrong), ), everyone)
            except (ValueError, PeerLost) as error:
                ran.append(str(error).partition(":")[0])
        return mine.float().unique().tolist(), mine.untyped_storage().nbytes(), none, ran

    ended, other = at_ranks(2, work, failing=True)
    assert ended == 3
    assert other == ([2.0], 999, None, [2, "not at rank 1", "rank 0 of group '0' comes no more to last, simulated"])


def test_workspaces_are_kept():
    def work(rank):
        world = world_of()
        one, same = (workspace(world, "parts", (4, 8), torch.float16) for _ in range(2))
        other = workspace(world, "parts", (4, 9), torch.float16)
        return one is same, one.data_ptr() == other.data_ptr(), world.offset_of(other) - world.offset_of(one)

    assert at_ranks(2, work) == [(True, False, 256)] * 2


def test_a_launch_of_this_rank_keeps_the_table_and_symmetric_memory():
    """Also one whose table and flag stand between what is given."""
    def work(rank):
        world = world_of()
        y, flag = workspace(world, "y", 16, torch.float32), workspace(world, "flag", 1, torch.int32)
        launch = RankLaunch(world, y, put, (1, ), (torch.empty(16), y, flag, world, 16), {}, kept=(flag, ))
        found = []
        for number in (1.0, 2.0):
            flag.zero_()
            launch(torch.full((16, ), number), y)
            found.append(y.tolist())
        return found

    assert at_ranks(1, work) == [[[1.0] * 16, [2.0] * 16]]


def test_what_calls_look_like_is_told_once_and_then_known():
    """Strides do not count. Who differs is named at all ranks, and the group goes on."""
    def work(rank):
        world, x = world_of(), torch.zeros(4, 6)
        found = [agreed(world, "shifted", x, "causal"), agreed(world, "shifted", x.T.contiguous().T, "causal"), world.meeting.calls]
        with pytest.raises(RanksDisagree) as caught:
            agreed(world, "shifted", x[1 + rank:], "causal")
        assert "the inputs of shifted (group '0', " in str(caught.value)
        assert "rank 0: float32[3, 6], causal; rank 1: float32[2, 6], causal" in str(caught.value)
        return *found, agreed(world, "shifted", x)

    assert at_ranks(2, work) == [(True, False, 2, True)] * 2


class OnAGpu(torch.Tensor):
    """Of the CPU, but says that it is on a GPU."""

    is_cuda = True

    def get_device(self):
        return 1


class Agreed(Exception):
    """A plan has asked."""


def test_every_operators_plan_on_a_gpu_asks_before_it_makes_anything(monkeypatch):
    def asked(world, name, *told):
        raise Agreed(name, *(tuple(one.shape) if isinstance(one, torch.Tensor) else one for one in told))

    def plan_of(module, *args):
        module = sys.modules[f"mimw.ops.distributed.{module}"]
        monkeypatch.setattr(module, "agreed", asked)
        if hasattr(module, "operands"):
            monkeypatch.setattr(module, "world_of", lambda group: world)
        with pytest.raises(Agreed) as caught:
            module._plan(*args)
        return caught.value.args

    world = SimpleNamespace(size=2)
    for module in ("collectives", "operands", "all_gather_matmul", "matmul_reduce_scatter"):
        monkeypatch.setattr(sys.modules[f"mimw.ops.distributed.{module}"], "world_of", lambda group: world)
    a, b, q = (torch.zeros(shape, dtype=torch.bfloat16).as_subclass(OnAGpu) for shape in ((4, 8), (8, 8), (1, 1, 128, 64)))
    for name in ("all_reduce", "all_reduce_", "all_gather", "reduce_scatter"):
        for x in (a, a[:0]):
            assert plan_of("collectives", name, x, "0", True) == (name, tuple(x.shape), "symmetric")
    assert plan_of("all_gather_matmul", a, b, "0") == ("all_gather_matmul", (4, 8), (8, 8))
    for name in ("matmul_reduce_scatter", "matmul_all_reduce"):
        assert plan_of("matmul_reduce_scatter", a, b, name, "0") == (name, (4, 8), (8, 8))
    options = True, False, 0.5
    for name, tensors in (("ring_attention", (q, q, q)), ("ring_attention_backward", (q, q, q, q, None, q, q, q, q, q))):
        assert plan_of(name, world, *tensors, *options)[:3] == (name, (1, 1, 128, 64), (1, 1, 128, 64))


def test_tensors_of_another_gpu_than_the_worlds_are_refused():
    world = SimpleNamespace(get_device=lambda: 0, device="cuda:0", name="tp")
    with pytest.raises(RuntimeError, match="put: the tensors are on cuda:1, and the memory of group 'tp' is on cuda:0"):
        RankLaunch(world, torch.zeros(4).as_subclass(OnAGpu), put, (1, ), (), {})


def test_without_a_process_group():
    with pytest.raises(NoProcessGroup, match="no process group(.|\n)*mimw.distributed.init"):
        name_of()


def test_opcheck():
    def work(rank):
        x = torch.arange(16.0)
        _operator()
        return torch.library.opcheck(torch.ops.mimw.shifted_in_tests, (x, name_of()),
                                     test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))

    assert set(at_ranks(2, work)[0].values()) == {"SUCCESS"}
