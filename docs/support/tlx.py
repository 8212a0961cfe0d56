"""Writes docs/tlx.md: each TLX name, its parameters, and where it works, found out by compiling a probe for each chip.

    python docs/support/tlx.py            write the table
    python docs/support/tlx.py --check    exit with 1 if it is stale
"""

from __future__ import annotations

import inspect
import sys
from enum import Enum
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

import page  # noqa: E402
import probes  # noqa: E402
from reflow import reflow  # noqa: E402

import mimw.tlx as tlx  # noqa: E402
from mimw.compiler.passes.check_target import word_targets  # noqa: E402

TARGETS = ("sm_80", "sm_90a", "sm_100a", "gfx942", "gfx950", "gfx1250")

FAMILIES = {
    "Tasks": "async_tasks async_task async_task_replica_id",
    "Local memory": "local_alloc local_alloc__tmem local_view local_slice subslice local_load local_store local_gather "
                    "local_scatter local_trans local_reinterpret local_reshape zeros tmem_copy storage_alias_spec "
                    "reuse_group reuse_group_type",
    "Barriers and fences": "alloc_barriers alloc_warp_barrier barrier_expect_bytes barrier_wait barrier_try_wait barrier_arrive "
                           "barrier_arrive__remote named_barrier_wait named_barrier_arrive cluster_barrier "
                           "fence_mbarrier_init_cluster fence fence_async_shared",
    "Copies": "async_load async_load__bulk async_load_commit_group async_load_wait_group async_store async_descriptor_load "
              "async_descriptor_load__multicast async_descriptor_store async_descriptor_store_wait "
              "async_descriptor_gather async_descriptor_scatter "
              "async_descriptor_prefetch_tensor prefetch prefetch__tensormap allocate_tensor_descriptor "
              "make_tensor_descriptor reinterpret_tensor_descriptor",
    "Clusters": "cluster_cta_rank cluster_size_1d remote_view remote_shmem_store async_remote_shmem_store "
                "async_remote_shmem_copy",
    "Several GPUs": "world_rank world_size peer_pointer signal wait_signal world_barrier multicast_pointer multimem_load_reduce "
                    "multimem_store multimem_reduce",
    "Matrix multiply": "async_dot async_dot__tmem async_dot__two_ctas async_dot_wait async_dot_scaled async_dot_scaled__two_ctas "
                       "tcgen05_commit dot_scaled",
    "Cluster launch control": "clc_create_context clc_producer clc_consumer _alloc_clc_responses _clc_issue _clc_query",
    "Layouts": "require_layout release_layout assert_same_layout dump_layout require_amd_wmma_layout layout swizzled_layout "
               "swizzled_shared_layout_encoding nv_mma_shared_layout_encoding padded_shared_layout_encoding "
               "shared_linear_layout_encoding amd_mfma_layout dot_operand_layout",
    "Utilities": "thread_id dtype_of size_of get_fp8_format_name clock64 vote_ballot_sync stoch_round warp_redux "
                 "_to_mxfp8_block",
    "AMD": "buffer_load buffer_store buffer_atomic_add buffer_load_to_local assume_uniform async_amd_descriptor_load "
           "async_amd_descriptor_load_fused async_amd_descriptor_store async_amd_descriptor_wait "
           "amd_descriptor_prefetch_tensor update_tensor_descriptor extract_slice rematerialized_range "
           "amd_register_resident amd_register_handoff amd_scheduled_mfma amd_mfma_commit amd_sched_barrier "
           "warp_pipeline_stage",
}

PREFACE = """# TLX: the functions of each chip

`yes`: the call compiles, or runs on the simulator (as an sm_90a, or as another chip if only that has the function).
`-`: the chip cannot do it, and mimw refuses the call with its line.
`NotYet`: the name can be imported and its arguments are checked, and the call raises `mimw.errors.NotYet`.

`python docs/support/tlx.py` makes this page: it compiles a probe of each name (docs/support/probes.py) to a binary for each chip,
and runs it on the simulator, as an sm_90a or, if that lacks the function, as an sm_100a or a gfx1250. Do not edit it by hand; a
test compares.
"""

