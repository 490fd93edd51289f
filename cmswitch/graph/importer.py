"""From a path or a zoo name to a network: the passes in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx

from cmswitch.errors import InputError, listed
from cmswitch.graph.assemble import assemble
from cmswitch.graph.check import unknown_operators
from cmswitch.graph.infer import infer
from cmswitch.graph.ir import Graph
from cmswitch.graph.network import Network
from cmswitch.graph.read import bind, bind_values, read_model
from cmswitch.graph.zoo import ZOO_PREFIX, zoo_entry


def import_graph(
    source: str | Path,
    dims: Mapping[str, int],
    batch: int | None,
    seq: int | None,
    values: Mapping[str, float],
    prepare: Callable[[onnx.ModelProto], None],
) -> Graph:
    """The bound graph of a network whose weights have their data. ``prepare`` gets the model before anything is bound, with
    the data of its weights (networks of the zoo have none), and may take them out."""
    name, model, defaults = _read(source, with_data=True)
    prepare(model)
    _bind(model, str(source), dims, batch, seq, values, defaults)
    return infer(model, name)


def import_network(
    source: str | Path, dims: Mapping[str, int], batch: int | None, seq: int | None, values: Mapping[str, float]
) -> Network:
    """See :func:`cmswitch.graph.load_network`."""
    name, model, defaults = _read(source, with_data=False)
    _bind(model, str(source), dims, batch, seq, values, defaults)
    return assemble(infer(model, name))


def _bind(
    model: onnx.ModelProto,
    where: str,
    dims: Mapping[str, int],
    batch: int | None,
    seq: int | None,
    values: Mapping[str, float],
    defaults: Mapping[str, int],
) -> None:
    """Bind dimensions and values; if that fails, say with the same error which operators are not known."""
    try:
        bind(model, dims, batch, seq, where, defaults)
        bind_values(model, values, where)
    except InputError as error:
        raise InputError("\n".join((str(error), *listed(unknown_operators(model))))) from error


def _read(source: str | Path, with_data: bool) -> tuple[str, onnx.ModelProto, dict[str, int]]:
    """(name, model, default sizes of its symbolic dimensions)."""
    text = str(source)
    if text.startswith(ZOO_PREFIX):
        name = text[len(ZOO_PREFIX) :]
        entry = zoo_entry(name)
        return name, entry.make(), entry.defaults
    path = Path(source)
    return path.stem, read_model(path, with_data), {}
