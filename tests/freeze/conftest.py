"""The fixture `gpu` for the tests of this folder."""

from tests.freeze.fake_gpu import gpu  # noqa: F401
