"""What mimw computes for fla has fla's parameters, and each reason to let fla compute a call.

Input: the parameters that fla-core 0.6.0 has, recorded here; test_fla.py asks an installed fla for its own. For example:

    pytest --forked 0 tests/integrations/test_fla_contracts.py -k parameters
"""

import inspect
import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="operators of torch need torch")

from mimw.integrations.fla import ENTRIES, UnsupportedFla, attention, linear, losses, register, rowwise, steps  # noqa: E402
from mimw.integrations.fla.tensors import refused  # noqa: E402

# The parameters of fla-core 0.6.0, as its wheel has them.
RECORDED = {
    "fla.modules.activations.ops:swiglu_fwd": "x, y, output_contiguous=False",
    "fla.modules.activations.ops:swiglu_fwdbwd": "x, y, g, use_weight=False, output_contiguous=False",
    "fla.modules.norm.layernorm:layer_norm_fwd":
        "x, weight, bias, eps=1e-05, residual=None, out_dtype=None, residual_dtype=None, is_rms_norm=False, num_groups=1",
    "fla.modules.norm.layernorm:layer_norm_bwd":
        "dy, x, weight, bias, mean=None, rstd=None, dres=None, has_residual=False, is_rms_norm=False, x_dtype=None, "
        "recompute_output=False, num_groups=1",
    "fla.modules.rotary.ops:rotary_embedding_fwdbwd":
        "x, cos, sin, seqlen_offsets=0, cu_seqlens=None, interleaved=False, inplace=False, conjugate=False, chunk_indices=None",
    "fla.modules.fused_cross_entropy.ops:cross_entropy_fwd":
        "logits, target, label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0, logit_softcapping=None, ignore_index=-100, "
        "process_group=None",
    "fla.modules.fused_cross_entropy.ops:cross_entropy_bwd":
        "logits, target, lse, dloss, label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0, logit_softcapping=None, "
        "ignore_index=-100, total_classes=None, class_start_idx=0, inplace_backward=False",
    "fla.modules.fused_linear_cross_entropy.ops:fused_linear_cross_entropy_fwd":
        "x, target, weight, bias=None, ignore_index=-100, label_smoothing=0.0, logit_scale=1.0, logit_softcapping=None, "
        "num_chunks=8, reduction='mean', use_l2warp=False, l2_penalty_factor=0.0001, accumulate_grad_in_fp32=True, "
        "process_group=None",
    "fla.modules.fused_linear_cross_entropy.ops:fused_linear_cross_entropy_bwd": "do, dx, dw, db",
    "fla.ops.attn.parallel:parallel_attn_fwd":
        "q, k, v, g_cumsum, sink_bias, scale, window_size=None, cu_seqlens=None, chunk_indices=None",
    "fla.ops.attn.parallel:parallel_attn_bwd":
        "q, k, v, o, g_cumsum, lse, do, sink_bias=None, scale=None, window_size=None, chunk_size=128, cu_seqlens=None, "
        "chunk_indices=None",
    "fla.ops.gla.chunk:chunk_gla":
        "q, k, v, g, scale, initial_state, output_final_state, state_v_first, cu_seqlens, cu_seqlens_cpu",
    "fla.ops.simple_gla.chunk:chunk_simple_gla":
        "q, k, v, g, g_gamma, scale, initial_state, output_final_state, state_v_first, cu_seqlens, cu_seqlens_cpu, chunk_size=None",
    "fla.ops.delta_rule.chunk:chunk_delta_rule":
        "q, k, v, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel=False, cu_seqlens=None, "
        "cu_seqlens_cpu=None, chunk_size=64",
    "fla.ops.gated_delta_rule.chunk:chunk_gated_delta_rule":
        "q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, "
        "use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, "
        "chunk_indices=None, cp_context=None, kwargs",
    "fla.ops.kda.chunk:chunk_kda":
        "q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, "
        "use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False, lower_bound=None, "
        "disable_recompute=False, return_intermediate_states=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, "
        "cp_context=None, use_graph=False, max_num_seqs=None, kwargs",
    "fla.ops.common.fused_recurrent:fused_recurrent":
        "q, k, v, g=None, g_gamma=None, gk=None, gv=None, scale=None, initial_state=None, output_final_state=False, reverse=False, "
        "state_v_first=False, cu_seqlens=None",
    "fla.ops.delta_rule.fused_recurrent:fused_recurrent_delta_rule":
        "q, k, v, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel=False, cu_seqlens=None",
    "fla.ops.gated_delta_rule.fused_recurrent:fused_recurrent_gated_delta_rule":
        "q, k, v, g=None, gk=None, gv=None, beta=None, A_log=None, dt_bias=None, scale=None, initial_state=None, "
        "output_final_state=False, use_qk_l2norm_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, "
        "state_v_first=False, cu_seqlens=None",
    "fla.ops.kda.fused_recurrent:fused_recurrent_kda_fwd":
        "q, k, v, g, beta, A_log=None, dt_bias=None, initial_state=None, scale=None, output_final_state=False, "
        "inplace_final_state=True, state_v_first=False, cu_seqlens=None, ssm_state_indices=None, num_accepted_tokens=None, "
        "use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, "
        "lower_bound=None, out=None, kwargs",
}
# Where fla asks no backend, the parameters are those of `forward` of an autograd function, without its context.
INNER = {entry.function: entry.inner for entry in ENTRIES if entry.inner}
X = torch.zeros(4, 32)
HEADS = torch.zeros(1, 4, 2, 64, dtype=torch.float16)
PLACES = torch.tensor([0, 1, 2, 3])


