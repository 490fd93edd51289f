"""The operators of a network as JSON and as a table: sizes, MACs, and what runs where."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cmswitch.naming import quantity

if TYPE_CHECKING:
    from cmswitch.graph.network import MatrixProduct, Network, Operator


def nodes_by_place(network: Network) -> dict[str, int]:
    """How many nodes run where: one that stands for several may be in several places, one that constants replace is in none."""
    return {place: len(nodes) for place, nodes in network.places.items()}


def network_in_words(nodes: int, by_place: Mapping[str, int], macs: int, weights: int) -> str:
    """The nodes of a file and where they run, MACs, and constant weights (elements)."""
    places = ", ".join(f"{place}: {count}" for place, count in by_place.items())
    return f"{quantity(nodes, 'node')} ({places}); {quantity(macs, 'MAC')}, {quantity(weights, 'weight')}"


def network_json(network: Network) -> str:
    """Everything of the table as JSON; sizes are elements, ``product`` is null for vector-only operators."""

    def product(matrix: MatrixProduct | None) -> dict[str, object] | None:
        return None if matrix is None else {**dataclasses.asdict(matrix), "macs": matrix.macs}

    whole = {
        "name": network.name,
        "nodes": network.node_count,
        "macs": network.macs,
        "weight_elements": network.weight_elements,
        "operators": [
            {"name": o.name, "nodes": o.nodes, "product": product(o.product), "vector": [v.node for v in o.vector]}
            for o in network.operators
        ],
        "nodes_by_place": nodes_by_place(network),
        "host_nodes": network.host_nodes,
    }
    return json.dumps(whole, indent=2) + "\n"


def network_table(network: Network) -> str:
    """How much runs where, then one line per operator, then the nodes that run on the host."""
    lines = [
        f"{network.name}: "
        + network_in_words(network.node_count, nodes_by_place(network), network.macs, network.weight_elements),
        f"{'rows M':>9} {'inner N':>9} {'columns K':>9} {'groups G':>9} {'MACs':>16}  operator + fused vector operators",
        *(_row(operator) for operator in network.operators),
        *(f"  host: {node}" for node in network.host_nodes),
    ]
    return "\n".join(lines) + "\n"


def _row(operator: Operator) -> str:
    matrix = operator.product
    if matrix is None:
        figures = f"{'-':>9} {'-':>9} {'-':>9} {'-':>9} {'-':>16}"
    else:
        figures = f"{matrix.rows:>9} {matrix.inner:>9} {matrix.columns:>9} {matrix.groups:>9} {matrix.macs:>16,}"
    held = " [operand written at run time]" if matrix is not None and matrix.dynamic else ""
    if matrix is not None and matrix.weight_bits is not None:
        held = f" [{matrix.weight_bits}-bit weights]"
    fused = dict.fromkeys(work.node for work in operator.vector if work.node != operator.name)
    return f"{figures}  {operator.name}{held}" + "".join(f" + {node}" for node in fused)
