"""Models as workloads: catalogue names, Hugging Face configurations, plain ``M,N,K``."""

from .load import catalogue, load_model

__all__ = ["catalogue", "load_model"]
