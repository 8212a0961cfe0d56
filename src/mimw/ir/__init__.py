"""The waist: tasks, buffers, barriers, copies, dots and the tile arithmetic between them, without layouts.

Input: what the frontend records, or text. Output: a `Program`, which every later stage reads. For example:

    program = parse_program(text); verify(program); print_program(program) == text
"""

from .build import Builder, Placed
from .core import Block, Names, Op, Param, Program, Task, Value
from .launch_facts import ALONE, LaunchFacts
from .line_warnings import LineWarning, collected_warnings, warn_at
from .ops import OPS, OpDef
from .parser import parse_program
from .place import Place
from .printer import print_op, print_program
from .recording import Recording
from .site import UNKNOWN, Site
from .types import (
    I1,
    I32,
    I64,
    Barrier,
    Buffer,
    Descriptor,
    DescriptorSlots,
    Pipe,
    Pointer,
    Scalar,
    Storage,
    Tensor,
    Token,
    Type,
    like,
)
from .verify import Known, verify
from .wait_table import WaitTable
from .workspace import workspace_stride

__all__ = [
    "ALONE", "Barrier", "Block", "Buffer", "Builder", "Descriptor", "DescriptorSlots", "I1", "I32", "I64", "Known",
    "LaunchFacts", "LineWarning", "Names", "OPS", "Op", "OpDef", "Param", "Pipe", "Place", "Placed", "Pointer", "Program",
    "Recording", "Scalar", "Site", "Storage", "Task", "Tensor", "Token", "Type", "UNKNOWN", "Value", "WaitTable",
    "collected_warnings", "like", "parse_program", "print_op", "print_program", "workspace_stride", "verify", "warn_at",
]
