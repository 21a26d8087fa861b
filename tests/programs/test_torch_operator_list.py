"""Every operator that PyTorch tests itself with (OpInfo) has a price or is a listed gap: no zero in silence.

A part of the operators runs here; with ROOFLINE_LONG=1 all of them do, three samples each.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import islice
from typing import Any

import pytest
import torch

from roofline.errors import InputError
from roofline.programs import trace
from roofline.programs.pytorch.tensors import map_tensors, tensors_in
from tests.strategies import LONG

pytestmark = pytest.mark.filterwarnings("ignore")

#: Every so-manieth operator is in the same part; the quick test takes the first part.
PARTS = 24

#: What asks for a value, or gives as much as its values say; a trace knows shapes alone, and says so.
REFUSED = {"item", "equal", "allclose", "unique", "unique_consecutive", "nonzero", "argwhere", "to_sparse"}

#: What is worked out until it converges: listed as a gap.
ITERATED = {"svd", "svd_lowrank", "pca_lowrank", "pinverse", "norm", "matrix_exp", "linalg.cond", "linalg.eig",
            "linalg.eigvals", "linalg.eigh", "linalg.eigvalsh", "linalg.lstsq", "linalg.matrix_rank", "linalg.pinv",
            "linalg.svd", "linalg.svdvals", "linalg.norm", "linalg.matrix_norm", "linalg.tensorsolve"}  # fmt: skip

#: Memory that nothing is written into.
EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}

_DTYPES = (torch.float32, torch.complex64, torch.int64, torch.bool, torch.bfloat16)


@cache
def operators() -> list[Any]:
    """PyTorch's own list, which takes seconds to load."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return [op for op in op_db if set(op.dtypes) & set(_DTYPES) and not op.name.startswith("jiterator")]


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(op: Any, most: int) -> list[Any]:
    dtype = next(dtype for dtype in _DTYPES if dtype in op.dtypes)
    torch.manual_seed(0)
    # not op.sample_inputs, which looks at the whole stack for each sample
    return list(islice(op.sample_inputs_func(op, "cpu", dtype, False), most))


def traced(op: Any, sample: Any) -> Any:
    """Trace one call: its tensors are inputs, the rest is part of the program."""
    given = (sample.input, sample.args, sample.kwargs)
    tensors = tensors_in(given)

    def program(*values: Any) -> Any:
        rest = iter(values)
        x, args, kwargs = map_tensors(given, lambda _: next(rest))
        return op.op(x, *args, **kwargs)

    return trace(program, *tensors, frontend="torch")


def written_anew(op: Any, sample: Any) -> int:
    """Bytes of results that lie in memory of their own, when PyTorch runs the call."""
    held = {t.untyped_storage()._cdata for t in tensors_in((sample.input, sample.args, sample.kwargs)) if is_plain(t)}
    made = tensors_in(op.op(sample.input, *sample.args, **sample.kwargs))
    return sum(t.nbytes for t in made if is_plain(t) and t.untyped_storage()._cdata not in held)


def is_plain(tensor: Any) -> bool:
    return bool(tensor.layout == torch.strided)


@pytest.mark.parametrize("part", range(PARTS if LONG else 1))
def test_an_operator_has_a_price_or_is_a_listed_gap(part):
    chosen = operators()[part::PARTS]
    assert len(chosen) > 20
    for op in chosen:
        for sample in samples(op, 3 if LONG else 1):
            if op.name in REFUSED:
                with pytest.raises(InputError, match=r"asks for the value of a tensor|depends on values"):
                    traced(op, sample)
                continue
            found = traced(op, sample)
            assert found.flops("all") >= 0, name_of(op)
            if not found.complete:
                assert op.name in ITERATED, name_of(op)
            elif op.name not in EMPTY:
                moved = sum(t.traffic_bytes for o in found.ops for t in o.writes)
                assert moved >= written_anew(op, sample), name_of(op)
