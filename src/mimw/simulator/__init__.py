"""The same program on numpy: tasks, buffers, barriers, copies and dots under a deterministic scheduler.

Input: a program of the IR, a grid, arguments. Output: the arrays as a GPU would leave them, or an error with the lines of the
kernel.

    from mimw.simulator import run; run(program, grid, args, seed=1)

Wings, each of which imports only those before it: `machine`, `memory`, `words`, `search`, `clock`. What this file names is the
room's face: other rooms import from here, and from wings only as docs/ARCHITECTURE.md allows. The machine with a clock is not part
of the face, since simulating needs no cost models.

How a caller takes part in a run, all given before the machine is made:

    seed=17, seed=Guide(schedule)       the strategy: which task goes on next, when an operation in flight lands
    hooks=Hooks(clusters=..)            the clusters that run, of the whole grid
    hooks=Hooks(look=..)                an observer between the steps
    hooks=Hooks(skipped=..)             what is not computed
    hooks=Hooks(observer=..)            a debugger, told of each op, wait, landing and phase
    hooks=Hooks(writers=Writers())      a book of who wrote what in global memory
    watching.set(observer)              an observer of each machine that this context makes, for callers of callers of `run`
"""

from ..ir.trace import Event, Trace
from . import words  # noqa: F401  the handlers of all ops
from .cut_short import cut_short
from .machine.clusters import clusters
from .machine.guide import Guide, check_seed
from .machine.hooks import Hooks
from .machine.launches import asks
from .machine.table import HANDLERS
from .memory.global_memory import describe
from .memory.live_tensors import live_tensors
from .memory.naming import naming
from .memory.worlds import bind_launch
from .memory.writers import Writer, Writers
from .run import Run, run, watching
from .search.counterfactual import flipped_waits, verb_of_pipe
from .search.explore import explore, schedule_of

__all__ = [
    "HANDLERS", "Event", "Guide", "Hooks", "Run", "Trace", "Writer", "Writers", "asks", "bind_launch", "check_seed", "clusters",
    "cut_short", "describe", "explore", "flipped_waits", "live_tensors", "naming", "run", "schedule_of", "verb_of_pipe", "watching",
]
