"""What operators of several GPUs share, by an operator of the tests: x of the neighbour, put into its memory by a kernel."""

import functools
import gc
import os
import sys
import weakref
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="operators of several GPUs need torch")

import triton.language as tl  # noqa: E402

import mimw  # noqa: E402
from mimw import tlx  # noqa: E402
from mimw.distributed import world_of  # noqa: E402
from mimw.errors import HeapFull, NoProcessGroup, PeerLost, RanksDisagree  # noqa: E402
from mimw.ops.distributed import all_reduce  # noqa: E402
from mimw.ops.distributed.gemm_memory import memory_of  # noqa: E402
from mimw.ops.distributed.launching import RankLaunch, agreed, name_of, simulated, tensors_of, workspace  # noqa: E402
from mimw.ops.operator import OPERATORS, Operator  # noqa: E402
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
    assert type(error) is PeerLost and error.ranks == (1, ) and "rank 1 of group '0' will not reach shifted on CPU" in str(error)


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
    assert other == ([2.0], 999, None, [2, "not at rank 1", "rank 0 of group '0' will not reach last, simulated"])


def test_plans_and_memory_go_with_their_group():
    """A group of the same name that is made behind it has its own."""
    def work(rank):
        import torch.distributed as dist
        found, old = [], []
        for number in range(2):
            world = world_of()
            old.append(weakref.ref(world))
            found.append(all_reduce(torch.full((4, ), 1.0 + rank)).tolist())
            workspace(world, "parts", 8, torch.float32).fill_(1)
            store = dist.distributed_c10d._get_default_store()
            dist.barrier()
            if number == 0:
                dist.destroy_process_group()
                dist.init_process_group("cpu:gloo", store=dist.PrefixStore("again", store), rank=rank, world_size=2)
                assert world_of() is not world and world.closed and not world.kept
                del world
                gc.collect()
                found.append(old[0]() is None)
        return found

    assert at_ranks(2, work) == [[[3.0] * 4, True, [3.0] * 4]] * 2


def test_what_has_to_grow_grows_by_half_where_there_is_room():
    """So that many shapes, each a little larger, do not fill the heap."""
    sizes = []

    def symmetric(shape, dtype, name):
        if shape[0] > 2048:
            raise HeapFull("full")
        sizes.append(shape[0])
        return torch.empty(shape, dtype=dtype)

    world = SimpleNamespace(kept={}, symmetric=symmetric)
    for count in (250, 400, 500, 501, 600, 800, 900, 1000):
        assert memory_of(world, count, {"slots": (count, "bfloat16")})["slots"].shape == (count, )
    assert sizes == [512, 1024, 1536, 1792, 2048]


def test_a_key_keeps_its_place():
    """Where operands lie otherwise a rank plans a call anew, after calls of more elements, and its peers do not."""
    def work(rank):
        world = world_of()
        made = [memory_of(world, count, {"slots": (count, "bfloat16"), "calls": (2, "int64")})["slots"] for count in (256, 4096)]
        made += [memory_of(world, 256, {"slots": (256, "bfloat16")})["slots"]] * rank
        place, other, *again = map(world.offset_of, made)
        return [place, *again], other

    (place, other), (places, same) = at_ranks(2, work)
    assert places == 2 * place and other == same and other not in place


def test_graphs_of_torch_keep_calls_whose_results_nobody_uses():
    """At one rank, that is: the others would wait."""
    names = [name for name, one in OPERATORS.items() if "group_name" in one.schema]
    assert {"all_reduce", "moe_combine", "ring_attention_backward"} <= set(names)
    for name in names:
        graph = torch.fx.Graph()
        graph.call_function(OPERATORS[name].op)
        graph.output(None)
        assert not graph.eliminate_dead_code(), name


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
        found = [agreed(world, "shifted", x, "causal"), agreed(world, "shifted", x.T.contiguous().T, "causal"),
                 world.rendezvous.calls]
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
        with pytest.raises(Agreed) as caught:
            module._plan(world, *args)
        return caught.value.args

    world = SimpleNamespace(size=2)
    for module in ("moe_dispatch", "moe_dispatch_rows", "moe_combine"):
        monkeypatch.setattr(sys.modules[f"mimw.ops.distributed.{module}"], "is_hopper", lambda x: True)
    a, b, q = (torch.zeros(shape, dtype=torch.bfloat16).as_subclass(OnAGpu) for shape in ((4, 8), (8, 8), (1, 1, 128, 64)))
    for name in ("all_reduce", "all_reduce_", "all_gather", "reduce_scatter"):
        for x in (a, a[:0]):
            assert plan_of("collectives", name, x, True) == (name, tuple(x.shape), "symmetric")
    assert plan_of("all_gather_matmul", a, b) == ("all_gather_matmul", (4, 8), (8, 8))
    for name in ("matmul_reduce_scatter", "matmul_all_reduce"):
        assert plan_of("matmul_reduce_scatter", name, a, b) == (name, (4, 8), (8, 8))
    for name, tensors in (("ring_attention", (q, q, q)), ("ring_attention_backward", (q, q, q, q, None, q, q, q, q, q))):
        assert plan_of(name, *tensors, True, False, 0.5)[:3] == (name, (1, 1, 128, 64), (1, 1, 128, 64))
    ids, places = torch.zeros(4, 2, dtype=torch.int32), torch.zeros(2, 4, 2, dtype=torch.int32)
    look = "bfloat16 by 8, int32 by 2, None"
    assert plan_of("moe_dispatch", a, ids, None, 6, 4, 16, 1, 0) == ("moe_dispatch", look, "6 experts, 4 tokens, room 16, block 1")
    assert plan_of("moe_dispatch_rows", a, ids, None, 6, 4, 2) == ("moe_dispatch_rows", look, "6 experts, 4 tokens, block 2")
    y, weights = torch.zeros(16, 8), torch.zeros(4, 2)
    assert plan_of("moe_combine", y, places, ids, weights, 6, 0, 0) == ("moe_combine", (16, 8), (2, 4, 2), "6 experts")
    assert plan_of("moe_combine", y, places, ids, torch.zeros(2, 4, 2), 6, 3, 4)[3:] == ("6 experts by 3 of 4, weights of all", )


def test_a_launch_that_was_loaded_launches_nothing_until_it_is_called(monkeypatch):
    frozen, x = [], torch.zeros(4).as_subclass(OnAGpu)

    def freeze(grid, *args, **meta):
        frozen.append(args)
        return SimpleNamespace(forget=lambda: SimpleNamespace(device=1, launch_arrays=lambda *args: frozen.append(args)))

    flag = torch.zeros(1)
    world = SimpleNamespace(get_device=lambda: 1, launched=lambda name: None, table=torch.zeros(5))
    launch = RankLaunch(world, x, SimpleNamespace(__name__="put", freeze=freeze), (1, ), (x, flag, world, 16), {}, kept=(flag, ))
    monkeypatch.setattr("mimw.ops.launching._stream_of", lambda device: 7)
    launch.load(x)
    launch.load(x)
    assert [one is other for one, other in zip(frozen[0], (x, flag, world.table))] == [True] * 3 and len(frozen) == 1
    launch(x)
    assert frozen[1:] == [(7, x.data_ptr(), flag.data_ptr(), world.table.data_ptr())]


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
