"""Launches of Gluon kernels of packages, by name, for `compiled_checks`."""

from __future__ import annotations

from .compiled_checks_sources import Case

PACKAGES: dict[str, Case] = {}
