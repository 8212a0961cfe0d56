"""The vLLM that is installed against the one that was read.

Input: names that an adaptor uses. Output: nothing, or an error. For example:

    check(["vllm.model_executor.layers.layernorm:RMSNorm.forward_cuda"])        ChangedContract where it takes other parameters
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from mimw.integrations import contracts

VERSION = "0.33."


def check(names: Iterable[str]) -> None:
    """Compare names of the installed vLLM with the record.

    errors:    mimw.integrations.contracts.UnreadVersion, ChangedContract
    """
    contracts.check("vllm", VERSION, version("vllm"), sorted(names))


__all__ = ["VERSION", "check"]
