"""What differs between versions of torch, and the few names of torch that are not public: all of them are here.

Input: torch 2.11 to 2.13. Output: the passes of inductor's configuration, extended and put back. For example:

    before = add("post_grad_custom_post_pass", Products(settings))
    put_back("post_grad_custom_post_pass", before)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._inductor import config
from torch._inductor import custom_graph_pass as passes
from torch.utils._python_dispatch import _disable_current_modes

LOWEST = (2, 11)
GraphPass = passes.CustomGraphPass
PLACES = ("pre_grad_custom_pass", "post_grad_custom_post_pass")
_TAKES_LISTS = hasattr(passes, "get_custom_graph_passes")       # from 2.13 on; before it a place holds one pass


def check_version() -> None:
    """Refuse a torch without the places that the passes need.

    errors:    RuntimeError below torch 2.11, or where a later torch has renamed a place
    """
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    lacking = [place for place in PLACES if not hasattr(config, place)]
    if found < LOWEST or lacking:
        raise RuntimeError(
            f"mimw.integrations.inductor needs torch 2.11 or later; this is {torch.__version__}"
            + (f", whose torch._inductor.config lacks {', '.join(lacking)}" if lacking else "")
            + ". Install another one, or call mimw.ops in the model, which needs no passes")


def add(place: str, ours: Callable) -> Any:
    """Put a pass behind those that are there, and give what was there.

    errors:    RuntimeError where a pass is there and this torch takes one only
    """
    before = getattr(config, place)
    if before is None:
        setattr(config, place, ours)
    elif _TAKES_LISTS:
        setattr(config, place, [*passes.get_custom_graph_passes(before), ours])
    else:
        raise RuntimeError(f"torch._inductor.config.{place} holds {before!r} already, and torch {torch.__version__} takes one pass "
                           "there; set it to None, or use torch 2.13, which takes a list")
    return before


def put_back(place: str, before: Any) -> None:
    """Undo `add`."""
    setattr(config, place, before)


def with_real_tensors() -> AbstractContextManager:
    """Inside, tensors are made and computed although inductor traces."""
    return _disable_current_modes()


__all__ = ["GraphPass", "PLACES", "add", "check_version", "put_back", "with_real_tensors"]
