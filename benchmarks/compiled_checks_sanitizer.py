"""The tests of ConSan, Triton's concurrency sanitizer, for `compiled_checks`: kernels that are wrong on purpose, and right twins.

    SANITIZER["consan-tma_store-FAILURE"]       a Case that is to be found wrong: `is_wrong`

Input: nothing. Output: `SANITIZER`. ConSan finds these mistakes while they run on a GPU; its tests say of each kernel, by an
assertion about what ConSan prints, whether it is wrong. Those of one CTA are here, at one CTA, and some of them at two and four;
each CTA takes tiles of 128 x 128.
"""

from __future__ import annotations

from typing import Any

from .compiled_checks_sources import Case, Launch
from .others_sources import Source

FILE = "triton-lang/triton", "006f4959ba6701dcbdac3fd4ffa9908830a54b2d", "python/test/gluon/test_consan.py"
SANITIZER: dict[str, Case] = {}
TILE, WIDE = "fp16[128,128]/128,128", dict(output="fp16[128]")
WITH_OUT = dict(input_desc=TILE, out="fp16[128,128]")


def case(test: str, is_wrong: bool, args: dict[str, Any], target: int = 90, kernel: str = "kernel",
         results: dict[str, str] | None = None, ctas: int = 1, divided: bool = True, **constants: Any) -> None:
    """A kernel inside a test, or, if `kernel` is "", one of the file, with the test's arguments as its constants. At several CTAs
    the blocks of descriptors are `divided` by rows, or all of a block is in each CTA."""
    said = "-".join(name if value is True else f"{value}" for name, value in constants.items()
                    if value is not False and name != "TWO_CTAS")
    name = f"consan-{test.removesuffix('_kernel')}" + f"-{said}" * bool(said) + f"-{ctas}-ctas" * (ctas > 1)
    function = f"test_{test}.{kernel}" if kernel else test

    def launch(module: Any) -> Launch:
        if ctas == 1:
            return Launch((1,), args, constants, results or {})
        bases = [[1 << bit if divided else 0, 0] for bit in range(ctas.bit_length() - 1)]
        block = module.ttgl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=bases)
        return Launch((1,), args, constants, results or {}, layouts={name: block for name in args if name.endswith("desc")},
                      options=dict(num_ctas=ctas))

    SANITIZER[name] = Case(name, Source(*FILE, function), target, launch, is_wrong=is_wrong)


def twins(test: str, args: dict[str, Any], target: int = 90, kernel: str = "kernel", results: dict[str, str] | None = None,
          **constants: Any) -> None:
    """The wrong one and the right one, whose results are compared."""
    case(test, True, args, target, kernel, None, FAILURE=True, **constants)
    case(test, False, args, target, kernel, results, FAILURE=False, **constants)


case("failing_kernel", True, dict(input="fp16[128,128]"), kernel="")
twins("async_tma_kernel", WITH_OUT, results={"out": "input_desc"})
twins("async_tma_kernel_2bufs_1bar", dict(a_desc=TILE, b_desc=TILE, out="fp16[128,128]"), results={"out": "a_desc + b_desc"})
for delta in (-16, 16):
    case("async_tma_expect_bytes_mismatch", True, WITH_OUT, EXPECT_DELTA=delta)
twins("tma_interleave_kernel", WITH_OUT, results={"out": "input_desc"})
twins("tma_wait_tracks_only_waited_barrier", WITH_OUT, results={"out": "input_desc"})
case("tma_wait_does_not_publish_overwritten_row", True, WITH_OUT, WAIT_LATEST=False)
case("tma_wait_does_not_publish_overwritten_row", False, WITH_OUT, WAIT_LATEST=True)
twins("async_copy", dict(input="fp16[128,128]"))
twins("tma_store", dict(output_desc=TILE))
for kind in ("tma_cp", "local_store", "tmem_load", "tmem_store"):
    twins("tcgen5_mma", dict(input_desc=TILE, output_desc=TILE), 100, MEM_ACCESS_KIND=kind, TWO_CTAS=False)
for kind in ("local_store", "tmem_load"):
    twins("tcgen5_copy", dict(input="i32[128,128]", output="i32[128,128]"), 100, MEM_ACCESS_KIND=kind)
