"""The names that `mimw` offers: adding or losing one is a decision, made here."""

import mimw

PUBLIC = [
    "Case",
    "Config",
    "TensorDescriptor",
    "World",
    "__version__",
    "auto",
    "autotune",
    "check",
    "check_compiled",
    "check_ttgir",
    "compile",
    "compile_ahead", "debug",
    "explain",
    "install_aliases",
    "jit",
    "orchestrate",
    "predict",
    "profile",
    "simulate",
    "tle",
    "tlx",
]


def test_the_list():
    assert mimw.__all__ == PUBLIC


def test_every_name_is_there_and_documented():
    without = [name for name in PUBLIC if name != "__version__" and not (getattr(mimw, name).__doc__ or "").strip()]
    assert without == []


def test_star_import_gives_just_these():
    scope = {}
    exec("from mimw import *", scope)
    assert sorted(set(scope) - {"__builtins__"}) == sorted(PUBLIC)


def test_dir_shows_these_and_the_modules_for_users():
    """And nothing that the module imports for itself, nor its rooms."""
    shown = {name for name in dir(mimw) if not name.startswith("__")}
    assert shown == set(PUBLIC) - {"__version__"} | {"distributed", "errors", "kernels", "ops", "testing"}
