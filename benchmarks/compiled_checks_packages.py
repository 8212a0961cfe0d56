"""Launches of Gluon kernels of packages, by name, for `compiled_checks`.

    PACKAGES["fla-sinkhorn-backward"]       a Case: file in a wheel, target, and a launch of four matrices

Input: nothing. Output: `PACKAGES`.
"""

from __future__ import annotations

from .compiled_checks_sources import Case, Launch
from .others_sources import Source

SINKHORN = "fla-core", "0.6.0", "fla/ops/utils/sinkhorn/gluon.py"
ENTROPY = "fla-core", "0.6.0", "fla/modules/fused_cross_entropy/gluon.py"
_STEPS = ("(lambda x, step: step(step(x, 1), 2))(x - x.max(1, keepdims=True), lambda y, axis: "
          "y - np.log(np.exp(y).sum(axis, keepdims=True)))")
_SIZES = dict(scale=1.4426950408889634, N=8, BN=8, BT=4, NUM_ITERS=1)
_LOSS = dict(label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0, logit_softcapping=None, ignore_index=-100, V=100,
             V_TOTAL=100, V_START=0, BV=128)

PACKAGES: dict[str, Case] = {one.name: one for one in (
    Case("fla-sinkhorn-forward", Source(*SINKHORN, "sinkhorn_fwd_kernel"), 90, lambda module: Launch(
        (1,), dict(x="fp32[4,8,8]", o="fp32[4,8,8]", T=4), _SIZES, {"o": f"np.exp({_STEPS})"})),
    Case("fla-sinkhorn-backward", Source(*SINKHORN, "sinkhorn_bwd_kernel"), 90, lambda module: Launch(
        (1,), dict(x="fp32[4,8,8]", do="fp32[4,8,8]", dx="fp32[4,8,8]", T=4), _SIZES | dict(NUM_ITERS=3))),
    Case("fla-cross-entropy", Source(*ENTROPY, "cross_entropy_fwd_kernel_gluon"), 90, lambda module: Launch(
        (3, 1), dict(logits="fp32[3,100]", target="i64[3]", loss="fp32[3]", z_loss="fp32[3]", lse="fp32[3]", s_logits=100, N=3),
        _LOSS | dict(SPLIT=False), {"lse": "np.log(np.exp(logits).sum(1))",
                                    "loss": "np.log(np.exp(logits).sum(1)) - logits[range(3), target]"},
        {"target": "np.arange(3) * 7"})),
)}
