"""The domain ai.onnx.ml: features, classical classifiers and regressors."""

from __future__ import annotations

from collections.abc import Sequence

from cmswitch.graph.ir import Node
from cmswitch.graph.network import HOST
from cmswitch.graph.rules.elementwise import elementwise
from cmswitch.graph.rules.indexing import array_feature_extractor, host_elementwise
from cmswitch.graph.rules.rule import RULES, Vector, along, refusal
from cmswitch.graph.table import ML


@RULES.of("FeatureVectorizer", domain=ML)
def features(node: Node) -> Vector:
    """FeatureVectorizer: columns side by side."""
    return Vector("copy", node.output_elements(), ((along((0,)),) * len(node.inputs),), columnwise=False)


@RULES.of("Normalizer", domain=ML)
def normalizer(node: Node) -> Vector:
    """Normalizer: each row divided by its norm."""
    return Vector("normalization", node.output_elements(), ((along((0,)),),), columnwise=False)


@RULES.of("OneHotEncoder", domain=ML)
def encoded(node: Node) -> Vector:
    """OneHotEncoder: a comparison with every category."""
    rank = len(node.shape(0))
    return Vector("elementwise", node.output_elements(), ((along(range(rank)),),), columnwise=False)


@RULES.of("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def trees(node: Node) -> Vector:
    """Tree ensembles on the host: for each row a path through every tree, at worst its longest, and the sum of the leaves."""
    rows = node.shape(0)[0]
    made = sum(node.output_elements(index) for index in range(len(node.outputs)) if node.makes(index))
    steps = _flat_steps(node) if node.operator == "TreeEnsemble" else _listed_steps(node)
    return Vector(HOST, rows * steps + made, ((along((0,)),),) * len(node.outputs), columnwise=False)


def _flat_steps(node: Node) -> int:
    """Nodes on the longest path of every tree, leaves included, where branches say whether they lead to a leaf."""
    branches = [
        [target for target, leaf in zip(pair, leaves, strict=True) if not leaf]
        for pair, leaves in zip(
            zip(_list(node, "nodes_truenodeids"), _list(node, "nodes_falsenodeids"), strict=True),
            zip(_list(node, "nodes_trueleafs"), _list(node, "nodes_falseleafs"), strict=True),
            strict=True,
        )
    ]
    return sum(_longest(branches, root) + 1 for root in _list(node, "tree_roots"))


def _listed_steps(node: Node) -> int:
    """The same where nodes are numbered within their tree and leaves are nodes of a mode of their own."""
    keys = list(zip(_list(node, "nodes_treeids"), _list(node, "nodes_nodeids"), strict=True))
    index = {key: position for position, key in enumerate(keys)}
    modes = node.attributes["nodes_modes"]
    ends = list(zip(_list(node, "nodes_truenodeids"), _list(node, "nodes_falsenodeids"), strict=True))
    branches = [
        [] if mode == b"LEAF" else [index[tree, end] for end in pair]
        for (tree, _), mode, pair in zip(keys, modes, ends, strict=True)
    ]
    below = {end for found in branches for end in found}
    return sum(_longest(branches, root) for root in range(len(branches)) if root not in below)


def _longest(branches: Sequence[Sequence[int]], root: int) -> int:
    """Nodes on the longest path from ``root``."""
    level, depth = [root], 0
    while level:
        level = [end for place in level for end in branches[place]]
        depth += 1
        if depth > len(branches):
            raise ValueError("a tree contains itself")
    return depth


def _list(node: Node, name: str) -> list[int]:
    return [int(each) for each in node.attributes[name]]


@RULES.of("SVMClassifier", "SVMRegressor", domain=ML)
def vectors(node: Node) -> Vector:
    """SVMs: a kernel for each support vector, a multiply-accumulate for each of its coefficients, and one for each vote."""
    rows = node.shape(0)[0]
    weights = len(node.attributes.get("support_vectors", ())) + len(node.attributes.get("coefficients", ()))
    made = len(node.outputs)
    return Vector("elementwise", rows * max(1, weights), ((along((0,)),),) * made, columnwise=False)


RULES.of("ArrayFeatureExtractor", domain=ML)(array_feature_extractor)
RULES.of("Binarizer", "Imputer", "Scaler", domain=ML)(elementwise)
RULES.of("LabelEncoder", "CategoryMapper", domain=ML)(host_elementwise)
RULES.of("CastMap", "DictVectorizer", "ZipMap", domain=ML)(
    refusal("maps have no shape", "export the model with tensors instead of maps (`zipmap=False`)")
)
