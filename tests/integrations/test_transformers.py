"""Small models of transformers by `mimw.integrations.transformers`: against eager attention and unpatched modules, simulated.

Input: Llama, Mixtral, gpt-oss and Gemma 2 of random weights. Output: logits, gradients, tokens. For example:

    pytest --forked 0 tests/integrations/test_transformers.py -k gpt_oss
"""

import inspect
import logging
from importlib import import_module

import pytest

torch = pytest.importorskip("torch", reason="operators of torch")
transformers = pytest.importorskip("transformers", minversion="5.24")

from transformers import masking_utils  # noqa: E402

import mimw.integrations.transformers as ours  # noqa: E402
from mimw import nn, ops  # noqa: E402
from mimw.integrations.transformers.patterns import Pattern, read  # noqa: E402
from mimw.integrations.transformers.rules import MLPS, NORMS  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::mimw.ops.SimulationWarning")
SIZES = dict(hidden_size=32, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             vocab_size=24, pad_token_id=0, attn_implementation="eager")
SEQ = 12
PACKED = torch.cat((torch.arange(5), torch.arange(SEQ - 5)))[None]


def model_of(name, dtype=torch.float32, **options):
    torch.manual_seed(0)
    more = {"Llama": {}, "Mixtral": dict(num_local_experts=4), "GptOss": dict(num_local_experts=4, num_experts_per_tok=2,
            sliding_window=6), "Gemma2": dict(sliding_window=6, query_pre_attn_scalar=8, attn_logit_softcapping=2.0)}[name]
    config = getattr(transformers, f"{name}Config")(**SIZES | more | options)
    model = getattr(transformers, f"{name}ForCausalLM")(config).to(dtype).eval()
    for parameter, values in model.named_parameters():
        if "sinks" in parameter:
            torch.nn.init.normal_(values)
    return model


def tokens():
    torch.manual_seed(1)
    ids, real = torch.randint(1, 24, (2, SEQ)), torch.ones(2, SEQ, dtype=torch.int64)
    real[0, :4], real[1, 10:] = 0, 0
    return ids, real


def logits_and_gradients(model, ids, real=None, **options):
    """Of padding neither counts: what it sees differs between implementations, and nobody sees it."""
    model.zero_grad()
    labels = ids if real is None else ids.masked_fill(real * torch.nn.functional.pad(real, (1, 0))[:, :-1] == 0, -100)
    out = model(ids, attention_mask=real, labels=labels, **options)
    out.loss.backward()
    logits = out.logits.detach() if real is None else out.logits.detach()[real.bool()]
    return [logits, *(parameter.grad.clone() for parameter in model.parameters())]


def spy(monkeypatch, name):
    """The calls of an operator from here on."""
    calls, run = [], getattr(ops, name)
    monkeypatch.setattr(ops, name, lambda *given, **options: calls.append(given) or run(*given, **options))
    return calls


def alike(found, wanted, dtype):
    bound = 2e-6 if dtype is torch.float32 else 2e-2
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= bound * max(1, other.abs().max())


@pytest.mark.long(but=["Mixtral-dtype2-*", "Llama-dtype0-*", "GptOss-dtype4-*", "Gemma2-*"], everywhere=True)
@pytest.mark.parametrize("name, dtype, padded, options", [
    ("Llama", torch.float32, True, {}), ("Llama", torch.bfloat16, False, dict(position_ids=PACKED, use_cache=False)),
    ("Mixtral", torch.float32, False, {}), ("Mixtral", torch.bfloat16, False, {}),
    ("GptOss", torch.float32, True, {}), ("GptOss", torch.bfloat16, False, {}),
    ("Gemma2", torch.float32, True, {})])
def test_logits_and_gradients_are_those_of_eager_attention(name, dtype, padded, options, monkeypatch):
    calls = {of: spy(monkeypatch, of) for of in ("rope", "moe", "grouped_matmul")}
    model, (ids, real) = model_of(name, dtype, num_hidden_layers=2 if dtype is torch.float32 and name != "Mixtral" else 1), tokens()
    wanted = logits_and_gradients(model, ids, real if padded else None, **options)
    model.set_attn_implementation("mimw")
    if name in ("Mixtral", "GptOss"):
        model.set_experts_implementation("mimw")
    layers = len(model.model.layers)
    if name != "Gemma2":
        assert len(nn.patch(model, only=["*.self_attn"]).replaced) == layers
    alike(logits_and_gradients(model, ids, real if padded else None, **options), wanted, dtype)
    assert [len(made) for made in calls.values()] == [
        layers * (name != "Gemma2"), layers * (name == "Mixtral"), 2 * layers * (name == "GptOss")]


