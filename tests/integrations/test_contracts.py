"""What adaptors stand on: the record against the adaptors, and a server that differs from the record in one thing."""

import ast
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the operators are torch's")

from mimw.integrations import contracts, sglang, vllm  # noqa: E402
from mimw.integrations.vllm import installed  # noqa: E402

from . import record_vllm  # noqa: E402
from .sources import Sources  # noqa: E402
from .stand_in import modules  # noqa: E402

SERVERS = {"vllm": record_vllm.NAMES, "sglang": sglang.STANDS_ON}
VERSIONS = {"vllm": installed.VERSION, "sglang": sglang.VERSION}


@pytest.fixture
def server(monkeypatch, request):
    """The server of the case, with modules as the record has them."""
    for name, module in modules(request.param).items():
        monkeypatch.setitem(sys.modules, name, module)
    return request.param


both = pytest.mark.parametrize("server", SERVERS, indirect=True)


def check(server, found=None):
    contracts.check(server, VERSIONS[server], found or contracts.recorded(server)["version"], SERVERS[server])


@both
def test_the_record_has_what_adaptors_stand_on_and_no_more(server):
    assert set(contracts.recorded(server)["contracts"]) == set(SERVERS[server])
    check(server)


@both
def test_another_version_is_refused(server):
    with pytest.raises(contracts.UnreadVersion, match=f"this is {server} 0.1.*or set MIMW_{server.upper()}=none"):
        check(server, "0.1")


@pytest.mark.parametrize("server", ["vllm"], indirect=True)
@pytest.mark.parametrize("changed, there", [
    (lambda self, x: None, r"is \(x, residual=None\); .* it is \(x\)"),
    (lambda self, x, residual=0: None, r"it is \(x, residual=0\)"),
    (lambda self, residual=None, *, x: None, r"it is \(residual=None, \*, x\)"),
    (None, "it is an attribute"), ("gone", "it is missing")])
def test_a_changed_method_is_refused(server, changed, there, monkeypatch):
    norm = sys.modules["vllm.model_executor.layers.layernorm"].RMSNorm
    if changed == "gone":
        monkeypatch.delattr(sys.modules["vllm.model_executor.layers.layernorm"], "RMSNorm")
    else:
        monkeypatch.setattr(norm, "forward_cuda", changed)
    with pytest.raises(contracts.ChangedContract, match=f"RMSNorm.*{there}.*Install vllm==0.33.0"):
        check(server)


def test_parameters_are_the_same_read_and_imported(tmp_path):
    source = ("from enum import Enum\nWIDE = 8\n\n\nclass A:\n    size: int\n\n"
              "    def f(self, a, b=-1, *more, c, d=WIDE, e='x', **rest):\n        self.found = a\n\n"
              "    @classmethod\n    def g(cls, a=None):\n        pass\n\n    @property\n    def p(self):\n        return 1\n")
    (tmp_path / "a_server.py").write_text(source)
    (tmp_path / "a_server-1.2.dist-info").mkdir()
    space: dict = {}
    exec(source, space)
    read = Sources(tmp_path)
    assert read.version == "1.2"
    assert read.contract("a_server:A.f") == ["a", "b=-1", "*more", "c", "d=...", "e='x'", "**rest"]
    assert contracts.parameters(space["A"].f) == ["a", "b=-1", "*more", "c", "d=8", "e='x'", "**rest"]
    assert read.contract("a_server:A.g") == contracts.parameters(space["A"].g) == ["a=None"]
    assert [read.contract(f"a_server:{name}") for name in ("A", "A.p", "A.size", "A.found", "WIDE", "A.lost", "lost")] == [
        "class", *["attribute"] * 4, None, None]


def of_vllm():
    """(class of vLLM, method of ours) for each method that a subclass of ours has in place of vLLM's."""
    for path in sorted(Path(vllm.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.bases and node.name.startswith("Mimw"):
                yield from ((node.bases[0].id, one) for one in node.body if isinstance(one, ast.FunctionDef))


def test_methods_of_ours_take_what_those_of_vllm_take():
    from .sources import parameters
    record = {}
    for name, contract in contracts.recorded("vllm")["contracts"].items():
        record.setdefault(name.partition(":")[2], contract)
    inherited = {"FlashAttentionBackend": "AttentionBackend", "Fp8BlockScaledMMLinearKernel": "MMLinearKernel"}
    methods = [(base, one) for base, one in of_vllm() if one.name != "_never"]
    assert len(methods) > 15
    for base, one in methods:
        wanted = record.get(f"{base}.{one.name}", record.get(f"{inherited.get(base)}.{one.name}"))
        found = parameters(one.args)
        assert wanted == "attribute" or found == wanted or found == ["*args", "**kwargs"], (base, one.name, found, wanted)


def test_hooks_of_sglang_take_what_its_functions_take():
    """Those of FlashAttention's decoding pass on what they do not name."""
    record = {name.replace(":", "."): contract for name, contract in contracts.recorded("sglang")["contracts"].items()}
    for target, hook in (pair for hooks in sglang.HOOKS.values() for pair in hooks.items()):
        wanted, found = record[target], [one for one in contracts.parameters(hook) if one != "self"]
        assert found[0] == "original"
        if "*args" in found:
            assert {one for one in found[1:] if not one.startswith("*")} <= set(wanted)
        else:
            assert found[1:] == wanted


def test_what_adaptors_read_of_vllm_is_in_the_record():
    """Attributes of `self`, of the metadata of a step and of configurations, other than those that the classes set themselves."""
    known = {name.rpartition(".")[2] for name in contracts.recorded("vllm")["contracts"]}
    read = set()
    for path in Path(vllm.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        used = [one for one in ast.walk(tree) if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)
                and one.value.id in ("self", "common", "config", "attn_metadata", "layer", "capability")]
        ours = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)} | {"_reason", "mimw_rows"}
        read |= {one.attr for one in used} - ours
    assert len(read) > 40 and not read - known - {"name"}, "the name that vLLM's decorator of layers gives a class"


def test_what_only_instances_have_is_taken_from_the_record(monkeypatch):
    import enum
    from dataclasses import make_dataclass
    from types import ModuleType
    one = ModuleType("a_server")
    one.Layer, one.Word, one.Plan = type("Layer", (), {}), enum.Enum("Word", "HERE"), make_dataclass("Plan", ["size"])
    monkeypatch.setitem(sys.modules, "a_server", one)
    names = {f"a_server:{name}": "attribute" for name in (
        "Layer.weight", "Word.HERE", "Plan.size", "Word.GONE", "Plan.gone", "GONE")}
    monkeypatch.setattr(contracts, "recorded", lambda server: dict(version="1.2", contracts=names))
    contracts.check("a_server", "1.2", "1.2", list(names)[:3])
    for name in list(names)[3:]:
        with pytest.raises(contracts.ChangedContract, match=f"{name} is an attribute; .* it is missing"):
            contracts.check("a_server", "1.2", "1.2", [name])