NOTES = """## Rules and exceptions

* `async_tasks(mbarrier_try_wait_suspend_ns=)` becomes the suspend-time hint of every barrier wait of the kernel.
  `no_ending_cluster_sync` has nothing to leave out below sm_100. `async_task(warp_group_start_id=)` is checked and is a hint:
  Triton numbers the warps.
* `local_load(relaxed=, rematerialize_coordinates=)` and `require_layout(late_address_compute=)` are hints for AMD, without
  effect elsewhere.
* An `amd_mfma_layout` decides the products whose sum lies in it, or whose operands lie in a `dot_operand_layout` of it: `tl.dot`
  is then that MFMA instruction, and an operand without a layout of its author is converted. `dot_scaled` does the same on gfx950,
  whose instructions with scales are 16x16x128 and 32x32x64. A product for which there is no instruction is refused with its line.
  `extract_slice`, `amd_register_resident`, `amd_register_handoff`, `amd_scheduled_mfma` and `amd_mfma_commit` give the same numbers
  on every chip; without such an instruction they become a gather, a plain `tl.dot`, or nothing. This code is compiled, its
  instructions are tested, and it is simulated; none of it has run on an AMD chip.
* A tile of `local_load`, or of a `tl.load` by a pointer into shared memory, that is cast or transposed and then an operand of
  one `tl.dot` or `async_dot` is read as the operand: `tl.dot(q, local_load(k).to(bf16))` of fp8 or int8 takes `ldmatrix`, or four
  bytes a thread on AMD, where elements lie together along K, and 16 bytes at a time elsewhere. Byte by byte remain tiles of 8 bits
  that the tensor core takes as they are and that lie together along M or N (wgmma of fp8 and int8, mma.sync of int8, MFMA of fp8):
  let those have K last in the buffer; they may be transposed on the way.
* A launch takes `ctas_per_cga` or `cluster_dims` of up to 16 CTAs on sm_90a, sm_100a and sm_103a (above 8 mimw asks the driver for
  the size that is not portable), 8 on sm_120a. `preferred_ctas_per_cga` is refused below sm_100. From there on it is checked (a
  multiple of `ctas_per_cga` that divides the grid) and a hint: Triton's launcher passes no such attribute to the driver, and the
  hardware may launch regular clusters at any time anyway. `launch_cluster` is accepted. `launch_cooperative_grid` is Triton's own.
* Without a cluster a CTA has rank 0 in a cluster of one: remote stores and copies, multicast to rank 0 and `cluster_barrier` work.
  A `remote_view`, and `barrier_arrive(remote_cta_rank=)`, are refused then. Code that can never run, for instance under
  `if cluster_cta_rank() != 0`, compiles.
* `multicast_pointer` and the multimem functions are compiled to PTX that ptxas takes, and simulated; they have not run on a GPU,
  since none of those used has NVLink multicast. On such a GPU the table of a world has no multicast address, and a kernel that asks
  for it ends in a trap.
* The functions of AMD's data mover (`async_amd_descriptor_load` and its kin), and `desc.load` and `desc.store` on gfx1250, take any
  offset: the engine has no 16-byte rule. A block that begins in front of the tensor (a negative offset) is wholly outside of it
  there: it reads as zeros, and a store of it is dropped. The engine pads with zeros only. A buffer that is pinned to a layout which
  the engine does not write lies in plain rows, with a warning. None of that code has run on a chip.
* `wait_signal` and `world_barrier` on gfx942, gfx950 and gfx1250 are assembly that LLVM's assembler takes; none of it has run
  on a chip.
* Named barriers count warps: `named_barrier_wait(14, 32)` in a task of four warps is four rounds, and orders nothing between tasks.
  A warp counts for 32 threads on every chip, a wave of AMD's also, whatever its lanes, and also on a barrier of
  `alloc_warp_barrier`.
* Tasks and barriers on AMD: gfx942 and gfx950 have neither barriers of a part of the waves nor barriers with phases, so mimw keeps
  the syncs of a task, its barriers and named barriers as integers in LDS (`compiler/triton_port/gfx9_tasks.py`,
  `amd_functions.py`); gfx1250 has both in hardware. `registers` and `num_regs` do nothing. The code is tested and simulated, and
  has not run on a chip.
* TMA copies, `async_dot` into registers and `fence("async_shared")` become other ops on AMD: copies by pointers, products that are
  done at once, nothing (docs/AMD.md). `make_tensor_descriptor` takes None for its slot there.
* `async_dot(use_acc=, pred=, mBarriers=, two_ctas=, force_async=)` are for sm_100 and have no effect on Hopper. On sm_100 `pred`
  also controls the arrivals on `mBarriers`. The functions of sm_100 are compiled, their PTX and SASS are tested, and they are
  simulated; none of that code has run on a chip.
* `async_dot(input_precision="tf32x3" or "ieee")` waits for the accumulator given to it, and has computed its own
  when it returns: the tensor core multiplies float32 as tf32 only.
* One rule says where a TMA copy may begin, for all functions, and for Triton's `desc.load`, `desc.store` and `desc.atomic_*`. The
  last offset must be a multiple of 16 bytes, in loads, multicast, prefetches, stores, reductions and the first column of picked
  rows. A read may begin in front of the tensor (negative offsets); a store, a reduction and a scatter may not, though they may
  reach over the far edges. On a violation the GPU reports "an illegal instruction was encountered", and the context is lost; the
  compiler and the simulator raise `IllegalCopy`. Begin at 0 with a block that is shifted or cut, or store under a mask by
  `tl.store`. Bulk copies take addresses and sizes in multiples of 16 bytes (`misaligned address`). docs/MEMORY_MODEL.md has the
  table of such limits.
* `async_descriptor_load(multicast_targets=)`, `prefetch(tensormap=True)`, `async_descriptor_prefetch_tensor` and
  `async_descriptor_store(store_reduce=)` with an `eviction_policy` name the descriptor by its address, as `async_descriptor_gather`
  and `async_descriptor_scatter` do on sm_90 and sm_120; if an `if` or a loop passes the descriptor on, the address goes with it.
* `async_dot(registers=)` is an extension of the published language, for Hopper: a tile whose registers the result takes. It has no
  effect on Blackwell, whose products lie in tensor memory.
* `async_descriptor_gather` and `async_descriptor_scatter` are extensions of the published language. On sm_90 and sm_120 each row
  is a copy; rows of 32 and 64 bytes go through 128 bytes of shared memory each there, and a gather of such rows waits for them.
* `stoch_round` rounds neighbours along the last dimension together, four to fp8 and two to 16 bits, by the random
  bits of the first of them; the simulator takes the random bits of each element as `cvt.rs` does. The layout decides
  which elements `warp_redux` combines: 32 rows of one column in a tile from tensor memory, also when
  its shape has been changed.
* `async_task_replica_id()` under a plain name stays a constexpr, and so does what is computed from it and constants.
* `desc.store(offsets, value, store_reduce="add")` (or min, max, and, or, xor) combines; `[f(i) for i in range(N)]` is
  a tuple for a constexpr `N`. Buffers may have the rank of a descriptor's block less its leading ones. Arrays of
  `float8_e8m0fnu` are bytes in kernels.
* Bytes (8-bit integers) in tensor memory are tables of scales. Where a product takes them as operand A, a view has another type, or
  `tmem_copy` writes 32 rows for each warp, they lie as a tile, which is a quarter as wide; an array is one of the two. fp4 as
  operand A there is multiplied by fp4 only.
* A pinned layout (`local_alloc(layout=)`) without a swizzle, or with `fp4Padded`, becomes that of the descriptor that
  fills the buffer.
* The modules `triton.language.extra.subtile_ops`, `triton.language.extra.cuda.inline_ptx_lib` and `warp_ops`,
  `mxfp8_utils` of TLX are those of `mimw.tlx`. `tl.inline_asm_elementwise` is simulated where each instruction has a
  meaning there: `cvt`, arithmetic on numbers and on pairs, logic, `mov`, `prmt`, `redux.sync`; not memory, branches and
  special registers.
"""


