"""Calls of linear attention, forward: random arguments, the arrays of a launch, and the recurrence in fp64 to compare with.

Input: a kind of gates, shapes. Output: launches and what they should give. For example:

    case = Case(**GDN, T=150, K=128, V=128, parts=2)        bf16, drawn by linear_attention_reference.draw
    right(machine, case)                                    runs all launches; o and the last states against fp64
    case.steps(o=case.v.copy())[-1]                         (kernel, grid, args, meta)
"""

import ml_dtypes
import numpy as np
import torch

from mimw.kernels.linear_attention import Raw, forward, tables, workspace

from .linear_attention_reference import draw, gates_of_raw, recurrence

BF16 = ml_dtypes.bfloat16
GDN, KDA, GLA, DELTA, SIMPLE, NONE = (dict(gates=gates, delta=delta) for gates, delta in (
    ("head", True), ("key", True), ("key", False), ("none", True), ("head", False), ("none", False)))


class Case:
    """Random arguments, the arrays of a call, and what they should be, of numbers as the type rounds them."""

    def __init__(self, type_=BF16, parts=1, cu_seqlens=None, T=150, H=1, HV=1, keys=None, tensor_memory=False,
                 l2norm=False, raw=None, **drawn):
        self.drawn = draw(0, T=T, H=H, HV=HV, cu_seqlens=cu_seqlens, **drawn)
        if keys is not None:
            self.drawn |= keys(self.drawn)
        if l2norm:
            self.drawn |= longer_and_shorter(self.drawn) | {"use_qk_l2norm": True}
        self.l2norm, self.raw = l2norm, Raw()
        self.tensor_memory = tensor_memory
        self.type, torch_type = type_, torch.bfloat16 if type_ is BF16 else torch.float16
        for name in "qkv":
            self.drawn[name] = self.drawn[name].to(torch_type).float()
        self.q, self.k, self.v = (self.drawn[name].numpy().astype(type_) for name in "qkv")
        self.g, self.beta, self.initial = (None if self.drawn[name] is None else self.drawn[name].numpy()
                                           for name in ("g", "beta", "initial_state"))
        if raw is not None:
            self.make(**raw)
        self.tables = tables(self.q.shape[0], T, cu_seqlens, parts)
        self.work = workspace(self.k, self.v, self.g, self.beta, self.tables, self.filled, l2norm=l2norm)
        self.final = None if self.initial is None else self.filled(self.initial.shape, "fp32")

    def filled(self, shape, kind=None):
        """An array that holds something else than results."""
        return np.full(shape, 7, self.type if kind is None else np.float32)

    def steps(self, q=True, **options):
        return forward(self.q if q else None, self.k, self.v, self.g, self.beta, self.tables, self.work, initial=self.initial,
                       final=self.final, l2norm=self.l2norm, tensor_memory=self.tensor_memory, raw=self.raw, **options)

    def make(self, bound=None, betas=0.0, rate=True, bias=True, gates=True):
        """Raw gates and betas in place of those drawn, of which the reference has what they are to become."""
        drawn_by = torch.Generator().manual_seed(5)
        normal = lambda *shape: torch.randn(shape, generator=drawn_by)          # noqa: E731
        heads = self.drawn["v"].shape[2]
        if gates:
            g, shape = 3 * normal(*self.g.shape), (heads, *self.g.shape[3:])
            A_log, dt_bias = normal(heads) if rate else None, normal(*shape) if bias else None
            self.drawn["g"], self.g = gates_of_raw(g, A_log, dt_bias, bound), g.numpy()
        else:
            A_log = dt_bias = None
        if betas:
            beta = normal(*self.beta.shape)
            self.drawn["beta"], self.beta = betas * torch.sigmoid(beta.double()), beta.numpy()
        self.raw = Raw(*(None if one is None else one.numpy() for one in (A_log, dt_bias)), gates, bound, betas > 0, betas == 2)

    def outputs(self, machine, **options):
        """o, of all launches."""
        o = self.filled(self.v.shape)
        for kernel, grid, args, meta in self.steps(o=o, **options):
            machine.launch(kernel, grid, *args, **meta)
        return o

    def rows(self, tiles):
        """[NT, HV, C, ..] as the reference has it, [B, T, HV, ..]."""
        rows = [one.swapaxes(0, 1)[:min(64, end - first)] for one, (first, end) in zip(tiles, self.tables.chunks)]
        return np.concatenate(rows).reshape(*self.v.shape[:3], *tiles.shape[3:])


def longer_and_shorter(drawn):
    """q and k with rows of lengths from 1e-3, whose square is the norm's epsilon, to 1e2; the fourth ones are 0."""
    drawn_by, found = torch.Generator().manual_seed(4), {}
    for name in "qk":
        x = torch.nn.functional.normalize(drawn[name], dim=-1)
        lengths = 10 ** (5 * torch.rand(x.shape[:-1], generator=drawn_by) - 3)
        lengths[:, 3:4] = 0
        found[name] = x * lengths[..., None]
    return found


def close(found, exact, error=6e-3):
    """The relative error of all, and every element against the largest."""
    found, exact = np.asarray(found, np.float64), np.asarray(exact, np.float64)
    assert np.linalg.norm(found - exact) <= error * np.linalg.norm(exact)
    assert np.abs(found - exact).max() <= 2 * error * np.abs(exact).max()


def right(machine, case, error=6e-3, **options):
    o, (exact, final) = case.outputs(machine, **options), recurrence(**case.drawn, **options)
    close(o, exact, error)
    if case.final is not None:
        close(case.final, final, error)
