"""The network of a bound graph: what the rules say of each node, fused into operators."""

from __future__ import annotations

from cmswitch.errors import InputError
from cmswitch.graph.assemble.absorption import absorbed_normalizations
from cmswitch.graph.assemble.mapped import apply_rules
from cmswitch.graph.assemble.operators import Builder
from cmswitch.graph.assemble.requantize import without_requantization
from cmswitch.graph.ir import Graph
from cmswitch.graph.network import Network

__all__ = ["apply_rules", "assemble"]


def assemble(graph: Graph) -> Network:
    """The network of a bound graph. Raises InputError that lists every node that cannot be mapped."""
    absorbed = absorbed_normalizations(graph)
    mapped = without_requantization(graph, apply_rules(graph), absorbed)
    network = Builder(graph, mapped, absorbed).network()
    if not network.operators:
        none = "no output depends on an input that has elements"
        why = "its outputs are inputs in another shape" if graph.nodes else none
        raise InputError(f"{graph.name}: {why}; there is nothing to map")
    return network
