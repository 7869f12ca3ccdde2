"""Models as workloads: catalogue names, Hugging Face configurations, topologies, plain ``M,N,K``."""

from .load import catalogue, load_model
from .topology import read_topology, write_topology

__all__ = ["catalogue", "load_model", "read_topology", "write_topology"]
