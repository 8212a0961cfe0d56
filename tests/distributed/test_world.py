"""Worlds of process groups on the CPU: start, symmetric tensors, what ranks are told when they differ, come late or have ended."""

import os
import time
from contextlib import nullcontext

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="mimw.distributed stands on torch.distributed")

import triton.language as tl  # noqa: E402

import mimw  # noqa: E402
from mimw import tle, tlx  # noqa: E402
from mimw.distributed import bind, init, symmetric_empty, world_of  # noqa: E402
from mimw.distributed.world import GroupWorld  # noqa: E402
from mimw.errors import (  # noqa: E402
    DistributedError,
    HeapFull,
    LaunchError,
    MeshTooLarge,
    NoProcessGroup,
    NotSymmetric,
    PeerLate,
    PeerLost,
    RanksDisagree,
    SimulatorMisuse,
)
from mimw.ir.world import reserved, table  # noqa: E402
from mimw.runtime.host import element_name, is_array  # noqa: E402
from tests.ranks import at_ranks  # noqa: E402


def test_symmetric_tensors_lie_at_the_same_offset_and_are_zero():
    def work(rank):
        world = init()
        tensors = [world.symmetric((4, 5), torch.bfloat16, "x"), symmetric_empty(3), world.symmetric(2, "int64")]
        assert world is world_of() is world_of("0") is world_of(torch.distributed.group.WORLD)
        assert world.table.tolist() == table(rank, [world.table[3 + other].item() for other in range(2)])
        return ([world.offset_of(one) for one in tensors], [(one.dtype, tuple(one.shape)) for one in tensors],
                all(not one.any() and one.data_ptr() % 256 == 0 for one in tensors), (world.rank, world.size))

    one, other = at_ranks(2, work)
    assert one[:3] == other[:3] and one[2] and (one[3], other[3]) == ((0, 2), (1, 2))
    assert one[1] == [(torch.bfloat16, (4, 5)), (torch.float32, (3, )), (torch.int64, (2, ))]


def test_asking_a_world_what_it_is_makes_no_heap():
    """As a launch asks its arguments; the other rank need not."""
    def work(rank):
        world = world_of()
        alike = (world.dtype, world.shape, world.stride(), world.element_size(), world.get_device())
        if rank == 0:
            assert is_array(world) and element_name(world.dtype) == "i64"
        calls = world.rendezvous.calls
        held = world.table
        return calls, alike == (held.dtype, held.shape, held.stride(), held.element_size(), held.get_device())

    assert at_ranks(2, work) == [(1, True)] * 2


def test_freed_memory_is_given_out_again_and_is_zero():
    def work(rank):
        world = world_of()
        one, two = world.symmetric(64, torch.float32), world.symmetric(128, torch.float32)
        one.fill_(7)
        at = world.offset_of(one)
        for part in (two[1:], two[:64], two.view(2, 64)):
            with nullcontext() if part.numel() == 128 else pytest.raises(NotSymmetric, match="a part of one"):
                world.free(part)
        world.free(one)
        again = world.symmetric(8, torch.float32)
        return world.offset_of(again) - at, float(again.sum())

    assert at_ranks(2, work) == [(0, 0.0)] * 2


@pytest.mark.parametrize("shape, dtype, said", [((4, 6), "float32", "rank 1: float32[4, 6]"),
                                                ((4, 5), "int32", "rank 1: int32[4, 5]")])
def test_another_shape_or_type_at_one_rank_is_named_at_all_ranks(shape, dtype, said):
    def work(rank):
        symmetric_empty(*((shape, getattr(torch, dtype)) if rank == 1 else ((4, 5), torch.float32)))

    for error in at_ranks(3, work, failing=True):
        assert type(error) is RanksDisagree and error.ranks == (1, )
        assert said in str(error) and "ranks 0 and 2: float32[4, 5]" in str(error) and "Mend:" in str(error)


def test_different_calls_are_named():
    def work(rank):
        world = world_of()
        world.barrier("the end of the epoch") if rank else world.barrier("the evaluation")

    for error in at_ranks(2, work, failing=True):
        assert type(error) is RanksDisagree
        assert "rank 0: the evaluation; rank 1: the end of the epoch" in str(error)


def test_a_full_heap_says_the_sum():
    def work(rank):
        world = init(heap=1 << 20)
        world.symmetric(1 << 17, torch.float32)
        with pytest.raises(HeapFull) as caught:
            world.symmetric(1 << 18, torch.float32, "parts")
        with pytest.raises(Exception, match="asked for"):
            init(heap=1 << 21)
        return str(caught.value).splitlines(), caught.value.needed, caught.value.free

    lines, needed, free = at_ranks(1, work)[0]
    assert lines[0] == ("the symmetric heap of group '0' has 1048576 bytes, 524288 of them free, at most 524288 in one piece; "
                        "'parts' needs 1048576")
    assert lines[1].startswith("Mend: mimw.distributed.init(heap=2097152)") and (needed, free) == (1 << 20, 1 << 19)


