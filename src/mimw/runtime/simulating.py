"""Whether launches of this process run on the simulator; apart from the simulator, which is loaded when one does.

Input: the environment and the machine. Output: True or False, asked on every launch:

    MIMW_SIMULATE=1             simulating() is True; so it is where there is no GPU
    MIMW_SIMULATE=0             simulating() is False
"""

from __future__ import annotations

import os

from ..compiler.triton_port.runtime import gpu_is_active

# Asked on every launch: `os.environ.get` takes a microsecond where the variable is not set, the mapping below it a twentieth.
_ENVIRONMENT = os.environ._data
_SIMULATE, *_NO = map(os.environ.encodevalue, ("MIMW_SIMULATE", "", "0"))


def simulating() -> bool:
    """True where a launch runs on the simulator: MIMW_SIMULATE=1, or no GPU and not MIMW_SIMULATE=0."""
    wanted = _ENVIRONMENT.get(_SIMULATE)
    return not gpu_is_active() if wanted is None else wanted not in _NO
