"""Search strategies beyond BM25 and vectors, one file each; `registry.py` defines what a strategy is."""

from refdesk.ask.strategies import fusion, graph, hierarchical, late_interaction, multi_hop, survey
from refdesk.ask.strategies.registry import STRATEGIES, SearchStrategy, register, side_by_side

__all__ = [
    "STRATEGIES",
    "SearchStrategy",
    "fusion",
    "graph",
    "hierarchical",
    "late_interaction",
    "multi_hop",
    "register",
    "side_by_side",
    "survey",
]
