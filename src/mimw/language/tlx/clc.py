"""Cluster launch control: a CTA that has time left takes over the work of one that has not started.

Input: the arguments of a kernel's call. Output: ops of `ir/ops/launch_control.py`, barriers, and a fence. For example:

    context = tlx.clc_create_context(2)           two alloc_barriers, `empty` and `full`, and a local_alloc of one response
    tlx.clc_producer(context, phase)              barrier_wait %empty; barrier_expect %full 16; clc_issue %response %full
    tile = tlx.clc_consumer(context, phase)       barrier_wait %full; clc_query %response; fence; barrier_arrive %empty

The grid has a CTA for every tile. Those that run ask for tiles of CTAs that have not started, until a request is refused; such
a CTA never starts. A cluster takes whole clusters: its first CTA asks, and all of its CTAs get the answer.
"""

from __future__ import annotations

import triton.language.core as tl

from ...errors import KernelError, KernelWarning, TargetError
from ...ir import I64, Buffer, warn_at
from ..core import capability, word
from ..refuse import refuse
from .arguments import positive_int, single_barrier
from .barrier import barrier_arrive, barrier_expect_bytes, barrier_wait, fence
from .types import CLCPipelineContext, clc_response, clc_response_type, mbarrier_type, storage_kind

__all__ = ["_alloc_clc_responses", "_clc_issue", "_clc_query", "clc_consumer", "clc_create_context", "clc_producer"]

RESPONSE_BYTES = 16     # PTX ISA, clusterlaunchcontrol.try_cancel
FIRST_CHIP = 100


@word
def clc_create_context(num_consumers: tl.constexpr, num_stages: tl.constexpr = 1, _semantic=None) -> CLCPipelineContext:
    """Reserve what a producer and its consumers share: for each stage an `empty` barrier, a `full` one, and a response.

    args:      num_consumers - tasks that call `clc_consumer` on a stage, counted over all CTAs of the cluster; replicas of a task
                               count each
               num_stages    - answers that may be under way, or not yet read by all
    orders:    the initialisation -> every later use by any thread of the CTA
    errors:    ValueError unless both are ints > 0; TargetError below sm_100, NotImplementedError on AMD
    lowers to: ttng.init_barrier, ttg.local_alloc of two i64
    example:   context = tlx.clc_create_context(num_consumers=2)
    """
    _needs_launch_control("clc_create_context", _semantic)
    positive_int("clc_create_context: num_consumers", num_consumers)
    positive_int("clc_create_context: num_stages", num_stages)
    empty, full = (mbarrier_type(num_stages, None, storage_kind.smem).value(
        _semantic.builder.record("alloc_barriers", num_stages, count, clc=side).results[0])
        for side, count in (("empty", num_consumers), ("full", 1)))
    return CLCPipelineContext(empty, full, _alloc_clc_responses(num_stages, _semantic=_semantic))


@word
def clc_producer(context, p_producer=None, multi_ctas: tl.constexpr = True, k=0, _semantic=None) -> None:
    """Ask for the work of a cluster that has not started; the answer lands in stage `k`, for every `clc_consumer` of it.

    args:      context    - of `clc_create_context`
               p_producer - phase of the stage's `empty` barrier to wait for: 1 the first time, then 0, 1, ...
               multi_ctas - in a launch with clusters, whether the cluster asks as one: every CTA calls this, the first one waits
                            for `empty` and asks, and the answer goes to all. If False, each CTA that calls this asks for itself,
                            and has the work of all CTAs of the cluster that it gets: a KernelWarning says so. Without clusters
                            it means nothing
               k          - the stage, an int or an integer scalar
    orders:    the consumers' reads of the stage's last answer -> the next answer
    errors:    KernelError for another context, stage or array; TypeError without a phase; TargetError below sm_100,
               NotImplementedError on AMD
    not:       once a CTA has seen that a request was refused, to be called by it again: PTX leaves that open
    lowers to: ttng.wait_barrier, ttng.barrier_expect, ttng.clc_try_cancel; PTX
               clusterlaunchcontrol.try_cancel.async...multicast::cluster::all in a cluster
    example:   tlx.clc_producer(context, p_producer=phase)
    """
    name = "clc_producer"
    _needs_launch_control(name, _semantic)
    empty, full, response = _stage(name, context, k, _semantic)
    _check_phase(name, "p_producer", p_producer)
    if not _of_cluster(multi_ctas, _semantic):
        _warn_of_clusters(_semantic)
        barrier_wait(empty, p_producer, _semantic=_semantic)
        barrier_expect_bytes(full, RESPONSE_BYTES, _semantic=_semantic)
        _clc_issue(response, full, _semantic=_semantic)
        return
    first = _semantic.equal(_rank(_semantic), 0)
    barrier_wait(empty, p_producer, first, _semantic=_semantic)
    barrier_expect_bytes(full, RESPONSE_BYTES, _semantic=_semantic)
    ranks = tuple(range(_semantic.builder.launch_facts.cluster_size))
    _semantic.builder.record("clc_issue_all", response.handle, full.handle, ranks, first.handle)