@pytest.mark.parametrize("name, options", [("Llama", dict(cache_implementation="static", disable_compile=True)), ("GptOss", {})])
def test_generate_gives_the_same_tokens(name, options):
    model, (ids, real) = model_of(name, num_hidden_layers=2 if name == "GptOss" else 1), tokens()
    real = torch.ones_like(real)
    real[0, :4] = 0 if name == "GptOss" else 1
    texts = []
    for implementation in ("eager", "mimw"):
        model.set_attn_implementation(implementation)
        texts.append(model.generate(ids, attention_mask=real, max_new_tokens=3, do_sample=False, eos_token_id=None, **options))
    assert texts[0].shape == (2, SEQ + 3) and torch.equal(*texts)


def test_patched_modules_and_loss():
    model, (ids, _) = model_of("Llama", num_hidden_layers=1), tokens()
    wanted = logits_and_gradients(model, ids)
    report = nn.patch(model, skip=["Linear"])
    assert sorted(one.after.__name__ for one in report.replaced) == [
        "MimwLlamaAttention", "MimwLlamaMLP", *["MimwLlamaRMSNorm"] * 3]
    model.loss_function = ours.causal_lm_loss
    alike(logits_and_gradients(model, ids), wanted, torch.float32)
    hidden = model.model(ids).last_hidden_state     # as docs/TRANSFORMERS.md has it
    fused = nn.functional.linear_cross_entropy(hidden[:, :-1].flatten(0, 1), model.lm_head.weight, ids[:, 1:].flatten())
    torch.testing.assert_close(fused, model.loss_function(model.lm_head(hidden), ids, 24))
    report.undo()
    assert type(model.model.norm).__name__ == "LlamaRMSNorm"
    logits, labels = torch.randn(2, 3, 7), torch.tensor([[1, 2, -100], [3, 4, 5]])
    whole = model_of("Llama", num_hidden_layers=1).loss_function(logits, labels, 7, num_items_in_batch=5)
    torch.testing.assert_close(ours.causal_lm_loss(logits, labels, 7, num_items_in_batch=torch.tensor(5)), whole)


@pytest.mark.long(but=["Gemma2-*", "Llama-dtype0", "Mixtral-*"], everywhere=True)
@pytest.mark.parametrize("name, dtype", [("Llama", torch.float32), ("Llama", torch.bfloat16), ("Mixtral", torch.float32),
                                         ("Gemma2", torch.float32)])
def test_fused_loss_is_that_of_logits_which_are_not_made(name, dtype, monkeypatch):
    """In training; with an auxiliary loss, bounded logits, a number of items, and as a tuple."""
    more = {"Mixtral": dict(output_router_logits=True), "Gemma2": dict(final_logit_softcapping=0.05)}.get(name, {})
    model, (ids, real) = model_of(name, dtype, num_hidden_layers=1, **more).train(), tokens()
    labels = ids.masked_fill(real == 0, -100)

    def run(**options):
        model.zero_grad()
        out = model(ids, attention_mask=real, labels=labels, **options)
        loss = out[0] if isinstance(out, tuple) else out.loss
        loss.backward()
        return out, [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters())]

    few = dict(num_items_in_batch=torch.tensor(5), shift_labels=labels.roll(-1, 1)) if name == "Llama" else {}
    wanted, counted, before = run()[1], run(**few)[1], type(model)
    report, heads = ours.fuse_loss(model), []
    handle = model.lm_head.register_forward_hook(lambda *_: heads.append(1))
    assert run()[0].logits is not None and heads, "a head with hooks is called"
    handle.remove()
    linear = torch.nn.functional.linear
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, weight, bias=None: heads.append(weight) or linear(x, weight, bias))
    heads.clear()
    out, found = run()
    assert heads and not any(one is model.lm_head.weight for one in heads)
    assert out.logits is None and "logits" not in out and found[0].dtype is torch.float32
    as_tuple, again = run(return_dict=False, **few)
    assert isinstance(as_tuple, tuple) and len(as_tuple) == len(out)
    alike(found + again, wanted + counted, dtype)
    monkeypatch.undo()
    with torch.no_grad():
        exact = model.eval()(ids, attention_mask=real, labels=labels)
        assert exact.logits.shape == (2, SEQ, 24) and torch.equal(model(ids, attention_mask=real).logits, exact.logits)
        left_out = model(ids, attention_mask=real, labels=labels, fused_loss=True)
    assert left_out.logits is None and isinstance(model, before) and "labels" in inspect.signature(model.forward).parameters
    alike([left_out.loss], [exact.loss], dtype)
    report.undo()
    assert type(model) is before


