"""The same program on numpy: tasks, buffers, barriers, copies and dots under a deterministic scheduler."""

# Importing the op families puts their handlers into the table.
from . import (  # noqa: F401
    barrier,
    bulk,
    cluster,
    control,
    copies,
    descriptor,
    descriptor_slots,
    dot,
    globals,
    libdevice,
    meetings,
    misc,
    named_barrier,
    pins,
    pointers,
    regions,
    remote,
    remote_elements,
    shared,
    tiles,
)
from .counterfactual import flipped_waits, verb_of_pipe
from .explore import explore, schedule_of
from .guide import Guide
from .run import Run, run
from .table import HANDLERS
from .trace import Event, Trace

__all__ = ["HANDLERS", "Event", "Guide", "Run", "Trace", "explore", "flipped_waits", "run", "schedule_of", "verb_of_pipe"]
