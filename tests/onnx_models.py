"""Small ONNX models with known weights, made on the spot."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

N = None
FLOAT, DOUBLE, INT64, STRING = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.STRING
WEIGHTS = np.array([[0.5], [-0.25]], dtype=np.float32)
BIAS = np.array([0.1], dtype=np.float32)


def logistic(x: np.ndarray) -> np.ndarray:
    """What `fraud` answers, computed without ONNX."""
    score = 1 / (1 + np.exp(-(x.astype(np.float32) @ WEIGHTS + BIAS)))
    return np.hstack([score, 1 - score])


def fraud(path: Path, *, rows: int | None = N, scale: float = 1.0) -> None:
    """x [N, 2] -> scores [N, 2]: the logistic of a weighted sum, and what is left of 1."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Sigmoid", ["sum"], ["score"]),
        helper.make_node("Sub", ["one", "score"], ["rest"]),
        helper.make_node("Concat", ["score", "rest"], ["scores"], axis=1),
    ]
    constants = {"w": WEIGHTS * np.float32(scale), "b": BIAS, "one": np.array([1.0], dtype=np.float32)}
    _save(path, nodes, {"x": (FLOAT, [rows, 2])}, {"scores": (FLOAT, [rows, 2])}, constants)


def two_outputs(path: Path) -> None:
    """x [N, 2] -> confidence [N, 1], fraud_score [N, 1]: the sum of each row, and its negative."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["confidence"], keepdims=1),
        helper.make_node("Neg", ["confidence"], ["fraud_score"]),
    ]
    outputs = {"confidence": (FLOAT, [N, 1]), "fraud_score": (FLOAT, [N, 1])}
    _save(path, nodes, {"x": (FLOAT, [N, 2])}, outputs, {"axes": np.array([1], dtype=np.int64)})


def by_text(path: Path) -> None:
    """merchant [N, 1] of text, amount [N] of double, count [N, 1] of int64 -> label of text, risk [N] of double.

    The merchant's risk, "a": 1.5, "b": 2.5, others 0.5, is multiplied by the amount and the count.
    """
    nodes = [
        helper.make_node(
            "LabelEncoder", ["merchant"], ["factor"], domain="ai.onnx.ml",
            keys_strings=["a", "b"], values_floats=[1.5, 2.5], default_float=0.5,
        ),
        helper.make_node("Cast", ["factor"], ["factors"], to=DOUBLE),
        helper.make_node("Squeeze", ["factors", "last"], ["flat"]),
        helper.make_node("Cast", ["count"], ["counts"], to=DOUBLE),
        helper.make_node("Squeeze", ["counts", "last"], ["times"]),
        helper.make_node("Mul", ["flat", "amount"], ["product"]),
        helper.make_node("Mul", ["product", "times"], ["risk"]),
        helper.make_node("Squeeze", ["merchant", "last"], ["label"]),
    ]  # fmt: skip
    inputs = {"merchant": (STRING, [N, 1]), "amount": (DOUBLE, [N]), "count": (INT64, [N, 1])}
    outputs = {"label": (STRING, [N]), "risk": (DOUBLE, [N])}
    _save(path, nodes, inputs, outputs, {"last": np.array([1], dtype=np.int64)})


def classifier(path: Path, *, zipmap: bool = False) -> None:
    """x [N, 2] -> label [N] of int64, probabilities [N, 2]; the larger of two columns is the label."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["probabilities" if not zipmap else "plain"], axis=1),
        helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0),
    ]
    outputs: dict[str, object] = {"label": (INT64, [N]), "probabilities": (FLOAT, [N, 2])}
    if zipmap:
        nodes.append(
            helper.make_node("ZipMap", ["plain"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])
        )
        mapped = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
        outputs["probabilities"] = helper.make_sequence_type_proto(mapped)
    _save(path, nodes, {"x": (FLOAT, [N, 2])}, outputs, {})


def _save(path: Path, nodes: list[object], inputs: dict, outputs: dict, constants: dict[str, np.ndarray]) -> None:
    def value(name: str, said: object) -> object:
        if isinstance(said, tuple):
            return helper.make_tensor_value_info(name, said[0], said[1])
        return helper.make_value_info(name, said)

    graph = helper.make_graph(
        nodes,
        "small",
        [value(*item) for item in inputs.items()],
        [value(*item) for item in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.checker.check_model(model)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
