"""Operators of several GPUs: each a function of this rank's tensors and a process group, and an operator `mimw::NAME` of torch.

Input: tensors of this rank's GPU, or of the CPU, where each rank simulates all of them; a process group. Output: this rank's part
of the result. For example, in each process that torchrun has started:

    mimw.distributed.init()
    y = ops.distributed.NAME(x)                     the default group; group=... another
    torch.ops.mimw.NAME(x, group_name)              the same, as torch.compile and exported graphs show it
"""

from .all_gather_matmul import all_gather_matmul
from .all_to_all import all_to_all
from .collectives import all_gather, all_reduce, all_reduce_, reduce_scatter
from .matmul_reduce_scatter import matmul_all_reduce, matmul_reduce_scatter
from .moe import moe
from .moe_combine import moe_combine
from .moe_dispatch import Dispatched, Handle, moe_dispatch
from .moe_dispatch_rows import Listed, moe_dispatch_rows
from .moe_experts import moe_experts
from .ring_attention import ring_attention

__all__ = ["Dispatched", "Handle", "Listed", "all_gather", "all_gather_matmul", "all_reduce", "all_reduce_", "all_to_all",
           "matmul_all_reduce", "matmul_reduce_scatter", "moe", "moe_combine", "moe_dispatch", "moe_dispatch_rows",
           "moe_experts", "reduce_scatter", "ring_attention"]
