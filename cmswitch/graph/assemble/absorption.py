"""Which normalisations a convolution does already: scaling its weights is no work."""

from __future__ import annotations

from cmswitch.graph.ir import Graph, Node


def absorbed_normalizations(graph: Graph) -> frozenset[str]:
    """BatchNormalization nodes with constant parameters right after a convolution, of either kind, that nothing else reads;
    not those whose statistics are read."""
    uses: dict[str, int] = dict.fromkeys(graph.outputs, 1)
    maker: dict[str, Node] = {}
    for node in graph.nodes:
        for value in filter(None, node.inputs):
            uses[value] = uses.get(value, 0) + 1
        for value in filter(None, node.outputs):
            maker[value] = node

    def scaled_by_weights(value: str) -> bool:
        made = maker.get(value)
        if made is not None and made.operator == "OverlapAdd":
            made = maker.get(made.inputs[0])
        return made is not None and made.operator in ("Conv", "TransposedProduct") and made.value(1).constant

    return frozenset(
        node.id
        for node in graph.nodes
        if node.operator == "BatchNormalization"
        and scaled_by_weights(node.inputs[0])
        and uses[node.inputs[0]] == 1
        and all(node.value(i).constant for i in range(1, 5))
        and not any(node.makes(i) for i in range(1, len(node.outputs)))
    )