twins("warpgroup_mma", dict(input="fp16[128,128]"))
twins("warpgroup_mma2", dict(input="fp16[128,128]"))
for buffer in (0, 1):
    for barrier in (1, 2, 3):
        case("tcgen5_mma_multibar", barrier // 2 < buffer, dict(input_desc=TILE), 100, BUF_IDX=buffer, BAR_IDX=barrier)
twins("multibuffered_loop", dict(a_desc=TILE, b_desc=TILE), 100)
twins("multibuffered_wgmma_loop", dict(a_desc=TILE, b_desc=TILE))
for test in ("ws_store_wait_load", "ws_load_wait_store"):
    twins(test, WIDE, kernel="ws_kernel", results={"output": "np.arange(128)"})
for where in ("none", "producer_after_arrive", "producer", "consumer"):
    case("fence_async_shared_across_warp_specialize", where in ("none", "producer_after_arrive"), dict(output_desc=TILE),
         FENCE_LOCATION=where)
for test, places in (("ws_two_loads_two_bars", "12"), ("ws_two_loads_two_bars_loop", "0123"), ("ws_different_warp_sizes", "12"),
                     ("ws_two_producers_two_consumers", ("T2", "T3"))):
    for place in ("none", *places):
        case(test, place != "none", WIDE, MISSING_BAR=place)
for test in ("ws_two_loads_one_bar", "ws_load_ordering"):
    twins(test, WIDE)
for test in ("ws_async_copy_commits", "ws_async_copy_wait_visibility"):
    twins(test, dict(input="fp16[128]"))
twins("ws_wgmma_wait_visibility", {})
for test in ("two_partitions", "with_padded_warp_specialize_partition", "overarrival", "underarrival"):
    case(f"deadlock_{test}", True, {})
case("deadlock_after_other_partition_returns", True, {}, TWO_CTAS=False)
case("deadlock_different_phases", False, {})
case("deadlock_exempt_when_tma_signals", False, dict(input_desc=TILE))
case("barrier_underflow", True, {})
for invalidated in (False, True):
    case("barrier_reinit_requires_invalidate", not invalidated, {}, WITH_INVALIDATE=invalidated)
for use in ("wait", "arrive", "invalidate", "expect"):
    case("barrier_use_without_init", True, {}, USE_KIND=use)
for use in ("wait", "arrive", "expect"):
    case("barrier_use_after_invalidate", True, {}, USE_KIND=use)
for missing in (False, True):
    for overlap in (False, True):
        case("aliasing_shared_visibility_outstanding_write", missing and overlap, {}, MISSING_BAR=missing, OVERLAP=overlap)
        case("aliasing_commit_tracking", missing and overlap, dict(input="fp32[128,256]"), MISSING_WAIT=missing, OVERLAP=overlap)
case("aliasing_tma_overwrite_clears_stale_write_visibility", False, dict(input_desc=TILE))
twins("aliasing_tensor_visibility_outstanding_read", {}, 100)
case("async_copy_mma_write_after_read_kernel", True, dict(a_ptr="fp16[128,128]"), 100, "", BLOCK_M=128, BLOCK_N=128, BLOCK_K=128)
case("load_local_alloc_mma_write_after_read_kernel", True, dict(a_ptr="fp16[128,512]", K=512), 100, "", BLOCK_M=128, BLOCK_N=128,
     BLOCK_K=64)
twins("clc_result_visibility", dict(out="i1[1]"), 100)
for ctas in (2, 4):
    tall = f"fp16[{128 * ctas},128]"
    block = f"{tall}/{128 * ctas},128"
    twins("async_tma_kernel_2bufs_1bar", dict(a_desc=block, b_desc=block, out=tall), results={"out": "a_desc + b_desc"}, ctas=ctas)
    twins("tma_interleave_kernel", dict(input_desc=block, out=tall), results={"out": "input_desc"}, ctas=ctas)
    for delta in (-16, 16):
        case("async_tma_expect_bytes_mismatch", True, dict(input_desc=block, out=tall), EXPECT_DELTA=delta, ctas=ctas)
    case("async_tma_multicast_kernel_reuse", False, WITH_OUT, results={"out": "input_desc"}, ctas=ctas, divided=False)
    case("async_tma_multicast_kernel_local_store_race", True, WITH_OUT, ctas=ctas, divided=False)
    twins("clc_result_visibility", dict(out="i1[1]"), 100, ctas=ctas)
