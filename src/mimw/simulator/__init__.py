"""The same program on numpy: tasks, buffers, barriers, copies and dots under a deterministic scheduler."""

from ..trace import Event, Trace
from . import words  # noqa: F401  the handlers of all ops
from .machine.guide import Guide
from .machine.table import HANDLERS
from .run import Run, run
from .search.counterfactual import flipped_waits, verb_of_pipe
from .search.explore import explore, schedule_of

__all__ = ["HANDLERS", "Event", "Guide", "Run", "Trace", "explore", "flipped_waits", "run", "schedule_of", "verb_of_pipe"]
