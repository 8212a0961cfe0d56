"""`tle.raw.call` and `call_smem`: run native code in a kernel.

Input: a `RawFunction` and its arguments. Output: the ops that the function's dialect records, and the new values of what it writes:

    x = tle.raw.call(scale, [x, 2.0])               one tile goes in and comes back
    tle.raw.call_smem(scale, [buffer, 2.0])         in place, in shared memory
"""

from __future__ import annotations

from ...core import word
from ...numbers import is_int
from ...refuse import refuse
from .function import RawFunction


@word
def call(fn, args, output_indices=None, hint="", _semantic=None, _generator=None):
    """Run native code: every thread of the calling task (of the CTA, outside of tasks) executes the function once.

    args:      fn   - what `tle.raw.dialect` or `tle.raw.language` has declared
               args - a list, one for each parameter: tiles (written to shared memory, and read again if the function may write
                      them), buffers of `tle.gpu.alloc` or `tlx.local_alloc` (in place), scalar pointers into global memory,
                      mbarriers, integer and float scalars, numbers
               output_indices - (opt) the positions of the arguments whose new values come back; by default those that are
                      declared InOut or Output and are tiles or buffers
               hint - a label for reports
    returns:   None, one value, or a tuple in the order of the parameters; a declared scalar result comes first, and must be
               the same in all threads
    orders:    all threads of the task have come before the code begins, and are done before the kernel goes on. What the code
               does to memory is what its declaration says: checks, simulator and memory model take that as the truth
    not:       checked: the code itself
    errors:    ValueError; RawCodeError for a source that cannot be compiled or does not fit the declaration
    """
    return _called("call", fn, args, output_indices, hint, False, _semantic, _generator)


@word
def call_smem(fn, args, output_indices=None, hint="", _semantic=None, _generator=None):
    """`call` for arguments that are in shared memory already: as `call`, and a tile among them is refused.

    errors:    ValueError; RawCodeError, as for `call`
    """
    return _called("call_smem", fn, args, output_indices, hint, True, _semantic, _generator)


def _called(word_name: str, fn, args, output_indices, hint, in_place: bool, semantic, generator):
    if not isinstance(fn, RawFunction):
        refuse(ValueError, f"tle.raw.{word_name}: `fn` must be native code, declared by tle.raw.dialect(..), got {fn!r}")
    if not isinstance(args, (list, tuple)):
        refuse(ValueError, f"tle.raw.{word_name}: `args` must be a list of the arguments, got {args!r}",
               mend=f"tle.raw.{word_name}({fn.name}, [x, y])")
    if not isinstance(hint, str):
        refuse(ValueError, f"tle.raw.{word_name}: `hint` must be a string, got {hint!r}")
    return fn.record_call(list(args), _indices(word_name, output_indices, len(args)), hint, in_place, semantic, generator)


def _indices(word_name: str, given, count: int) -> tuple[int, ...] | None:
    if given is None:
        return None
    listed = (given, ) if is_int(given) else tuple(given) if isinstance(given, (list, tuple)) else None
    if listed is None or not all(is_int(one) and -count <= one < count for one in listed) or len(set(listed)) != len(listed):
        refuse(ValueError, f"tle.raw.{word_name}: `output_indices` must be different positions of the {count} arguments, "
                           f"got {given!r}")
    return tuple(one % count for one in listed)
