"""The recurrent half of LSTM, GRU and RNN: one step per chunk, each on the state that the step before left."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node
from cmswitch.graph.rules.rule import RULES, Product, Vector
from cmswitch.graph.streams import SAME
from cmswitch.graph.table import INTERNAL


@RULES.of("Recurrence", domain=INTERNAL)
def recurrence(node: Node) -> Product:
    """Recurrence of one direction: gate pre-activations [T, B, gates x H] and weights [gates x H, H] to states [T, B, H].

    The other inputs (constant bias, lengths, initial states, peepholes) are read whole before the first step. The attribute
    ``cell`` and those of the file's node say what a step computes. What the vector unit does with the gates of one element of the
    state is in the attributes ``additions`` and ``operations``; then the new state moves back to the inputs of the arrays.
    """
    steps, batch, hidden = out = node.output_shape()
    columns = node.shape(0)[-1]
    elements = prod(out)
    backwards = node.integer("backwards", 0)
    return Product(
        rows=steps * batch,
        inner=hidden,
        columns=columns,
        groups=1,
        matrix=0,
        operand=1,
        axes=() if backwards else (0, 1),
        chunks=steps,
        link={} if backwards else {0: (0, SAME), 1: (1, SAME)},
        initial=tuple(i for i in range(2, len(node.inputs)) if node.has(i) and not node.value(i).constant),
        recurrent=True,
        extra=(
            ("add", elements * node.integer("additions", 0)),
            ("elementwise", elements * node.integer("operations", 0)),
            ("copy", elements),
        ),
    )


@RULES.of("FinalCell", domain=INTERNAL)
def final_cell(node: Node) -> Vector:
    """FinalCell: the cell state [1, B, H] that the last step of its input, a Recurrence, leaves."""
    return Vector("copy", node.output_elements(), (({},),), columnwise=False)
