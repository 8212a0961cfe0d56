"""What things cost on each chip: data files with sources, and the formulas over them."""

from .model import Figure, Model, model

__all__ = ["Figure", "Model", "model"]
