"""From a path or a zoo name to a network: the passes in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cmswitch.errors import InputError
from cmswitch.graph.bind import bind, bind_values
from cmswitch.graph.build import build
from cmswitch.graph.infer import infer
from cmswitch.graph.known import unknown_operators
from cmswitch.graph.load import read_model
from cmswitch.graph.network import Network
from cmswitch.graph.zoo import ZOO_PREFIX, zoo_entry


def import_network(
    source: str | Path, dims: Mapping[str, int], batch: int | None, seq: int | None, values: Mapping[str, float]
) -> Network:
    """See :func:`cmswitch.graph.load_network`."""
    text = str(source)
    if text.startswith(ZOO_PREFIX):
        name = text[len(ZOO_PREFIX) :]
        entry = zoo_entry(name)
        model, defaults = entry.make(), entry.defaults
    else:
        path = Path(source)
        name, model, defaults = path.stem, read_model(path), {}
    try:
        bind(model, dims, batch, seq, text, defaults)
        bind_values(model, values, text)
    except InputError as error:
        raise InputError("\n".join((str(error), *unknown_operators(model)))) from error
    return build(infer(model, name))
