"""A server's modules as its record has them: classes and functions with the recorded parameters, which compute nothing.

Input: the record of a server. Output: modules for `sys.modules`. For example:

    monkeypatch.setitem(sys.modules, name, module)          for name, module in modules("vllm").items()
    RMSNorm.forward_cuda(layer, x)                          NotImplementedError: only its parameters are recorded
"""

from types import ModuleType

from mimw.integrations.contracts import recorded


def function(name: str, parameters: list[str], inside: bool) -> object:
    """A function with these parameters, behind `self` in a class."""
    space: dict = {}
    exec(f"def {name}({', '.join([*['self'] * inside, *parameters])}):\n"
         f"    raise NotImplementedError('only the parameters of {name} are recorded')", space)
    return space[name]


def modules(server: str) -> dict[str, ModuleType]:
    """The modules of the record, with those that hold them."""
    found: dict[str, ModuleType] = {}
    for name, contract in recorded(server)["contracts"].items():
        module, _, path = name.partition(":")
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            here = ".".join(parts[:end])
            if here not in found:
                found[here] = ModuleType(here)
                found[here].__path__ = []
                if end > 1:
                    setattr(found[".".join(parts[:end - 1])], parts[end - 1], found[here])
        owner: object = found[module]
        *owners, last = path.split(".")
        for part in owners:
            if part not in vars(owner):
                setattr(owner, part, type(part, (), {"__module__": module}))
            owner = getattr(owner, part)
        if isinstance(contract, list):
            setattr(owner, last, function(last, contract, bool(owners)))
        elif contract == "class":
            if last not in vars(owner):
                setattr(owner, last, type(last, (), {"__module__": module}))
        else:
            setattr(owner, last, None)
    return found
