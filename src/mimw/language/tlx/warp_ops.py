"""Votes and reductions of a warp, under the name of the module from which published kernels take them.

Input: a name. Output: the word. For example:

    from triton.language.extra.tlx.warp_ops import warp_redux       tlx.warp_redux
"""

from .utilities import vote_ballot_sync as vote_ballot_sync
from .utilities import warp_redux as warp_redux

__all__ = ["vote_ballot_sync", "warp_redux"]
