"""torch.compile with our operators: products and attention of a model become `mimw::` operators, and the model stays as it is.

Input: what may be replaced. Output: passes in inductor's configuration, until they are taken out. For example:

    import mimw.integrations.inductor
    with mimw.integrations.inductor.enable():           each call by what was quicker when both were timed
        torch.compile(model)(x)                         compiled here; afterwards it may be called anywhere
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .calls import Calls
from .candidates import forget_settings
from .measured import forget
from .products import Products
from .settings import KINDS, Settings
from .torch_versions import PLACES, add, check_version, put_back

_BEFORE: list[dict[str, Any]] = []      # what was in the places before each `enable`, the latest last


class Enabled:
    """The result of `enable`, a context manager: it takes the passes out at its end."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def __enter__(self) -> Enabled:
        return self

    def __exit__(self, *_: object) -> None:
        disable()


def enable(*, allow: Collection[str] = KINDS, force: bool = False, devices: Collection[str] = ("cuda",)) -> Enabled:
    """Let torch.compile, with the backend inductor, replace products and attention by `mimw::` operators.

    args:      allow     any of "mm", "addmm", "bmm", "grouped_mm", "sdpa", "flex" for flex attention, and "epilogue": products
                         with a bias, a residual, scales and an activation, in one launch
               force     ours wherever it takes the call. Else ours where it was quicker than torch's own function, both timed once
                         for each shape while the model is compiled; calls of symbolic extents and grouped products stay torch's.
                         Under mode="max-autotune" inductor itself times ours for "mm", "addmm" and "bmm" against its other
                         choices, and grouped products are timed, too
               devices   types of devices whose tensors count. Those of the CPU are simulated, which is for tests
    returns:   a context manager, which undoes it at its end; as a statement it holds until `disable()`
    errors:    ValueError for another word in `allow`, or none; RuntimeError for a torch without the places for passes, where one
               is taken, or where the passes are enabled already

    A function that was compiled before stays as it is: `torch.compiler.reset()` makes torch compile anew.
    """
    unknown = sorted(set(allow) - set(KINDS)) if not isinstance(allow, str) else [allow]
    if unknown or not allow:
        raise ValueError(f"enable: allow has {', '.join(unknown) or 'nothing'}; it takes a collection of {', '.join(KINDS)}")
    if _BEFORE:
        raise RuntimeError("enable: the passes are enabled already; call disable() first")
    check_version()
    settings = Settings(frozenset(allow), force, frozenset(devices))
    before: dict[str, Any] = {}
    try:
        for place, ours in zip(PLACES, (Calls(settings), Products(settings)), strict=True):
            before[place] = add(place, ours)
    except RuntimeError:
        for place, was in before.items():
            put_back(place, was)
        raise
    _BEFORE.append(before)
    return Enabled(settings)


def disable() -> None:
    """Take the passes out, and put back what was there before. Without `enable` nothing happens."""
    forget_settings()
    while _BEFORE:
        for place, was in _BEFORE.pop().items():
            put_back(place, was)


__all__ = ["KINDS", "Enabled", "disable", "enable", "forget"]