def cells_of(name: str) -> list[str]:
    """What the table says of a probe: one cell for each chip, and the simulator's."""
    kernel = probes.PROBES[name]
    signature = {parameter: probes.SIGNATURE[parameter] for parameter in kernel.arg_names if parameter in probes.SIGNATURE}
    options = {"ctas_per_cga": (2, 1, 1)} if probes.CLUSTERED.get(name) else {}
    options |= {"num_warps": probes.WARPS[name]} if name in probes.WARPS else {}
    return [page.works(name, kernel, signature, target, **options) for target in TARGETS] + [
        page.simulates(name, kernel, (2, ), **options)]


def parameters(name: str) -> str:
    """How a name is called, as in a signature."""
    item = getattr(tlx, name)
    if isinstance(item, type) and issubclass(item, Enum):
        return ": " + ", ".join(item.__members__)
    shown, named_only = [], False
    for parameter in inspect.signature(getattr(item, "fn", item)).parameters.values():
        if parameter.name.startswith("_") or parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            named_only = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not named_only:
            shown.append("*")
            named_only = True
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_value(parameter.default)}"
        shown.append(f"{star}{parameter.name}{default}")
    return f"({', '.join(shown)})"


def _value(value) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value).replace("triton.language", "tl")


def table(cells_of=cells_of) -> str:
    """The whole page; `cells_of(probe)` are the cells of its row."""
    lines = [PREFACE]
    shown = set()
    for family, names in FAMILIES.items():
        lines += [f"## {family}", "", f"| Name | {' | '.join(TARGETS)} | simulator |", "|---" * (len(TARGETS) + 2) + "|"]
        for name in names.split():
            word, _, more = name.partition("__")
            shown.add(word)
            call = f"`{word}{'' if more else parameters(word)}`{f', {more}' if more else ''}"
            lines.append(f"| {call} | {' | '.join(cells_of(name))} |")
        lines.append("")
    rest = sorted(set(tlx.__all__) - shown, key=str.lower)
    assert all(isinstance(getattr(tlx, name), type) for name in rest), f"names in no family: {rest}"
    lines += ["## Types and values", "", "Plain values, wherever Python runs.", "", "| Name | |", "|---|---|"]
    for name in rest:
        lines.append(f"| `{name}{parameters(name)}` | {inspect.getdoc(getattr(tlx, name)).splitlines()[0]} |")
    lines += ["", "## Functions that some chips lack", "",
              "mimw refuses them before all other checks (`compiler/passes/check_target.py`).", "",
              "| Function | Chips that have it |", "|---|---|"]
    lines += [f"| `{word}` | {', '.join(chips)} |" for word, chips in word_targets().items()]
    return reflow("\n".join([*lines, "", NOTES]))


def main(arguments: list[str]) -> int:
    return page.write_or_check(page.PAGES / "tlx.md", table, "tlx.py", arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
