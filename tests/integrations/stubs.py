"""Modules that stand for packages that are not installed, so that a large package can be imported for a few of its classes.

Input: names of packages. Output: an import of one gives a module that has every name, each a class without behaviour. For example:

    stub("zmq", "xgrammar")             unless they are installed
    from zmq import Context             Context().anything is another such thing
"""

import importlib.abc
import importlib.machinery
import sys
import types


class _Names(type):
    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub

    def __or__(cls, other: object) -> object:
        return object

    __ror__ = __or__


class Stub(metaclass=_Names):
    """Has every attribute, may be called, decorates nothing."""

    def __init__(self, *args: object, **kwargs: object):
        pass

    def __call__(self, *args: object, **kwargs: object) -> object:
        return args[0] if len(args) == 1 and callable(args[0]) else Stub()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub()

    def __class_getitem__(cls, item: object) -> type:
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, *args: object) -> object:
        from pydantic_core import core_schema
        return core_schema.any_schema()


class StubModule(types.ModuleType):
    """A module of Stubs."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", type(name, (Stub, ), {"__module__": self.__name__}))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last to be asked, so that what is installed is imported as ever."""

    def __init__(self, packages: tuple[str, ...]):
        self._packages = packages

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] in self._packages:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stub(*packages: str) -> None:
    """Have imports of these packages, where they are not installed, give modules of Stubs."""
    sys.meta_path.append(_Finder(packages))
