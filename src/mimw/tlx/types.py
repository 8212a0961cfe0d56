"""`mimw.tlx.types`: the values, types and layouts that can be made in plain Python."""

from ..language.tlx.alias import (
    reuse_group,
    reuse_group_ir_type,
    reuse_group_type,
    storage_alias_spec_type,
    storage_alias_spec_type_class,
)
from ..language.tlx.layouts import (
    TMemCTAMode,
    layout_encoding,
    nv_mma_shared_layout_encoding,
    padded_shared_layout_encoding,
    shared_layout_encoding,
    shared_linear_layout_encoding,
    swizzled_layout,
    swizzled_shared_layout_encoding,
    tensor_memory_layout_encoding,
)
from ..language.tlx.register_layouts import DummyRegisterLayoutEncoding, amd_mfma_layout, dot_operand_layout, layout
from ..language.tlx.types import (
    CLCPipelineContext,
    async_token,
    buffered_tensor,
    buffered_tensor_type,
    clc_response,
    clc_response_type,
    mbarrier,
    mbarrier_type,
    storage_kind,
    tensor_descriptor_ptr,
    tensor_descriptor_ptr_type,
)

__all__ = [
    "CLCPipelineContext", "DummyRegisterLayoutEncoding", "TMemCTAMode", "amd_mfma_layout", "async_token", "buffered_tensor",
    "buffered_tensor_type", "clc_response", "clc_response_type", "dot_operand_layout", "layout", "layout_encoding", "mbarrier",
    "mbarrier_type", "nv_mma_shared_layout_encoding", "padded_shared_layout_encoding", "reuse_group", "reuse_group_ir_type",
    "reuse_group_type", "shared_layout_encoding", "shared_linear_layout_encoding", "storage_alias_spec_type",
    "storage_alias_spec_type_class", "storage_kind", "swizzled_layout", "swizzled_shared_layout_encoding",
    "tensor_descriptor_ptr", "tensor_descriptor_ptr_type", "tensor_memory_layout_encoding",
]