def test_a_call_that_failed_at_one_rank_does_not_shift_the_places_of_others():
    """Rank 0 gave up waiting, rank 1 came and took a place: their next tensors would lie elsewhere, without a word. Nor has one of
    them a heap that the other does not have."""
    def work(rank):
        world = world_of()

        def asked(name, ends):
            """By rank 0, which does not wait, then by rank 1."""
            store = world.rendezvous.store
            if rank:
                store.wait([f"{name} asked"])
            world.rendezvous.limit = 10 if rank else 0.01
            with ends if rank else pytest.raises(PeerLate):
                world.symmetric(64, torch.float32, name)
            world.rendezvous.limit = 10
            store.set(f"{name} asked", "1")

        with pytest.raises(RanksDisagree) if rank == 0 else nullcontext():
            asked("heap", pytest.raises(RanksDisagree))
            rank or world.symmetric(64, torch.float32)      # of rank 0: what rank 1 awaits is the end of making a heap
        world.symmetric(64, torch.float32, "w")
        asked("x", nullcontext())
        with pytest.raises(RanksDisagree) as caught:
            world.symmetric(64, torch.float32, "x")
        return str(caught.value).splitlines()[0].partition("): ")[2]

    first = reserved(2) + 256
    told = f"rank 0: float32[64], at offset {first}; rank 1: float32[64], at offset {first + 256}"
    assert at_ranks(2, work) == [told] * 2


def test_a_rank_without_memory_for_its_heap_is_named_at_all(monkeypatch):
    def work(rank):
        world = world_of()
        with monkeypatch.context() as patch, pytest.raises(DistributedError) as caught:
            if rank:
                patch.setattr("mimw.distributed.heap.aligned", lambda size: np.empty(1 << 62, np.uint8))
            world.symmetric(4, torch.float32)
        assert caught.value.ranks == (1, )
        return str(caught.value).splitlines()[0], world.symmetric(4, torch.float32).tolist()

    (one, found), (other, same) = at_ranks(2, work)
    assert one == other and "rank 1 of group '0' found no memory for the symmetric heap, 285245440 bytes each: MemoryE" in one
    assert found == same == [0.0] * 4


def test_a_rank_that_was_late_for_a_world_is_met_by_those_who_ask_again():
    def work(rank):
        group, asked = torch.distributed.new_group([0, 1]), 0
        store = torch.distributed.distributed_c10d._get_default_store()
        if rank == 0:
            while True:
                asked += 1
                try:
                    world = GroupWorld(group, timeout=10 if asked > 3 else 0.01)
                    break
                except PeerLate:
                    if asked == 3:
                        store.set("asked three times", "1")
        else:
            store.wait(["asked three times"])
            world = GroupWorld(group, timeout=10)
        world.barrier()
        return asked

    assert at_ranks(2, work) == [4, 0]


def test_a_forked_process_is_no_rank():
    def work(rank):
        world, (reader, writer) = world_of(), os.pipe()
        if not os.fork():
            try:
                world.barrier("the loading of data")
            except DistributedError as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.close(writer)
        world.barrier()
        return "which is rank 0 of group '0', and is no rank itself" in os.read(reader, 4096).decode()

    assert at_ranks(1, work) == [True]


@pytest.mark.parametrize("environment, said", [
    ({"RANK": "1"}, "RANK=1 and no WORLD_SIZE"), ({"WORLD_SIZE": "2", "LOCAL_RANK": "0"}, "WORLD_SIZE=2 and no RANK"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 and WORLD_SIZE=2"),
    ({"RANK": "one", "WORLD_SIZE": "2"}, "RANK='one', which is no number")])
def test_half_of_torchruns_environment_is_no_world_of_one(monkeypatch, environment, said):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DistributedError, match=said):
        init("gloo")


def test_nothing_symmetric_is_made_while_a_graph_is_recorded(monkeypatch):
    """What is 0 at first would be so again at each replay."""
    def work(rank):
        world = world_of()
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        for made in False, True:
            if made:
                world.symmetric(4, torch.float32)
            world.device = torch.device("cuda", 0)
            with pytest.raises(DistributedError, match="the symmetric tensor 'x' cannot be made while a CUDA graph is recorded"):
                world.symmetric(4, torch.float32, "x")
            world.device = torch.device("cpu")

    at_ranks(1, work)


def test_a_rank_that_has_ended_is_named_at_once():
    def work(rank):
        world = world_of()
        if rank == 1:
            os._exit(3)
        began = time.monotonic()
        with pytest.raises(PeerLost) as caught:
            world.barrier("the first step")
        return caught.value.ranks, str(caught.value).partition(" its process")[0], time.monotonic() - began

    one, status, other = at_ranks(3, work, failing=True, timeout=30)
    assert status == 3
    for ranks, text, seconds in (one, other):
        assert ranks == (1, ) and text == "rank 1 of group '0' will not reach the first step:" and seconds < 10


