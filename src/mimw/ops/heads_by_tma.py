"""The plan of attention's kernels for Hopper: heads as TMA reads them, or copies of them, filled up to a width that kernels take.

Input: q, k and v, how a kernel sees them, and how its launch is made. Output: a plan, or None where copies do not pay:

    by_tma(of, (q, k, v), lambda x: as_four(x, batch), lambda width: work * width >= WORTH_A_COPY, make)
    by_tma(of, (q, k, v, cu_q, cu_k), lambda x: x, pays, make)      launches take more arrays behind lse

`make(q, k, v, o, lse, counter)` gives (kernel, grid, args, meta).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mimw.kernels.attention.configs import HEAD_DIMS, has_rest, value_dim

from .contract import Extents
from .launching import Launch, zeros
from .notes import takes
from .tma import every_step_for_tma, padded


def by_tma(of: Extents, given: tuple[Tensor, ...], view: Callable[[Tensor], Tensor], pays: Callable[[int], bool],
           make: Callable[..., tuple]) -> Callable | None:
    """A function from the given tensors and those of changes to (o, lse); `pays(width)` where copies of heads so wide do."""
    q, k, v = three = given[:3]
    (o, lse), dim, of_values = of.empty(q), q.shape[-1], v.shape[-1]
    width = next((known for known in HEAD_DIMS if known >= dim and value_dim(known) >= of_values), None)
    if not takes("heads by TMA", width is None and f"heads are {dim} wide, values {of_values}: more than {HEAD_DIMS[-1]}, or of no "
                 "pair that is there"):
        return None
    widths, views = (width, width, value_dim(width)), [view(x) for x in three]
    copies = [x.shape[-1] != wanted or seen.data_ptr() != x.data_ptr() or not every_step_for_tma(seen)
              for x, seen, wanted in zip(three, views, widths)]
    copy_o = of_values != widths[2] or not every_step_for_tma(view(o))
    if not takes("heads by TMA", (any(copies) or copy_o) and not pays(width)
                 and f"TMA would read and write copies, {width} wide, which do not pay for so few products"):
        return None
    prepared = [padded(seen, wanted) if copy else seen for seen, copy, wanted in zip(views, copies, widths)]
    wide, count = (*views[0].shape[:-1], widths[2]), len(given)
    made = make(*prepared, o.new_empty(wide) if copy_o else view(o), lse, zeros(o))
    launch = Launch(o, *made)
    # q, k, v, o once more, by their second descriptors
    rests = [at for at, rest in enumerate(has_rest(made[-1]["FORM"])) if rest]

    def as_it_is(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.empty(tensors[0])
        launch(*tensors[:3], o, lse, *tensors[3:count], zeros(o), *tensors[count:])
        return o, lse

    if not (any(copies) or copy_o or rests):
        return as_it_is         # the host's time for the usual call: nothing of it asks what to copy

    def plan(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        o, lse = of.empty(tensors[0])
        target = o.new_empty(wide) if copy_o else o
        four = *(padded(view(x), wanted) if copy else x for x, copy, wanted in zip(tensors, copies, widths)), target
        launch(*four, lse, *tensors[3:count], zeros(o), *tensors[count:], *(four[at] for at in rests))
        if copy_o:
            o.copy_(target[..., :of_values].reshape(o.shape))
        return o, lse

    return plan


__all__ = ["by_tma"]
