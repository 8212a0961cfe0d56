"""Solved IR to TTGIR: replays each op on Triton's Gluon builder with the layouts that were chosen. It decides nothing."""

from .emitter import lower

__all__ = ["lower"]
