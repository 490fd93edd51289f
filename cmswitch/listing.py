"""The operators of a network as JSON and as a table: sizes, MACs, and what runs where."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cmswitch.graph.network import MatrixProduct, Network, Operator


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
        "nodes_by_place": {place: len(nodes) for place, nodes in network.places.items()},
        "vector_nodes": network.vector_nodes,
        "host_nodes": network.host_nodes,
    }
    return json.dumps(whole, indent=2) + "\n"


def network_table(network: Network) -> str:
    """One line per operator, then how much runs where, then the nodes that run on the host."""
    lines = [
        f"{network.name}: {network.node_count} nodes, {network.macs:,} MACs, {network.weight_elements:,} weights",
        f"{'rows M':>9} {'inner N':>9} {'columns K':>9} {'groups G':>9} {'MACs':>16}  operator + fused vector operators",
        *(_row(operator) for operator in network.operators),
        "nodes: " + "; ".join(f"{len(nodes)} {place}" for place, nodes in network.places.items()),
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
