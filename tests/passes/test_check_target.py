"""Words that a target lacks."""

import pytest

from mimw.compiler.passes import check_target
from mimw.errors import TargetError
from mimw.ir import I32, Pointer, Scalar
from mimw.target import TARGETS, target
from tests.analysis.building import ACC, BLOCK, F32, Kernel

POINTER = Pointer(Scalar("fp32"))


def with_tasks(k):
    with k.task("load"):
        pass


def with_barriers(k):
    k.barriers("full", 2)


def with_tma(k):
    zero = k.number(0)
    k.op("tma_store", k.param("out", BLOCK), (zero, zero), k.buffers("tile", 0), None, "")


def with_wgmma(k):
    k.op("async_dot", k.buffers("a", 0), k.buffers("b", 0, (64, 128)), None, "tf32", 0, type=ACC)


def with_proxy_fence(k):
    k.op("fence", "async_shared")


def with_slots(k):
    k.op("descriptor_slots", 2)


def with_clusters(k):
    k.op("cluster_barrier")


def with_tensor_memory(k):
    k.buffers("acc", 0, (128, 128), F32, space="tmem")


def with_peers(k):
    k.op("peer_pointer", k.param("x", POINTER), k.param("world", POINTER), k.number(1))


def with_assembly(k):
    k.op("inline_asm", "mov.b32 $0, $1;", "=r,r", (k.number(1), ), (I32, ), True, 1)


def with_copies(k):
    k.buffers("tile", 2)
    k.op("fence", "gpu")


GPUS = {name for name in TARGETS if name != "ascend_910b"}
AMD = {"gfx942", "gfx950", "gfx1250"}
HOPPER_UP = {"sm_90a", "sm_100a", "sm_103a", "sm_120a"}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("word, where", [
    (with_tasks, HOPPER_UP | AMD), (with_barriers, HOPPER_UP | AMD), (with_tma, HOPPER_UP | AMD),
    (with_wgmma, {"sm_90a"} | AMD), (with_proxy_fence, HOPPER_UP | AMD), (with_slots, HOPPER_UP | {"gfx1250"}),
    (with_clusters, HOPPER_UP), (with_tensor_memory, {"sm_100a", "sm_103a"}),
    (with_copies, GPUS), (with_peers, GPUS), (with_assembly, GPUS),
])
def test_words_by_target(word, where, name):
    k = Kernel()
    word(k.at(7))
    if name in where:
        assert check_target(k.program(), target(name)) is None
    else:
        with pytest.raises(TargetError, match=rf"^TargetError at kernel.py:7: {name} cannot"):
            check_target(k.program(), target(name))


def test_the_way_round():
    k = Kernel()
    with_clusters(k.at(7))
    with pytest.raises(TargetError, match="Mend: pass data for other programs through global memory; or compile for a target"):
        check_target(k.program(), target("gfx942"))


def test_the_message_names_the_word():
    k = Kernel()
    with_tma(k.at(7))
    with pytest.raises(TargetError) as caught:
        check_target(k.program(), target("sm_80"))
    assert str(caught.value) == ("TargetError at kernel.py:7: sm_80 cannot do 'async_descriptor_store': it has no TMA.\n"
                                 "Mend: compile for a target that has it, such as sm_90a.\nkernel.py:7")
