"""The library as torch operators: each a function of tensors, and an operator `mimw::NAME` of `torch.library`.

Input: torch tensors of a GPU, or of the CPU, which are simulated. Output: torch tensors. For example:

    from mimw import ops
    c = ops.matmul(a, b)
    torch.ops.mimw.matmul(a, b)         the same, as torch.compile and exported graphs show it
"""

from importlib import import_module

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("mimw.ops are operators of torch, which is not installed: pip install 'mimw[torch]'") from error

from . import flash_attention_impl  # noqa: F401
from .addmm import addmm
from .attention import attention
from .attention_decode import attention_decode
from .attention_varlen import attention_varlen
from .available import Available, available
from .cross_entropy import cross_entropy
from .explain import Explanation, explain
from .gather_matmul_scatter import gather_matmul_scatter
from .grouped_matmul import grouped_matmul
from .launching import SimulationWarning
from .lightning_indexer import lightning_indexer, lightning_indexer_decode
from .linear_attention import linear_attention
from .linear_attention_step import linear_attention_step
from .linear_cross_entropy import linear_cross_entropy
from .matmul import matmul
from .mla_decode import mla_decode
from .moe import moe
from .moe_align import moe_align
from .norm import layer_norm, rms_norm
from .rope import rope
from .scaled_dot_product_attention import scaled_dot_product_attention
from .scaled_mm import scaled_mm
from .simplicial_attention import simplicial_attention
from .softmax import log_softmax, softmax
from .sparse_mla import sparse_mla
from .swiglu import swiglu
from .topk import TopK, topk
from .topk_selector import topk_selector


def __getattr__(name: str):
    """`ops.distributed`, the operators of several GPUs, loaded at its first use: nothing else needs torch.distributed."""
    if name != "distributed":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f".{name}", __name__)


def __dir__() -> list[str]:
    """The operators and what speaks of them: modules of the same names are no part of it."""
    return sorted([*__all__, "distributed", "__doc__", "__file__", "__name__", "__path__"])


__all__ = ["Available", "Explanation", "SimulationWarning", "TopK", "addmm", "attention", "attention_decode", "attention_varlen",
           "available", "cross_entropy", "explain", "gather_matmul_scatter", "grouped_matmul", "layer_norm",
           "lightning_indexer", "lightning_indexer_decode", "linear_attention", "linear_attention_step",
           "linear_cross_entropy", "log_softmax", "matmul", "mla_decode", "moe", "moe_align", "rms_norm", "rope",
           "scaled_dot_product_attention", "scaled_mm", "simplicial_attention", "softmax", "sparse_mla", "swiglu",
           "topk", "topk_selector"]
