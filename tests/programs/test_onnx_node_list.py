"""Every node that ONNX tests its operators with has a price or is a listed gap: no zero in silence.

Some families run here; with ROOFLINE_LONG=1 all nodes do.
"""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from roofline.errors import InputError
from roofline.programs import trace
from tests.strategies import for_each

LONG = bool(os.environ.get("ROOFLINE_LONG"))

#: Files of test nodes that run here: operators whose results are easily forgotten, and one of each kind.
FAMILIES = ("adagrad", "adam", "momentum", "dropout", "flexattention", "sequenceinsert", "optionalgetelement",
            "identity", "transpose", "expand", "constantofshape", "reducesum", "reducemax", "splittosequence",
            "conv", "topk", "loop", "sequence_map", "shape", "quantizelinear", "rmsnormalization")  # fmt: skip

#: What a gap may say: its shapes follow from data, it works on text, or how much it does depends on values.
REASONS = ("is not known", "depends on the scores", "sorts or hashes", "no rule")

#: Operators of other subjects than arithmetic on tensors.
WITHOUT_A_RULE = {"TreeEnsemble", "ImageDecoder", "TfIdfVectorizer"}


def cases() -> list[Any]:
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if LONG:
            found = list(node.collect_testcases(None))
        else:
            before = len(node._NodeTestCases)
            for name in FAMILIES:
                import_module(f"onnx.backend.test.case.node.{name}")
            found = node._NodeTestCases[before:]
    return found


def elements(case: Any) -> int:
    """Numbers that come out; text is none, and neither are lists."""
    values = case.data_sets[0][1]
    return sum(v.size for v in values if isinstance(v, np.ndarray) and v.dtype != object)


@for_each("case", cases(), ids=lambda case: case.name)
def test_a_node_has_a_price_or_is_a_listed_gap(case):
    try:
        found = trace(case.model)
    except InputError:
        with pytest.raises(InputError, match=r"is not in the file; say trips="):
            trace(case.model)
        return
    flops = found.flops("all")
    assert not isinstance(flops, int) or flops >= 0
    for gap in found.listed_gaps():
        assert any(reason in gap.reason for reason in REASONS)
        assert gap.reason != "no rule" or gap.name in WITHOUT_A_RULE
    is_forwarded = all(node.op_type in ("Identity", "If", "SequenceAt") for node in case.model.graph.node)
    given = {item.name for item in case.model.graph.input}
    left = any(word in given for item in case.model.graph.output for word in [item.name])
    if elements(case) and found.complete and not is_forwarded and not left and not _holds_tensors(case):
        assert found.bytes() != 0


def _holds_tensors(case: Any) -> bool:
    """Sequences and optionals give back what they hold."""
    kinds = {node.op_type for node in case.model.graph.node}
    return any("Sequence" in kind or "Optional" in kind for kind in kinds)
