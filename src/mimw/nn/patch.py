"""`mimw.nn.patch`: the modules of a model that is there compute by mimw's operators, until that is undone.

Input: a model. Output: what was replaced, what was not and why, and the way back. For example:

    report = patch(model)
    print(report)                       65 modules of 98 compute by mimw: 32 Linear, 33 RMSNorm ...
    report.undo()

Nothing is copied: a module stays the same object with the same parameters, hooks and name, and gets a class with our `forward`.
So an optimizer that has the parameters goes on, and torch.compile compiles anew at the next call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from .linear import Linear
from .rules import RULES, Rule, full_name, rule_of


@dataclass(frozen=True)
class Replaced:
    """A module that computes by mimw."""

    name: str
    before: type
    after: type
    module: nn.Module = field(repr=False)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """A module that computes as before, and why."""

    name: str
    cls: type
    reason: str


@dataclass
class Report:
    """The modules that `patch` replaced, and those that it left. `str(report)` is a line for each class and reason."""

    replaced: list[Replaced]
    kept: list[Kept]

    def undo(self) -> None:
        """Give each module its class back, also where it stands elsewhere by now, as in the wrapper of a checkpoint.

        errors:    RuntimeError if a module has another class by now, as fully_shard gives it one: nothing is undone then
        """
        for one in self.replaced:
            if type(one.module) is not one.after:
                raise RuntimeError(f"undo: {one.name or 'the model'} was {one.after.__name__} after patch and is "
                                   f"{type(one.module).__name__} now; undo before what changed it, or undo that first")
        for one in self.replaced:
            for name in one.attributes.keys() & _own(one.module):
                delattr(one.module, name)
            one.module.__class__ = one.before
        self.replaced = []

    def __str__(self) -> str:
        of_ours = Counter(one.after.__name__ for one in self.replaced)
        kinds = ", ".join(f"{count} {name}" for name, count in of_ours.items())
        lines = [f"{len(self.replaced)} modules of {len(self.replaced) + len(self.kept)} compute by mimw"
                 + (f": {kinds}" if kinds else "")]
        for (cls, reason), names in _grouped(self.kept).items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            lines.append(f"  {cls.__name__} stays, {names[0] or 'the model'}{more}: {reason}")
        return "\n".join(lines)


def _grouped(kept: Iterable[Kept]) -> dict[tuple[type, str], list[str]]:
    groups: dict[tuple[type, str], list[str]] = {}
    for one in kept:
        groups.setdefault((one.cls, one.reason), []).append(one.name)
    return groups


def patch(model: nn.Module, *, only: Iterable[str] = (), skip: Iterable[str] = (), fp8: bool | Iterable[str] = False,
          hold: bool = False) -> Report:
    """Let the modules of a model compute by mimw where a rule (`mimw.nn.rules`) knows their class.

    args:      model   any module, in training or not, on a GPU or on the CPU, where kernels are simulated
               only    patterns of dotted names or of class names, "layers.*", "RMSNorm": other modules stay
               skip    patterns of modules that stay, "lm_head"
               fp8     True, or patterns: linear layers of these multiply in e4m3 (`mimw.nn.Linear`)
               hold    these layers hold their quantised weights for inference, as `mimw.nn.Linear` says
    returns:   a report, with `undo()`
    ordering   before `fully_shard` and other wrappers, which give modules classes of their own
    errors:    ValueError for a pattern that no module has, and for a rule that sets what a module has already; nothing is
               replaced after an error, also one of a rule
    """
    only, skip = tuple(only), tuple(skip)
    narrow = ("*", ) if fp8 is True else tuple(fp8 or ())
    modules = list(model.named_modules())
    _refuse_unknown(modules, {"only": only, "skip": skip, "fp8": narrow})
    report = Report([], [])
    try:
        for name, module in modules:
            reason = _reason(name, module, only, skip)
            if reason is None and (rule := rule_of(module)) is not None:
                _replace(name, module, rule, _matches(name, module, narrow), hold, report.replaced)
            elif reason is not None:
                if isinstance(module, Linear) and not module.fp8 and _matches(name, module, narrow):
                    reason += ", without fp8: undo the patch before, or give fp8=True where it is made"
                report.kept.append(Kept(name, type(module), reason))
    except BaseException:
        report.undo()
        raise
    return report


def _own(module: nn.Module) -> set[str]:
    """The names of what was set on the module itself: attributes, parameters, buffers and modules."""
    return {*vars(module), *module._parameters, *module._buffers, *module._modules}


def _replace(name: str, module: nn.Module, rule: Rule, fp8: bool, hold: bool, replaced: list[Replaced]) -> None:
    before, attributes = type(module), dict(rule.attributes(module))
    after = rule.into(before)
    if issubclass(after, Linear) and fp8:
        attributes |= dict(fp8=True, hold=True) if hold else dict(fp8=True)
    if held := attributes.keys() & _own(module):
        raise ValueError(f"patch: the rule of {rule.of} sets {', '.join(sorted(held))}, which {name or 'the model'} has already; "
                         "undo could not restore that, so let the rule take another name")
    module.__class__ = after
    for attribute, value in attributes.items():
        setattr(module, attribute, value)
    replaced.append(Replaced(name, before, after, module, attributes))


def _matches(name: str, module: nn.Module, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) or fnmatchcase(type(module).__name__, pattern) for pattern in patterns)


def _refuse_unknown(modules: list[tuple[str, nn.Module]], given: Mapping[str, tuple[str, ...]]) -> None:
    for option, patterns in given.items():
        for pattern in patterns:
            if not any(_matches(name, module, (pattern, )) for name, module in modules):
                classes = sorted({type(module).__name__ for _, module in modules})
                raise ValueError(f"patch: {option}={pattern!r} is no module of this model; patterns are of dotted names, as "
                                 f"{modules[-1][0]!r}, or of classes: {', '.join(classes)}")


def _reason(name: str, module: nn.Module, only: tuple[str, ...], skip: tuple[str, ...]) -> str | None:
    """The reason why a module stays as it is; None also for one without a rule that does nothing but call others."""
    cls, rule = type(module), rule_of(module)
    if rule is None:
        return _of_no_rule(cls) if not any(module.children()) or any(True for _ in module.parameters(recurse=False)) else None
    if only and not _matches(name, module, only):
        return "only= does not name it"
    if _matches(name, module, skip):
        return "skip= names it"
    if "forward" in vars(module):
        return "it has a forward of its own, set on the instance"
    return rule.reason(module)


def _of_no_rule(cls: type) -> str:
    if cls.__module__.startswith("mimw.nn"):
        return "it is mimw's"
    known = next((base for base in cls.__mro__[1:] if full_name(base) in RULES), None)
    if known is not None:
        return f"it is a subclass of {known.__name__}, which may compute something else"
    return "no rule knows its class"


__all__ = ["Kept", "Replaced", "Report", "patch"]
