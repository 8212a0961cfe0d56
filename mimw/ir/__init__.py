"""The waist: tasks, buffers, barriers, copies, dots and the tile arithmetic between them, without layouts."""

from .core import Block, Op, Param, Program, Task, Value
from .ops import OPS, OpDef
from .printer import print_op, print_program
from .recorder import Recorder
from .site import UNKNOWN, Site
from .types import (I32, I64, Barrier, Buffer, Descriptor, DescriptorSlots, Pointer, Scalar, Tensor, Token, Type,
                    like)
from .verify import verify

__all__ = [
    "Barrier", "Block", "Buffer", "Descriptor", "DescriptorSlots", "I32", "I64", "OPS", "Op", "OpDef", "Param", "Pointer",
    "Program", "Recorder", "Scalar", "Site", "Task", "Tensor", "Token", "Type", "UNKNOWN", "Value", "like", "print_op",
    "print_program", "verify",
]
