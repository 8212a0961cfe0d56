"""The public names of TLX, word for word; adding or losing one is a decision, made here."""

import importlib
import inspect

import pytest
from triton.runtime.jit import JITFunction

import mimw.tlx as tlx

TASKS = "async_tasks async_task"
TYPES = """layout_encoding shared_layout_encoding swizzled_layout swizzled_shared_layout_encoding padded_shared_layout_encoding
shared_linear_layout_encoding amd_mfma_layout dot_operand_layout tensor_memory_layout_encoding TMemCTAMode
nv_mma_shared_layout_encoding storage_kind layout buffered_tensor buffered_tensor_type storage_alias_spec storage_alias_spec_type
storage_alias_spec_type_class reuse_group reuse_group_type reuse_group_ir_type mbarrier mbarrier_type clc_response
clc_response_type CLCPipelineContext async_token tensor_descriptor_ptr tensor_descriptor_ptr_type DummyRegisterLayoutEncoding"""
MEMORY = """local_alloc local_view local_slice subslice local_load local_store local_gather local_scatter local_trans
local_reinterpret local_reshape tmem_copy zeros remote_view remote_shmem_store async_remote_shmem_store async_remote_shmem_copy"""
COPIES = """async_load async_load_commit_group async_load_wait_group async_store async_descriptor_load async_descriptor_store
async_descriptor_store_wait async_descriptor_prefetch_tensor prefetch allocate_tensor_descriptor make_tensor_descriptor
reinterpret_tensor_descriptor fence fence_async_shared"""
BARRIERS = """alloc_barriers alloc_warp_barrier barrier_expect_bytes barrier_wait barrier_arrive named_barrier_wait
named_barrier_arrive cluster_barrier fence_mbarrier_init_cluster"""
MMA = "async_dot async_dot_wait async_dot_scaled tcgen05_commit dot_scaled"
CLC = "clc_create_context clc_producer clc_consumer _alloc_clc_responses _clc_issue _clc_query"
LAYOUTS = "require_layout release_layout assert_same_layout dump_layout require_amd_wmma_layout"
UTILITIES = """cluster_cta_rank cluster_size_1d thread_id async_task_replica_id dtype_of size_of get_fp8_format_name clock64
stoch_round vote_ballot_sync warp_redux _to_mxfp8_block"""
AMD = """buffer_load buffer_store buffer_atomic_add buffer_load_to_local assume_uniform async_amd_descriptor_load
async_amd_descriptor_load_fused async_amd_descriptor_store async_amd_descriptor_wait amd_descriptor_prefetch_tensor
update_tensor_descriptor extract_slice rematerialized_range amd_register_resident amd_register_handoff amd_scheduled_mfma
amd_mfma_commit amd_sched_barrier warp_pipeline_stage"""
OURS = """barrier_try_wait async_descriptor_gather async_descriptor_scatter peer_pointer signal wait_signal world_barrier world_rank
world_size multicast_pointer multimem_load_reduce multimem_reduce multimem_store"""  # not of the published language
PUBLIC = " ".join((TASKS, TYPES, MEMORY, COPIES, BARRIERS, MMA, CLC, LAYOUTS, UTILITIES, AMD, OURS)).split()


def test_the_list():
    assert sorted(tlx.__all__) == sorted(PUBLIC)


def test_every_name_is_there():
    assert [name for name in PUBLIC if not hasattr(tlx, name)] == []


def test_star_import():
    scope = {}
    exec("from mimw.tlx import *", scope)
    assert set(PUBLIC) <= set(scope)


@pytest.mark.parametrize("name", ["inline_ptx_lib", "mem_ops", "mxfp8_utils", "subtile_ops", "types", "warp_ops", "warp_spec"])
def test_submodules_are_attributes_and_importable(name):
    module = importlib.import_module(f"mimw.tlx.{name}")
    assert getattr(tlx, name) is module
    assert [item for item in module.__all__ if not hasattr(module, item)] == []


def test_mem_ops_holds_the_same_words():
    assert tlx.mem_ops.local_alloc is tlx.local_alloc


def test_kernels_may_name_every_one_as_a_global():
    """Triton accepts as globals of a kernel helpers and what is marked as a builtin; modules of ours are not on its own list."""
    assert [name for name in PUBLIC if not getattr(getattr(tlx, name), "__triton_builtin__", False)
            and not isinstance(getattr(tlx, name), JITFunction) and name not in _VALUES_ONLY] == []


# Types that a kernel never names: they are made on the host, or by words.
_VALUES_ONLY = {
    "buffered_tensor", "buffered_tensor_type", "storage_alias_spec_type", "reuse_group_ir_type", "mbarrier", "mbarrier_type",
    "clc_response", "clc_response_type", "async_token", "tensor_descriptor_ptr", "tensor_descriptor_ptr_type"
}

SIGNATURES = {
    "local_alloc": "shape dtype num storage=storage_kind.smem reuse=None layout=None",
    "local_load": "src token=None layout=None relaxed=False rematerialize_coordinates=False rematerialize_coordinates_group=None",
    "local_trans": "buf dims=(1, 0)",
    "alloc_barriers": "num_barriers arrive_count=1",
    "barrier_arrive": "bar arrive_count=1 remote_cta_rank=None pred=None",
    "barrier_wait": "bar phase pred=None",
    "barrier_expect_bytes": "bar size pred=None",
    "async_load": "src result mask=None other=None cache_modifier='' eviction_policy='' is_volatile=False bulk=False "
                  "bulk_size=None barrier=None",
    "async_descriptor_load": "desc result offsets barrier pred=None cache_modifier='' eviction_policy='' multicast_targets=() "
                             "two_ctas=False",
    "async_descriptor_store": "desc source offsets eviction_policy='' store_reduce=''",
    "async_dot": "A B acc=None use_acc=None pred=None mBarriers=() two_ctas=False force_async=False input_precision=None "
                 "out_dtype=triton.language.float32",
    "async_dot_wait": "pendings inp",
    "make_tensor_descriptor": "desc_ptr base shape strides block_shape padding_option='zero'",
    "amd_scheduled_mfma": "a b acc accumulator_role resident_operand=None accumulator_register_class=None initialize=False",
}


OUR_PARAMETERS = {"async_dot": " registers=None"}      # behind the published ones


def _spelled(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={default if isinstance(default, tlx.storage_kind) else repr(default)}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_parameters_and_defaults(name):
    parameters = inspect.signature(getattr(tlx, name)).parameters.values()
    visible = " ".join(_spelled(p) for p in parameters if p.name not in ("_semantic", "_generator"))
    assert visible == SIGNATURES[name] + OUR_PARAMETERS.get(name, "")


def test_the_annotation_of_reuse_names_both_kinds():
    annotation = str(inspect.signature(tlx.mem_ops.local_alloc).parameters["reuse"].annotation)
    assert "buffered_tensor" in annotation and "storage_alias_spec" in annotation


def test_every_word_says_what_it_does():
    assert [name for name in PUBLIC if not (getattr(tlx, name).__doc__ or "").strip()] == []
