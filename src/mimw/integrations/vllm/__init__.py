"""vLLM's layers over `mimw.ops`, by vLLM's own registries: norms, SwiGLU, rotary embedding, fp8 products, experts, attention.

Input: vLLM 0.33 on an NVIDIA GPU; the variable MIMW_VLLM. Output: classes in vLLM's registries. For example:

    MIMW_VLLM=rms_norm,rotary vllm serve ...            after `pip install mimw-vllm`, whose entry point calls:
    mimw.integrations.vllm.register()                   ["rms_norm", "rotary"]

One file an operator; each has `STANDS_ON`, the names of vLLM that it uses, and `register`. What vLLM has under these names in the
version that was read is in `../recorded_vllm.json`, and `register` compares it with the vLLM that is installed.
"""

from __future__ import annotations

from mimw.integrations import serving

from . import attention, fp8_block, moe, rms_norm, rotary, silu_and_mul
from .installed import check

OPERATORS = dict(rms_norm=rms_norm, silu_and_mul=silu_and_mul, rotary=rotary, fp8_block=fp8_block, moe=moe, attention=attention)
OFFERED = tuple(OPERATORS)
_DONE: set[str] = set()


def register() -> list[str]:
    """Register the layers that MIMW_VLLM names (by default all); a second call in a process registers nothing more.

    returns:   the names of what is registered by now
    errors:    mimw.integrations.contracts.UnreadVersion for another vLLM than 0.33, ChangedContract for one whose classes have
               other parameters than those that were read; mimw.integrations.serving.UnknownSwitch for a name not in OFFERED
    """
    names = [one for one in OFFERED if one in serving.chosen("MIMW_VLLM", OFFERED)]
    if names:
        check({name for one in names for name in OPERATORS[one].STANDS_ON})
    for name in names:
        if name not in _DONE:
            OPERATORS[name].register()
            _DONE.add(name)
    return names


__all__ = ["OFFERED", "OPERATORS", "register"]