def test_a_rank_that_is_late_is_named_within_the_limit():
    def work(rank):
        world = world_of()
        if rank == 1:
            time.sleep(0.3)
            return None
        world.rendezvous.limit = 0.1
        with pytest.raises(PeerLate) as caught:
            world.barrier("the first step")
        return type(caught.value) is PeerLate, caught.value.ranks, str(caught.value).splitlines()[0]

    told = "rank 1 of group '0' did not reach the first step within 0.1 s; rank 0 waits there"
    assert at_ranks(2, work)[0] == (True, (1, ), told)


def test_meshes_of_a_group():
    def work(rank):
        assert bind(tle.device_mesh({"device": 2})) is world_of()
        with pytest.raises(ValueError, match="no axis of devices"):
            bind(tle.device_mesh({"block_cluster": 2}))
        with pytest.raises(MeshTooLarge) as caught:
            bind(tle.device_mesh({"node": 2, "device": 2, "block_cluster": 2}))
        return str(caught.value).splitlines()[0]

    assert at_ranks(2, work)[0] == "the mesh has 2 'node' x 2 'device' = 4 GPUs, and group '0' has 2 ranks"


def test_tensors_that_are_not_symmetric():
    def work(rank):
        world = world_of()
        x = world.symmetric((4, 8), torch.float32)
        for one in (x, x[1:, 2:], x.view(torch.int32).t(), x[:0]):
            world.check_symmetric(one)
        for other in (torch.zeros(4), world.table):
            with pytest.raises(NotSymmetric, match="'weights', .*not in the symmetric heap"):
                world.check_symmetric(other, "'weights'")
        assert world.peer(x, rank) is x
        with pytest.raises(SimulatorMisuse, match="no GPUs(.|\n)*mimw.World"):
            world.peer(x, 1 - rank)

    at_ranks(2, work)


def test_without_and_outside_of_a_group():
    def work(rank):
        mine = torch.distributed.new_group([0])
        if rank:
            with pytest.raises(NoProcessGroup, match="not in|no process group"):
                world_of(mine)
        else:
            assert world_of(mine).size == 1
        with pytest.raises(NoProcessGroup, match="no process group 'nobody'"):
            world_of("nobody")
        with pytest.raises(NoProcessGroup, match=r"\[0, 1\] is no process group"):
            world_of([0, 1])

    at_ranks(2, work)
    with pytest.raises(NoProcessGroup, match=r"no process group of torch.distributed(.|\n)*mimw.distributed.init\(\)"):
        world_of()


def test_a_group_that_is_made_anew():
    """In the same store, where keys of the first one are left; then by `init` alone: a world of one."""
    import torch.distributed as dist

    def work(rank):
        first, store = world_of(), dist.distributed_c10d._get_default_store()
        first.symmetric(4, torch.float32)
        dist.barrier()
        dist.destroy_process_group()
        with pytest.raises(NoProcessGroup):
            world_of()
        dist.init_process_group("cpu:gloo", store=dist.PrefixStore("again", store), rank=rank, world_size=2)
        again = world_of()
        again.symmetric(8, torch.float32)
        dist.barrier()
        dist.destroy_process_group()
        alone = init("cpu:gloo")
        return again is not first, again.size, (alone.rank, alone.size), alone is init(), repr(alone)

    assert at_ranks(2, work) == [(True, 2, (0, 1), True, "GroupWorld(rank 0 of 1, group '0', cpu)")] * 2


@mimw.jit
def meet(x, world, N: tl.constexpr):
    at = tl.arange(0, N)
    there = tlx.peer_pointer(x, tlx.world_rank(world), world)
    tl.store(there + at, at + tlx.world_size(world))
    tlx.world_barrier(world)


def test_a_world_is_its_table_as_an_argument():
    """In a launch, in a frozen one, and as a warm-up sees it."""
    def work(rank):
        world = world_of()
        x = world.symmetric(16, torch.int32)
        meet[(1, )](x, world, 16)
        frozen = meet.freeze((1, ), x, world, 16)
        x.zero_()
        frozen(x, world)
        found = x.tolist()
        with pytest.raises(LaunchError, match="world was frozen as a pointer to i64"):
            frozen(x, x)
        return found

    assert at_ranks(1, work) == [list(range(1, 17))]


def test_launches_of_several_ranks_without_gpus_are_refused():
    def work(rank):
        world = world_of()
        with pytest.raises(SimulatorMisuse, match=r"mimw.World\(2\) simulates"):
            meet[(1, )](np.zeros(16, np.int32), world, 16)

    at_ranks(2, work)
