"""A line in the log for each reason, once in a process: why a call goes another way than by a kernel of ours.

Input: a reason. Output: a record of the logger "mimw", the first time. For example:

    once("attention", "dropout is 0.1, and no kernel of mimw drops weights")
    logging.getLogger("mimw").setLevel(logging.INFO)        shows them
"""

from __future__ import annotations

import logging

import torch

LOG = logging.getLogger("mimw")
_said: set[tuple[str, str]] = set()


def once(what: str, why: str) -> None:
    """Log that `what` of a model is computed by transformers or torch, and why; a second time the same is not logged. While
    torch.compile traces, nothing is: a record is no part of a graph."""
    if torch.compiler.is_compiling() or (what, why) in _said:
        return
    _said.add((what, why))
    LOG.info("transformers: %s not by mimw, as %s", what, why)


__all__ = ["LOG", "once"]