def test_fused_loss_in_one_graph_and_what_it_leaves_alone():
    model, (ids, _) = model_of("Llama", num_hidden_layers=1).train(), tokens()
    wanted = model(ids, labels=ids).loss
    ours.fuse_loss(model)
    called = []

    def backend(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes if "linear_cross_entropy" in str(node.target))
        return graph

    out = torch.compile(model, fullgraph=True, backend=backend)(ids, labels=ids)
    assert out.logits is None and called == ["mimw.linear_cross_entropy.default"]
    torch.testing.assert_close(out.loss, wanted)
    model.loss_function = lambda logits, labels, vocab_size: logits.mean()
    assert model(ids, labels=ids).logits is not None
    with pytest.raises(NotImplementedError, match="CohereForCausalLM computes its logits by more than lm_head"):
        ours.fuse_loss(transformers.CohereForCausalLM(transformers.CohereConfig(**SIZES)))


def test_rules_name_classes_that_compute_what_llama_does():
    def text(folder, name, of):
        found = inspect.getsource(getattr(import_module(f"transformers.models.{folder}.modeling_{folder}"), f"{name}{of}").forward)
        return found.replace(" -> torch.Tensor", "").replace(": torch.Tensor", "")

    rotary = {folder: inspect.getsource(import_module(f"transformers.models.{folder}.modeling_{folder}").apply_rotary_pos_emb)
              for folder in NORMS}
    in_gpt_oss = inspect.getsource(import_module("transformers.models.gpt_oss.modeling_gpt_oss")._apply_rotary_emb)
    assert "first_half * cos - second_half * sin" in in_gpt_oss and "second_half * cos + first_half * sin" in in_gpt_oss
    assert rotary.pop("gpt_oss").count("= _apply_rotary_emb(") == 2 and len(set(rotary.values())) == 1
    of_gpt_oss = "(self.weight * hidden_states).to(input_dtype)  # main diff with Llama"
    assert of_gpt_oss in text("gpt_oss", "GptOss", "RMSNorm")
    assert len({text(folder, name, "RMSNorm").replace(of_gpt_oss, "self.weight * hidden_states.to(input_dtype)")
                for folder, name in NORMS.items()}) == 1
    assert len({text(folder, name, "MLP") for folder, name in MLPS.items()}) == 1


def test_mask_functions_are_read():
    of = masking_utils
    ids = of.find_packed_sequence_indices(PACKED)
    remapped = of.remap_positions_for_packed_sequence(of.causal_mask_function, PACKED)
    packed = of.and_masks(remapped, of.packed_sequence_mask_function(ids))
    assert read(of.causal_mask_function) == Pattern(right=0)
    assert read(of.sliding_window_causal_mask_function(5)) == Pattern(4, 0)
    assert read(of.sliding_window_bidirectional_mask_function(5)) == Pattern(5, 5)
    assert read(packed) == Pattern(None, 0, ids, True)
    for other in (lambda batch, head, query, key: key <= query, of.chunked_causal_mask_function(4, torch.zeros(1)),
                  of.or_masks(of.causal_mask_function, of.bidirectional_mask_function),
                  remapped):
        assert read(other) is None


def masked(mask, query, key, **options):
    module = torch.nn.Module()
    module.num_key_value_groups = 2
    return ours.attention(module, query, key, key, mask, **options)[0]


def queries(length=6, keys=6, grad=False):
    torch.manual_seed(2)
    return torch.randn(2, 4, length, 8, requires_grad=grad), torch.randn(2, 2, keys, 8)


