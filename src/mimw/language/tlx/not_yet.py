"""The public words that this release does not offer, with their parameters: each can be imported, and says so when called.

    amd_mfma_commit = _declare("amd_mfma_commit", "value preserve=None")      tlx.amd_mfma_commit(x) raises NotYet, with the line

Input: a name and its published parameters. Output: the word. It leaves this file when it is implemented in the file of its family.
"""

from __future__ import annotations

import ast
import inspect

from ..core import not_yet, word

__all__ = [
    "require_amd_wmma_layout", "amd_register_resident", "amd_register_handoff", "amd_scheduled_mfma", "amd_mfma_commit",
]


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


# layouts
require_amd_wmma_layout = _declare(
    "require_amd_wmma_layout", "src version=3 transposed=True warp_bases=((0,2),(2,0)) reg_bases=((0,1),(1,0)) "
                               "instr_shape=(16,16,128)")

# AMD
amd_register_resident = _declare("amd_register_resident", "value register_class='agpr' registers_per_group=1")
amd_register_handoff = _declare("amd_register_handoff", "value register_class='vgpr'")
amd_scheduled_mfma = _declare(
    "amd_scheduled_mfma", "a b acc accumulator_role resident_operand=None accumulator_register_class=None initialize=False")
amd_mfma_commit = _declare("amd_mfma_commit", "value preserve=None")
