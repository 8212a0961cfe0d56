"""silu(gate) up: one launch over all rows.

Input: gate and up of one shape and type. Output: y, contiguous. For example:

    y = swiglu(gate, up)
    y = swiglu(*x.chunk(2, -1))         halves of one product, which are not copied where both begin at multiples of 16 bytes
"""

import torch

SCHEMA = "(Tensor gate, Tensor up) -> Tensor"


def outputs(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """y, unfilled."""
    if gate.shape != up.shape or gate.dtype != up.dtype or not gate.dim():
        raise RuntimeError(f"swiglu: gate is {tuple(gate.shape)} of {gate.dtype}, and up {tuple(up.shape)} of {up.dtype}; they are "
                           "to have one shape of one or more dimensions, and one type")
    return torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)


def call(forms, y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> None:
    """Fill y. Each program takes `block` columns of a row."""
    if not y.numel():
        return
    gate, up, y = _rows(gate), _rows(up), y.view(-1, y.shape[-1])
    rows, n = y.shape
    forms(lambda facts: (rows * -(-n // facts["block"]), ), {"block": 2048 if n > 1024 else 512}, gate_ptr=gate, up_ptr=up, y_ptr=y,
          ROWS=rows, N=n, steps_gate=gate.stride(0), steps_up=up.stride(0), steps_y=y.stride(0))


def _rows(x: torch.Tensor) -> torch.Tensor:
    """The tensor as (rows, columns), columns side by side; a copy where it does not begin at a multiple of 16 bytes."""
    two = x.reshape(-1, x.shape[-1])
    if two.stride(1) == 1 and two.data_ptr() % 16 == 0:
        return two
    return two.clone(memory_format=torch.contiguous_format)