@pytest.mark.parametrize("what", ["hole", "chunks", "beyond", "dropped"])
def test_what_no_kernel_can_follow_is_computed_by_torch_and_logged(what, caplog):
    query, key = queries()
    real = torch.tensor([[1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]]).bool()
    of = {"hole": dict(attention_mask=real), "beyond": dict(q_offset=2, attention_mask=torch.ones(2, 8).bool()), "dropped": {},
          "chunks": dict(mask_function=masking_utils.chunked_causal_mask_function(4, torch.zeros(2, dtype=torch.int64)))}[what]
    import mimw.integrations.transformers.once as once
    once._said.clear()
    with caplog.at_level(logging.INFO, "mimw"):
        mask = ours.mask_of(2, 6, 6, **of)
        found = masked(mask, query, key, **dict(dropout=1e-9) if what == "dropped" else {})
    why = {"hole": "padding lies between real tokens", "chunks": "none that mimw can read", "beyond": "not at the last key",
           "dropped": "no kernel of mimw drops"}[what]
    assert why in caplog.text
    wanted = torch.nn.functional.scaled_dot_product_attention(query, key, key, masking_utils.sdpa_mask(
        2, 6, 6, allow_is_causal_skip=False, **of), enable_gqa=True)
    torch.testing.assert_close(found, wanted.transpose(1, 2))
    sinks = torch.full((4, ), -1e4)         # a sink that takes nothing: the same by torch's operations
    torch.testing.assert_close(masked(mask, query, key, s_aux=sinks, **dict(dropout=1e-9) if what == "dropped" else {}), found)


def test_other_masks_and_refusals():
    query, key = queries(3, 6)
    module = torch.nn.Module()
    dense = torch.rand(2, 1, 3, 6) < 0.8
    torch.testing.assert_close(masked(dense, query, key), torch.nn.functional.scaled_dot_product_attention(
        query, key, key, dense, enable_gqa=True).transpose(1, 2))
    for causal in (False, True):        # None: to the upper left, as transformers' sdpa has it
        torch.testing.assert_close(masked(None, query, key, is_causal=causal), torch.nn.functional.scaled_dot_product_attention(
            query, key, key, is_causal=causal, enable_gqa=True).transpose(1, 2))
    seen = torch.tensor([[1, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]).bool()      # of an encoder
    mask = ours.mask_of(2, 3, 6, mask_function=masking_utils.bidirectional_mask_function, attention_mask=seen)
    torch.testing.assert_close(masked(mask, query, key), torch.nn.functional.scaled_dot_product_attention(
        query, key, key, seen[:, None, None], enable_gqa=True).transpose(1, 2))
    for name in ("block_table", "sinks"):
        with pytest.raises(NotImplementedError, match=f"takes no {name}"):
            ours.attention(module, query, key, key, None, **{name: torch.zeros(1)})
    with pytest.raises(NotImplementedError, match="window of 3 for 6 keys"):
        masked(None, query, key, sliding_window=3)


def test_sequences_that_the_caller_knows():
    query, key = queries()
    ends = torch.tensor([0, 2, 6])
    given = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=4, max_length_k=4)
    found = masked(None, query[:1], key[:1], **given)
    wanted = [ops.attention(query[:1, :, a:b], key[:1, :, a:b], key[:1, :, a:b], causal=True) for a, b in ((0, 2), (2, 6))]
    torch.testing.assert_close(found, torch.cat(wanted, 2).transpose(1, 2))
    with pytest.raises(NotImplementedError, match="no dropout"):
        masked(None, query[:1], key[:1], softcap=2.0, dropout=0.5, **given)


def test_experts_of_one_rank_stay_with_transformers(caplog):
    import mimw.integrations.transformers.once as once
    once._said.clear()
    model, (ids, _) = model_of("GptOss", num_hidden_layers=1), tokens()
    with torch.no_grad():
        wanted = model(ids).logits
        model.set_experts_implementation("mimw")
        model.model.layers[0].mlp.experts._is_expert_parallel = True
        with caplog.at_level(logging.INFO, "mimw"):
            torch.testing.assert_close(model(ids).logits, wanted)
    assert "the experts are those of one rank" in caplog.text


@pytest.mark.parametrize("layout", [dict(has_gate=False), dict(is_transposed=True), dict(has_bias=True, has_post_expert_norm=True)],
                         ids=", ".join)
