"""The results of a launch, held against what its author expects.

Input: `expected=` of a case or a call, and a run that notes its writers. Output: nothing, or a `WrongResult`. For example:

    wanted = expectations({"y": x.sum(0)}, None, launch)        before the run
    run(..., hooks=Hooks(writers=writers))
    wrong = first_wrong(wanted)                                 'y'[3]: 18 and not 21
    raise wrong_result(wrong, launch.program, writers)          ... with the store, its program and the lines that made the value

The files:

    arrays.py        arguments of all kinds as numpy arrays, and where their elements lie
    expected.py      which arrays are expected to hold what
    compare.py       the first element that differs by more than its type's tolerance
    wrong.py         the error about that element
    unwritten.py     results of which a part was written by no program
"""

from .compare import Wrong, first_wrong
from .expected import Expected, expectations
from .unwritten import unwritten
from .wrong import wrong_result

__all__ = ["Expected", "Wrong", "expectations", "first_wrong", "unwritten", "wrong_result"]
