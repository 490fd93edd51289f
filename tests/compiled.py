"""Compile a network and have checker, simulator and program text agree about the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import hw
from cmswitch.checker import check_plan, load_plan
from cmswitch.graph import Network
from cmswitch.pipeline import Options, Result, compile_network
from cmswitch.program.text import format_program, parse_program
from cmswitch.simulator import simulate


def compiled(network: Network, chip: hw.Chip | None = None, options: Options | None = None) -> Result:
    """The result on ``chip`` (default: dynaplasia), as legal and as long as it says."""
    chip = chip or hw.load_chip("dynaplasia")
    result = compile_network(network, chip, options)
    assert check_plan(load_plan(result.plan.to_json()), network, chip).violations == ()
    written = parse_program(format_program(result.program))
    assert simulate(written, chip).total_cycles == result.timing.total_cycles
    assert result.roofline_cycles <= result.timing.total_cycles
    assert result.certificate.bound_cycles <= result.certificate.objective_cycles
    return result


def origins(result: Result) -> Iterator[str]:
    """The node that each statement of the program comes from, statements that move data between places left out."""
    for segment in result.program.segments:
        nodes = {stage.operator: stage.nodes for stage in segment.stages}
        for write in segment.writes:
            yield nodes[write.operator][0]
        for stage in segment.stages:
            yield from stage.nodes
            yield from (vector.node for vector in stage.vector)
            for write in stage.operand:
                yield nodes[write.operator][0]


def sources(nodes: Iterable[str]) -> set[str]:
    """The nodes of the file behind ``nodes``, of which those that a composite node is replaced by are called ``NODE#PART``."""
    return {node.partition("#")[0] for node in nodes}


def on_arrays(network: Network) -> set[str]:
    """The nodes of the file whose products run on the arrays."""
    return sources(operator.nodes[0] for operator in network.operators if operator.product)


def off_arrays(network: Network) -> set[str]:
    """The nodes on the vector unit, of data movement and of metadata that neither arrays nor host have a part in."""
    return set[str]().union(*network.places.values()) - network.places["arrays"] - set(network.host_nodes)