def test_experts_of_other_layouts(layout):
    """Against transformers' own, batched_mm: no gate, transposed matrices, biases and a norm behind."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, use_experts_implementation

    class Experts(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            torch.manual_seed(3)
            first, columns = ("up_proj", 8) if layout.get("has_gate") is False else ("gate_up_proj", 16)
            for name, shape in ((first, (4, columns, 16)), ("down_proj", (4, 16, 8))):
                shape = (shape[0], shape[2], shape[1]) if layout.get("is_transposed") else shape
                self.register_parameter(name, torch.nn.Parameter(torch.randn(shape) / 4))
            self.gate_up_proj_bias, self.down_proj_bias = (torch.nn.Parameter(torch.randn(4, n)) for n in (16, 16))
            self.num_experts, self.act_fn, self.post_expert_norm = 4, torch.nn.SiLU(), torch.nn.RMSNorm(16)

    layer = use_experts_implementation(Experts, **layout)(transformers.LlamaConfig())
    x, ids, weights = torch.randn(5, 16, requires_grad=True), torch.randint(4, (5, 2)), torch.rand(5, 2, requires_grad=True)
    more = () if layout.get("has_bias") else ("bias", "norm")
    used = [x, weights, *(one for name, one in layer.named_parameters() if not any(part in name for part in more))]
    results = []
    for run in (ours.experts, ALL_EXPERTS_FUNCTIONS["batched_mm"]):
        y = run(layer, x, ids, weights)
        results.append([y.detach(), *torch.autograd.grad(y, used, torch.linspace(-1, 1, y.numel()).view(y.shape))])
    alike(*results, torch.float32)


@pytest.mark.long(but=["Llama-False-*"], everywhere=True)
@pytest.mark.parametrize("name, padded, operator", [
    ("Llama", False, "attention.default"), ("GptOss", False, "attention_with.default"), ("Llama", True, None)])
def test_models_compiled_in_one_graph(name, padded, operator):
    """With a cache, as by default, nothing can be packed; padding is not known in a trace: a dense mask then."""
    model, (ids, real) = model_of(name, num_hidden_layers=1, attn_implementation="mimw"), tokens()
    called = []

    def backend(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes if "mimw" in str(node.target))
        return graph

    with torch.no_grad():
        given = dict(attention_mask=real) if padded else {}
        wanted = model(ids, **given).logits
        found = torch.compile(model, fullgraph=True, backend=backend)(ids, **given).logits
    live = real.bool() if padded else torch.ones(2, SEQ, dtype=torch.bool)
    torch.testing.assert_close(found[live], wanted[live], atol=1e-6, rtol=1e-5)
    assert called == ([] if operator is None else [f"mimw.{operator}"])


def test_layers_compiled_where_masks_are_made_outside():
    model, (ids, real) = model_of("Llama", num_hidden_layers=1, attn_implementation="mimw"), tokens()
    called = []

    def backend(graph, _):
        called.extend(str(node.target) for node in graph.graph.nodes if "mimw" in str(node.target))
        return graph

    with torch.no_grad():
        wanted = model(ids, attention_mask=real).logits
        for layer in model.model.layers:
            layer.compile(fullgraph=True, backend=backend)
        torch.testing.assert_close(model(ids, attention_mask=real).logits, wanted)
    assert called == ["mimw.attention_varlen.default"]


def test_decoding_on_a_static_cache_is_one_graph_for_all_lengths():
    """As `generate` does it on a GPU: masks are made outside, and the graph is not compiled anew for the next token."""
    model, (ids, _) = model_of("Llama", num_hidden_layers=1, attn_implementation="mimw"), tokens()
    graphs, cache = [], transformers.StaticCache(config=model.config, max_cache_len=SEQ + 4)

    def backend(graph, _):
        graphs.append([str(node.target) for node in graph.graph.nodes if "mimw" in str(node.target)])
        return graph

    compiled = torch.compile(model, fullgraph=True, backend=backend)
    with torch.no_grad():
        model(ids, cache=cache)
        for new in (ids[:, :1], ids[:, 1:2]):
            mask = masking_utils.create_masks_for_generate(model.config, model.get_input_embeddings()(new), None, cache)
            found = compiled(new, attention_mask=mask, cache=cache).logits
        wanted = model(torch.cat((ids, ids[:, :2]), 1)).logits[:, -1:]
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-5)
    assert graphs == [["mimw.attention_decode.default"]]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["Llama", "Mixtral", "GptOss"])
def test_on_the_gpu(name):
    model, (ids, real) = model_of(name, torch.bfloat16, hidden_size=256, head_dim=64).cuda(), tokens()
    ids, real = ids.cuda(), real.cuda()
    wanted = logits_and_gradients(model, ids, real)
    model.set_attn_implementation("mimw")
    if name != "Llama":
        model.set_experts_implementation("mimw")
    nn.patch(model)
    alike(logits_and_gradients(model, ids, real), wanted, torch.bfloat16)
    ours.fuse_loss(model)
    model.zero_grad()
    out = model(ids, attention_mask=real, labels=ids.masked_fill(real * torch.nn.functional.pad(real, (1, 0))[:, :-1] == 0, -100),
                fused_loss=True)
    out.loss.backward()
    assert out.logits is None
    alike([parameter.grad for parameter in model.parameters()], wanted[1:], torch.bfloat16)
