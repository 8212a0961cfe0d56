"""Calls as CUDA graphs: launches of a few microseconds, which a host cannot issue as fast as they run.

Input: a call. Output: another that replays CALLS of it. For example:

    replay = graphed(lambda: launch(*args))
    Trial(replay, check, {"torch": graphed(baseline)}, CALLS)
"""

from __future__ import annotations

from collections.abc import Callable

CALLS = 10


def graphed(run: Callable, calls: int = CALLS) -> Callable[[], None]:
    """The replay of a graph of `calls` calls."""
    import torch
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    return graph.replay
