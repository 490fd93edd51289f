"""Reshapes whose targets follow from a dimension that is bound on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cmswitch.graph import MatrixProduct
from tests.compiled import compiled, off_arrays
from tests.sketch import Sketch


@pytest.mark.parametrize("target", [(0, -1), (-1, 192)])
@pytest.mark.parametrize("batch", [1, 5])
def test_reshape_of_a_dynamic_dimension(tmp_path: Path, target: tuple[int, int], batch: int) -> None:
    s = Sketch(tmp_path)
    s.add("Reshape", "rows", s.input("x", "images", 3, 8, 8), s.ints("target", *target))
    s.add("MatMul", "y", "rows", s.weight("w", 192, 10))
    network = s.load("y", dims={"images": batch})
    assert [o.product for o in network.operators] == [MatrixProduct(batch, 192, 10, 1, "w")]
    assert network.macs == batch * 192 * 10
    assert {t.name: t.elements for t in network.tensors} == {"x": batch * 192, "y": batch * 10}
    assert (off_arrays(network), network.host_nodes) == ({"rows"}, ())
    compiled(network)


@pytest.mark.parametrize(("batch", "tokens"), [(1, 7), (3, 4)])
def test_target_that_is_computed_from_the_shape(tmp_path: Path, batch: int, tokens: int) -> None:
    """Heads are split off as exporters write it: Shape, Gather, Unsqueeze, Concat, Reshape, for both dynamic dimensions."""
    s = Sketch(tmp_path)
    s.add("MatMul", "m", s.input("x", "batch", "tokens", 32), s.weight("w", 32, 48))
    s.add("Shape", "shape", "m")
    s.ints("axis", 0)
    for position, name in enumerate(("count", "length")):
        s.add("Constant", f"{name}_at", value_int=position)
        s.add("Gather", f"{name}_scalar", "shape", f"{name}_at", axis=0)
        s.add("Unsqueeze", name, f"{name}_scalar", "axis")
    s.add("Concat", "target", "count", "length", s.ints("heads", 4, -1), axis=0)
    s.add("Reshape", "split", "m", "target")
    s.add("MatMul", "y", "split", s.weight("v", 12, 5))
    network = s.load("y", batch=batch, seq=tokens)
    assert [o.product for o in network.operators] == [
        MatrixProduct(batch * tokens, 32, 48, 1, "w"),
        MatrixProduct(batch * tokens * 4, 12, 5, 1, "v"),
    ]
    assert network.macs == batch * tokens * (32 * 48 + 4 * 12 * 5)
    assert (off_arrays(network), network.host_nodes) == ({"split"}, ())
    compiled(network)
