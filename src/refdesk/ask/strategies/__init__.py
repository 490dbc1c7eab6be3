"""Search strategies beyond BM25 and vectors; `registry.py` says what one is, and holds the smallest."""

from refdesk.ask.strategies import fusion, graph, hierarchical, multi_hop, survey
from refdesk.ask.strategies.registry import STRATEGIES, SearchStrategy, register, side_by_side

__all__ = [
    "STRATEGIES",
    "SearchStrategy",
    "fusion",
    "graph",
    "hierarchical",
    "multi_hop",
    "register",
    "side_by_side",
    "survey",
]
