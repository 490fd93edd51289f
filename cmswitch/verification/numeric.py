"""A network with its numbers."""

from __future__ import annotations

import contextlib
import logging

import numpy as np
import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from cmswitch.functional.formats import Array
from cmswitch.graph.assemble import assemble
from cmswitch.graph.importer import import_graph
from cmswitch.graph.ir import Graph
from cmswitch.graph.network import Network
from cmswitch.graph.read import drop_data
from cmswitch.options import ModelOptions
from cmswitch.verification.constants import Constants, fill_weights, take_weights
from cmswitch.verification.inputs import Sample

LOG = logging.getLogger(__name__)


class Numeric:
    """A network with its numbers: graph, constants, and onnxruntime on the whole file."""

    def __init__(self, model: ModelOptions, seed: int) -> None:
        self._stored: dict[str, Array] = {}
        self._whole = b""
        self._seed = seed
        self.graph: Graph = import_graph(
            model.model, model.dims, model.batch, model.sequence, model.values, self._prepare
        )
        self.network: Network = assemble(self.graph)
        self.constants = Constants(self.graph, self._stored, model.values)

    def _prepare(self, model: onnx.ModelProto) -> None:
        fill_weights(model, self._seed)
        self._stored.update(take_weights(model))
        with contextlib.suppress(ValueError, EncodeError):  # more than 2 GB: then there is nothing to compare with
            self._whole = model.SerializeToString()
        drop_data(model.graph.initializer)

    def float_outputs(self, sample: Sample) -> dict[str, Array] | None:
        """Outputs of the whole file in onnxruntime; None, with a warning that says why, where it cannot run it."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(self._whole, options, providers=["CPUExecutionProvider"])
            types = {each.name: each for each in session.get_inputs()}
            feeds = dict(sample)
            feeds.update({name: self.constants[name] for name in types if name not in feeds})
            names = [each.name for each in session.get_outputs()]
            found = session.run(names, {name: array for name, array in feeds.items() if name in types})
        except Exception as error:  # whatever a runtime raises on a file that it cannot run
            reason = str(error).strip().partition("\n")[0]
            LOG.warning(
                "onnxruntime cannot run the file (%s): outputs are compared with its nodes run one by one", reason
            )
            return None
        return {name: np.asarray(each) for name, each in zip(names, found, strict=True)}
