"""The operators of the library that can be tuned, by name.

Input: a name, or `package.module:NAME` of an operator of your own. Output: an `Operator`. For example:

    find("gemm").problem("4096x4096x4096", "bf16")
    find("mine.kernels:TALL_GEMM")
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from ...errors import TuningError
from ..operator import Operator

LIBRARY = {"attention": "Attention", "attention_backward": "AttentionBackward",
           "attention_decode": "AttentionDecode", "column_gemm": "ColumnGemm", "cross_entropy": "CrossEntropy", "gemm": "Gemm",
           "grouped_gemm": "GroupedGemm",
           "moe": "Moe", "norm": "Norm", "simplicial_attention": "SimplicialAttention", "skinny_gemm": "SkinnyGemm",
           "topk": "TopK", "topk_selector": "TopKSelector"}


def find(name: str) -> Operator:
    """The operator of that name; TuningError where there is none."""
    if name in LIBRARY:
        return getattr(import_module(f".{name}", __name__), LIBRARY[name])()
    module, colon, attribute = name.rpartition(":")
    if not colon:
        raise TuningError(f"there is no operator {name!r} to tune",
                          hint=f"there are {', '.join(LIBRARY)}, or your own as MODULE:NAME")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise TuningError(f"there is no module {module!r}: {error}") from error
    found = found() if isinstance(found, type) and issubclass(found, Operator) else found
    if not isinstance(found, Operator):
        raise TuningError(f"{name} is no operator", hint="name a subclass or an object of mimw.tuning.Operator")
    return found
