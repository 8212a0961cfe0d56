"""The public words that this release does not offer, with their parameters: each can be imported, and says so when called.

A word leaves this table when it is implemented in the file of its family.
"""

from __future__ import annotations

import ast
import inspect

from ..core import not_yet, word

# name: parameters; `name=value` has a default.
WORDS = {
    # buffers
    "subslice": "buf offset size",
    "tmem_copy": "src dst",
    # cluster launch control
    "clc_create_context": "num_consumers num_stages=1",
    "clc_producer": "context p_producer=None multi_ctas=True k=0",
    "clc_consumer": "context p_consumer=None multi_ctas=True k=0 return_3d=False",
    "_alloc_clc_responses": "num",
    "_clc_issue": "response barrier",
    "_clc_query": "response",
    # layouts
    "require_amd_wmma_layout": "src version=3 transposed=True warp_bases=((0,2),(2,0)) reg_bases=((0,1),(1,0)) "
                               "instr_shape=(16,16,128)",
    # utilities
    "_to_mxfp8_block": "x VEC_SIZE dtype",
    # AMD
    "rematerialized_range": "start end identity placement=None",
    "amd_register_resident": "value register_class='agpr' registers_per_group=1",
    "amd_register_handoff": "value register_class='vgpr'",
    "amd_scheduled_mfma": "a b acc accumulator_role resident_operand=None accumulator_register_class=None initialize=False",
    "amd_mfma_commit": "value preserve=None",
}


def _parameters(declared: str) -> list[inspect.Parameter]:
    parameters = []
    for text in declared.split():
        name, has_default, default = text.partition("=")
        value = ast.literal_eval(default) if has_default else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return parameters


def _declare(name: str, declared: str):

    def not_offered(*args, _semantic=None, **kwargs):
        raise not_yet(_semantic, name)

    not_offered.__name__ = not_offered.__qualname__ = name
    not_offered.__doc__ = f"Not offered by this release: calling it raises `mimw.errors.NotYet`, which names tlx.{name}."
    hidden = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
    not_offered.__signature__ = inspect.Signature([*_parameters(declared), hidden])
    return word(not_offered)


globals().update({name: _declare(name, declared) for name, declared in WORDS.items()})
__all__ = list(WORDS)