@word
def clc_consumer(context, p_consumer=None, multi_ctas: tl.constexpr = True, k=0, return_3d: tl.constexpr = False, _semantic=None):
    """Wait for the answer in stage `k`, and give the stage back if it brought work.

    args:      context    - of `clc_create_context`
               p_consumer - phase of the stage's `full` barrier to wait for: 0 the first time, then 1, 0, ...
               multi_ctas - as for `clc_producer`, and the same there
               k          - the stage, an int or an integer scalar
               return_3d  - give (x, y, z) and not x alone
    returns:   the program id whose work this CTA has now, an i32 scalar: x of the CTA that will not start, in a cluster that of
               its first CTA plus `cluster_cta_rank()`; -1 if the request was refused. With `return_3d` a tuple (x, y, z), in a
               cluster of the CTA that stands there where this one stands here; each -1 if the request was refused
    orders:    the answer -> what this task does after; this task's read -> the next answer
    errors:    KernelError for another context, stage or array; TypeError without a phase; TargetError below sm_100,
               NotImplementedError on AMD
    lowers to: ttng.wait_barrier, ttng.clc_load_result, PTX clusterlaunchcontrol.query_cancel, ttng.fence_async_shared,
               ttng.arrive_barrier; in a cluster mapa and mbarrier.arrive on the first CTA's barrier
    example:   tile = tlx.clc_consumer(context, p_consumer=phase)     # -1 when no work is left
    """
    name = "clc_consumer"
    _needs_launch_control(name, _semantic)
    empty, full, response = _stage(name, context, k, _semantic)
    _check_phase(name, "p_consumer", p_consumer)
    barrier_wait(full, p_consumer, _semantic=_semantic)
    x, y, z = _query(response, _semantic)
    obtained = _semantic.not_equal(x, -1)
    # PTX ISA, "Async proxy": the read above is in the generic proxy, and the next answer is written in the asynchronous one.
    fence("async_shared", _semantic=_semantic)
    of_cluster = _of_cluster(multi_ctas, _semantic)
    barrier_arrive(empty, 1, 0 if of_cluster else None, obtained, _semantic=_semantic)
    if not of_cluster:
        return tl.tuple([x, y, z]) if return_3d else x
    if not return_3d:
        return _moved(x, _rank(_semantic), obtained, _semantic)
    place, own = _rank(_semantic), []
    for first, extent in zip((x, y, z), _semantic.builder.launch_facts.cluster):
        own.append(_moved(first, _semantic.mod(place, extent), obtained, _semantic) if extent > 1 else first)
        place = _semantic.floordiv(place, extent)
    return tl.tuple(own)