def parameters(function):
    return ", ".join(one.name if one.default is one.empty else f"{one.name}={one.default!r}"
                     for one in inspect.signature(function).parameters.values())


def test_our_functions_have_the_recorded_parameters():
    assert {entry.function for entry in ENTRIES} == RECORDED.keys()
    for entry in ENTRIES:
        assert parameters(entry.run) == parameters(entry.refused) == RECORDED[entry.function], entry.name


def test_without_fla_registering_says_what_to_install(monkeypatch):
    for name in ("fla", "fla.backends"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install 'fla-core==0.6.0'"):
        register()


def test_a_fla_that_finds_no_gpu_is_to_be_imported_first(monkeypatch):
    class Fla(ModuleType):
        def __getattr__(self, name):
            raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setitem(sys.modules, "fla", Fla("fla"))
    with pytest.raises(UnsupportedFla, match="import fla first"):
        register()


@pytest.mark.parametrize("reason, text", [
    (refused(X.double()), "mimw has no float64 here"), (refused(X[:0]), "nothing to compute"),
    (refused(X.to("meta")), "computes nothing on meta"),
    (rowwise.swiglu_refused(X, X.half()), "differ in their types: float32, float16"),
    (rowwise.norm_refused(X, None, None, num_groups=2), "2 groups"),
    (rowwise.norm_refused(X, None, X[0], is_rms_norm=True), "no bias"),
    (rowwise.norm_refused(X, None, None, residual=X.half()), "the residual's is another"),
    (rowwise.norm_refused(X, None, None, out_dtype=torch.half), "float16 is asked for"),
    (rowwise.norm_gradients_refused(X, X, None, None, recompute_output=True), "do not compute the result again"),
    (rowwise.rotary_refused(HEADS, X, X, cu_seqlens=X), "packed or have their own"),
    (rowwise.rotary_refused(HEADS, X, X, 1), "the tables have 4 rows, and positions go from 1 to 4"),
    (losses.cross_entropy_refused(X, PLACES, logit_scale=2.0), "scaled or capped"),
    (losses.cross_entropy_refused(X, PLACES, process_group=1), "these are spread"),
    (losses.cross_entropy_refused(X, X), "no float32 here"),
    (losses.gradient_refused(X, PLACES, X, X, total_classes=64), "these are spread"),
    (losses.linear_cross_entropy_refused(X, PLACES, X, use_l2warp=True), "no L2 penalty"),
    (losses.linear_cross_entropy_refused(X, PLACES, X.half()), "differ in their types"),
    (losses.linear_cross_entropy_refused(X, PLACES, X, logit_softcapping=2.0), "scaled or capped"),
    (attention.forward_refused(HEADS, HEADS, HEADS, HEADS, None, 1.0), "no gates"),
    (attention.forward_refused(HEADS, HEADS, HEADS[..., :32], None, None, 1.0), "these have 64 and 32"),
    (attention.forward_refused(HEADS, HEADS[:, :3], HEADS[:, :3], None, None, 1.0), "4 queries and 3 keys"),
    (attention.forward_refused(HEADS, HEADS, HEADS, None, None, 0.0), "this is 0.0"),
    (attention.forward_refused(HEADS, HEADS, HEADS, None, None, 1.0, 0), "a window of 0"),
    (attention.forward_refused(HEADS.float(), HEADS, HEADS, None, None, 1.0), "no float32 here"),
    (attention.forward_refused(HEADS.bfloat16(), HEADS, HEADS, None, None, 1.0), "differ in their types"),
    (linear.gla_refused(HEADS.float(), HEADS, HEADS, None, 1.0, None, True, False, None, None), "no float32 here"),
    (linear.gla_refused(*[HEADS[..., :32]] * 4, 1.0, None, True, False, None, None), "keys have 32 columns, and it takes 64"),
    (linear.kda_refused(HEADS, HEADS, HEADS, HEADS, HEADS[..., 0], cp_context=1), "no cp_context"),
    (linear.kda_refused(HEADS, HEADS, HEADS, HEADS, HEADS[..., 0], use_graph=True), "no use_graph"),
    (linear.kda_refused(HEADS, HEADS, HEADS, HEADS, HEADS[..., 0], use_gate_in_kernel=True), "needs A_log"),
    (linear.gated_delta_rule_refused(HEADS, HEADS, HEADS, None, HEADS[..., 0], allow_neg_eigval=True), "allow_neg_eigval needs"),
    (linear.gated_delta_rule_refused(HEADS, HEADS, HEADS, None, HEADS), "these are one a column"),
    (linear.gated_delta_rule_refused(HEADS, HEADS, HEADS, None, HEADS[..., 0], head_first=True), "no head_first"),
    (steps.recurrent_refused(HEADS, HEADS, HEADS), "one token of each sequence, and there are 4"),
    (steps.recurrent_refused(*[HEADS[:, :1]] * 3, g=HEADS[:, :1, :, 0], gk=HEADS[:, :1]), "these are both"),
    (steps.recurrent_refused(*[HEADS[:, :1]] * 3, gv=HEADS[:, :1]), "no gv"),
    (steps.delta_rule_refused(*[HEADS[:, :1].clone().requires_grad_()] * 3, HEADS[:, :1, :, 0], 1.0, None, True), "no gradient"),
    (steps.kda_refused(*[HEADS[:, :1]] * 4, HEADS[:, :1, :, 0], ssm_state_indices=X), "one index for each sequence"),
])
def test_what_mimw_leaves_to_fla(reason, text):
    assert text in reason


def test_autocast_chooses_the_types_of_products():
    assert losses.linear_cross_entropy_refused(X, PLACES, X) is None
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in losses.linear_cross_entropy_refused(X, PLACES, X)
