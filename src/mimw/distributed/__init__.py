"""`mimw.distributed`: real GPUs, one process each, over torch.distributed; what `mimw.World` is where GPUs are simulated.

Input: processes that torchrun has started. Output: a world, which kernels take as their table, and symmetric tensors:

    world = mimw.distributed.init()
    x, flag = world.symmetric(64, torch.float32), world.symmetric(2, torch.int32)
    pass_on[(2, )](x, y, flag, world, 32)               docs/DISTRIBUTED.md has the kernel

Start, rendezvous and memory are torch's: a process group, its store, and torch.distributed._symmetric_memory. torch is loaded when
one of these functions is called.
"""

from .start import bind, init, symmetric_empty, world_of
from .world import GroupWorld

World = GroupWorld      # its public name; `mimw.World` is the world of simulated GPUs

__all__ = ["World", "bind", "init", "symmetric_empty", "world_of"]
