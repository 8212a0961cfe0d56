"""Memory by which programs of a launch hand sums to each other: room for fp32 numbers, and flags that are 0 between launches.

Input: a tensor of the device, and how many of each. Output: the two tensors of this stream. For example:

    room, flags = workspace(x, (1 << 20, 264))

What a captured graph uses is the graph's own: it may be replayed beside anything.
"""

from __future__ import annotations

_KEPT: dict = {}


def workspace(x, least: tuple[int, int]):
    """(room, flags) of at least so many elements on x's device, kept for each stream, whose launches follow each other."""
    import torch

    def made():
        return torch.empty(least[0], device=x.device), torch.zeros(least[1], dtype=torch.int32, device=x.device)

    if torch.cuda.is_current_stream_capturing():
        return made()
    key = x.device, torch.cuda.current_stream(x.device).cuda_stream
    if key not in _KEPT or any(one.shape[0] < size for one, size in zip(_KEPT[key], least)):
        _KEPT[key] = made()
    return _KEPT[key]


__all__ = ["workspace"]
