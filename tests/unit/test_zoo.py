"""The zoo: every network imports, is stable, and allocates no weights."""

from __future__ import annotations

import pytest

from cmswitch.graph import load_network
from cmswitch.graph.zoo import ZOO, zoo_entry


@pytest.mark.parametrize("name", ZOO)
def test_models_carry_no_weight_data(name: str) -> None:
    assert zoo_entry(name).make().ByteSize() < 400_000


@pytest.mark.parametrize("name", ZOO)
def test_networks_are_well_formed(name: str) -> None:
    network = load_network(f"zoo:{name}")
    assert network.name == name
    assert network.host_nodes == ()
    for index, operator in enumerate(network.operators):
        assert operator.chunks >= 1
        for write in operator.writes:
            assert network.tensors[write.tensor].producer == index
        for read in operator.reads:
            producer = network.tensors[read.tensor].producer
            assert producer is None or producer < index
            total = network.operators[producer].chunks if producer is not None else 1
            needs = [read.need.chunks(chunk, total) for chunk in range(operator.chunks)]
            assert needs == sorted(needs)
            assert 1 <= read.need.span <= total
    for number, tensor in enumerate(network.tensors):
        assert tensor.is_output or network.consumers[number]
    covered = [node for operator in network.operators for node in operator.nodes]
    assert len(covered) == len(set(covered))


def test_import_is_deterministic() -> None:
    assert load_network("zoo:mobilenet_v2") == load_network("zoo:mobilenet_v2")


def test_dimensions_bind_by_option_or_name() -> None:
    assert load_network("zoo:bert-large", batch=2, seq=16) == load_network(
        "zoo:bert-large", dims={"batch": 2, "seq": 16}
    )