@word
def _alloc_clc_responses(num: tl.constexpr, _semantic=None) -> clc_response:
    """Reserve memory for `num` answers of 16 bytes; subscript with `responses[i]`.

    errors:    ValueError unless `num` is an int > 0; TargetError below sm_100, NotImplementedError on AMD
    lowers to: ttg.local_alloc of two i64
    example:   responses = tlx._alloc_clc_responses(1)
    """
    _needs_launch_control("_alloc_clc_responses", _semantic)
    positive_int("_alloc_clc_responses: num", num)
    handle = _semantic.builder.record("local_alloc", Buffer(I64, (RESPONSE_BYTES // 8, ), num)).results[0]
    return clc_response_type(num).value(handle)


@word
def _clc_issue(response, barrier, _semantic=None) -> None:
    """Ask for the work of a cluster that has not started, for this CTA alone; one thread of the task asks.

    args:      response - one response, which no task reads and no other request fills meanwhile
               barrier  - one mbarrier of this CTA, which completes the 16 bytes; a task has to expect them
    orders:    the answer -> what a task does after waiting on `barrier`
    errors:    KernelError unless both are one thing each of its kind; TargetError below sm_100, NotImplementedError on
               AMD
    lowers to: ttng.clc_try_cancel
    example:   tlx._clc_issue(responses[0], full[0])
    """
    _needs_launch_control("_clc_issue", _semantic)
    response = _single("_clc_issue", response, _semantic)
    _semantic.builder.record("clc_issue", response.handle, single_barrier("_clc_issue", barrier, _semantic))


@word
def _clc_query(response, _semantic=None):
    """The program id (x, y, z) of the first CTA of the cluster that an answer names, i32 scalars; three times -1 if the request was
    refused. The answer must be there: wait for its barrier first.

    errors:    KernelError unless it is one response; TargetError below sm_100, NotImplementedError on AMD
    lowers to: ttng.clc_load_result, PTX clusterlaunchcontrol.query_cancel.is_canceled and, where that holds, .get_first_ctaid
    example:   x, y, z = tlx._clc_query(responses[0])
    """
    _needs_launch_control("_clc_query", _semantic)
    return tl.tuple(list(_query(_single("_clc_query", response, _semantic), _semantic)))


def _query(response: clc_response, semantic) -> tuple:
    return tuple(tl.tensor(handle, tl.int32) for handle in semantic.builder.record("clc_query", response.handle).results)


def _moved(first, by, obtained, semantic) -> tl.tensor:
    """The program id of this CTA, `by` further than that of the first CTA; -1 if there is none."""
    return semantic.where(obtained, semantic.add(first, by, False), first)


def _stage(name: str, context, k, semantic) -> tuple:
    """(empty barrier, full barrier, response) of a stage."""
    if not isinstance(context, CLCPipelineContext):
        refuse(KernelError, f"{name}: `context` must come from clc_create_context, got {context}")
    return tuple(array.at(k, semantic) for array in (context.clc_mbars_empty, context.clc_mbars_full, context.clc_responses))


def _single(name: str, response, semantic) -> clc_response:
    """One response; an array of one is indexed."""
    if not isinstance(response, clc_response):
        refuse(KernelError, f"{name}: `response` must be a clc_response, got {response}")
    if response.type.num > 1:
        refuse(KernelError, f"{name}: `response` must be one response, but it is an array of {response.type.num}",
               mend="index it: `response[i]`")
    return response.at(0, semantic) if response.type.num else response


def _check_phase(name: str, parameter: str, phase) -> None:
    if phase is None:
        refuse(TypeError, f"{name}: `{parameter}` is missing: the parity of the phase to wait for, an int or an integer scalar",
               mend=f"begin with {int(parameter == 'p_producer')}, and flip it each time the stages wrap around: `phase ^= 1`")


def _warn_of_clusters(semantic) -> None:
    """A CTA that asks for itself alone gets a whole cluster, and the number of that cluster's first CTA."""
    builder = semantic.builder
    size, site = builder.launch_facts.cluster_size, builder.site
    if size > 1 and ("clc_producer", site) not in builder.warned:
        builder.warned.add(("clc_producer", site))
        warn_at(KernelWarning, f"tlx.clc_producer(multi_ctas=False) at {site}, in clusters of {size} CTAs: a request takes over a "
                f"whole cluster, and its answer reaches this CTA alone and names the first CTA of the {size}. This CTA then has "
                "to do the work of all.\nMend: leave multi_ctas=False out here and in tlx.clc_consumer, and each CTA gets its part "
                f"of the work; or let this CTA do the work of {size} CTAs", site)


def _of_cluster(multi_ctas: bool, semantic) -> bool:
    """True if the CTAs of a cluster request work together."""
    return bool(multi_ctas) and semantic.builder.launch_facts.cluster_size > 1


def _rank(semantic) -> tl.tensor:
    return tl.tensor(semantic.builder.record("cluster_cta_rank").results[0], tl.int32)


def _needs_launch_control(name: str, semantic) -> None:
    """An error below sm_100 and on AMD."""
    chip = capability(semantic)
    if chip is None:
        refuse(NotImplementedError, f"tlx.{name} is not available on {semantic.builder.options.arch}",
               mend="take the next tile by tl.atomic_add on a counter in global memory")
    if chip < FIRST_CHIP:
        refuse(TargetError, f"tlx.{name} needs cluster launch control, which Blackwell brought (sm_{FIRST_CHIP} or newer), but "
                            f"this kernel is compiled for sm_{chip}", mend="compile for sm_100a, or give each program its tiles by "
                            "`for tile in range(tl.program_id(0), tiles, tl.num_programs(0))`")
