"""`mimw::linear_sums`: sums over the logits of a last linear layer, which never stand in memory where a chip has the kernel.

Input: rows x, a weight by classes, a bias, a target for each row. Output: of each row log(sum of exp(logits)), the target's logit,
and the sum of logits. For example:

    lse, own, _ = SUMS(x, weight, None, target, 0.0, False)         the loss of a row is lse - own
    lse, own, sums = SUMS(x, weight, bias, target, 30.0, True)      of logits 30 tanh(logit / 30), with their sums
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mimw.kernels import linear_cross_entropy as library

from .addmm import ADDMM
from .contract import Contract, Extents
from .cross_entropy import CROSS_ENTROPY
from .launching import Launch, is_exact, programs
from .matmul import MATMUL
from .notes import EXACT, UNREADABLE, another_chip, takes
from .operator import Operator
from .planned import Planned
from .products import matrix_for_tma

PIECE = 1 << 28         # logits of a piece, where there is no kernel
CONTRACT = Contract("linear_sums", "x: float (rows, hidden)", "weight: =x (classes, hidden)", "bias?: =x (classes)",
                    "target: int (rows)", "-> lse: fp32 (rows)", "-> own: fp32 (rows)", "-> sums: fp32 (rows)",
                    "classes > 0 -- there must be one class at least", flops="2 * rows * classes * hidden")


def _plan(of: Extents, x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, cap: float, sums: bool,
          exact: bool) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    (rows, hidden), classes = x.shape, weight.shape[0]
    if not takes("linear_cross_entropy", another_chip(x), exact and EXACT, not x.numel() and "a tensor is empty",
                 not matrix_for_tma(x, weight.T) and UNREADABLE):
        return lambda x, weight, bias, target: _from_pieces(x, weight, bias, target, cap, sums)
    room = 2 if sums else 1, library.room_for(rows, classes, hidden, x.itemsize)

    def arrays(on: Tensor) -> tuple[Tensor, ...]:
        """Logarithms, logits, sums, and room for those of the tiles; the targets of other classes have the logit NaN."""
        found = [on.new_full((rows, ), float("nan"), dtype=torch.float32) for _ in range(3)]
        return *found, *on.new_empty(room, dtype=torch.float32)

    lse, own, total, first_room, *more_room = arrays(x)
    more = dict(sums=total, room_of_sums=more_room[0]) if sums else {}
    first, second = library.launches(x, weight.T, target.contiguous(), lse, own, first_room, programs(x),
                                     bias=None if bias is None else bias.contiguous(), cap=cap or None, **more)
    tiles, rest = Launch(x, *first), Launch(x, *second)

    def plan(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        lse, own, total, *rooms = arrays(x)
        tiles(x, weight, target.contiguous(), *rooms, own, *(() if bias is None else (bias.contiguous(), )))
        rest(*rooms, lse, *((total, ) if sums else ()))
        return lse, own, total

    return plan


def _from_pieces(x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, cap: float,
                 sums: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The same from logits, some rows at a time."""
    found, step = [], max(1, PIECE // weight.shape[0])
    for first in range(0, x.shape[0], step):
        part, places = x[first:first + step], target[first:first + step].long()
        logits = MATMUL(part, weight.T, None) if bias is None else ADDMM(bias, part, weight.T, 1.0, 1.0, None)
        there = (places >= 0) & (places < weight.shape[0])
        losses, lse = CROSS_ENTROPY(logits, torch.where(there, places, -1), -1, 0.0, 0.0, cap)
        total = _capped(logits, cap).sum(1) if sums else torch.full_like(lse, float("nan"))
        found.append(torch.stack((lse, torch.where(there, lse - losses, float("nan")), total)))
    found = torch.cat(found, 1) if found else x.new_empty(3, 0, dtype=torch.float32)
    return tuple(one.clone() for one in found)


def _capped(logits: Tensor, cap: float) -> Tensor:
    return cap * torch.tanh(logits.float() / cap) if cap else logits.float()


SUMS = Operator("linear_sums(Tensor x, Tensor weight, Tensor? bias, Tensor target, float cap, bool sums) -> "
                "(Tensor, Tensor, Tensor)", Planned(_plan, is_exact), CONTRACT)

__all__ = ["SUMS"]
