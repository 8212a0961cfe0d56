"""SGLang's layers over `mimw.ops`, by hooks around its functions for CUDA: norms, SwiGLU, rotary embedding, experts, decoding.

Input: SGLang 0.5.23 on an NVIDIA GPU; the variable MIMW_SGLANG. Output: hooks in SGLang's registry. For example:

    MIMW_SGLANG=rms_norm python -m sglang.launch_server ...     after `pip install mimw-sglang`, whose entry point calls:
    mimw.integrations.sglang.register()                         ["rms_norm"]

Each module has `HOOKS`, the functions of SGLang and ours around them by the operator's name, and `STANDS_ON`, the names of SGLang
that they use; what these are in the version that was read is in `../recorded_sglang.json`.
"""

from __future__ import annotations

from importlib.metadata import version

from mimw.integrations import contracts, serving

from . import attention, layers, modes, moe

HOOKS = {**layers.HOOKS, **moe.HOOKS, **attention.HOOKS}
OFFERED = tuple(HOOKS)
VERSION = "0.5.23"
_REGISTRY = (*modes.STANDS_ON, *contracts.names_of("sglang.srt.plugins.hook_registry:HookRegistry", "register"),
             *contracts.names_of("sglang.srt.plugins.hook_registry:HookType", "AROUND"))
_STANDS_ON = {name: module.STANDS_ON for module in (layers, moe, attention) for name in module.HOOKS}
STANDS_ON = {*_REGISTRY, *(name for names in _STANDS_ON.values() for name in names)}
_DONE: set[str] = set()


def register() -> list[str]:
    """Register the hooks that MIMW_SGLANG names (by default all); a second call in a process registers nothing more.

    returns:   the names of what is registered by now
    errors:    mimw.integrations.contracts.UnreadVersion for another SGLang than 0.5.23, ChangedContract for one whose functions
               have other parameters; mimw.integrations.serving.UnknownSwitch for a name not in OFFERED. SGLang logs an error of a
               plugin and runs without the plugin
    """
    names = [one for one in OFFERED if one in serving.chosen("MIMW_SGLANG", OFFERED)]
    if not names:
        return names
    contracts.check("sglang", VERSION, version("sglang"), [*_REGISTRY, *(name for one in names for name in _STANDS_ON[one])])
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    for name in names:
        if name not in _DONE:
            for target, hook in HOOKS[name].items():
                HookRegistry.register(target, hook, HookType.AROUND)
            _DONE.add(name)
    return names


__all__ = ["HOOKS", "OFFERED", "STANDS_ON", "VERSION", "register"]
