"""What is no text, no mapping or no number where one belongs is told, without a traceback from inside."""

from __future__ import annotations

import pytest

import roofline
from roofline.errors import DTypeError, InputError

LINE, SIZES = "bf16[B, D_X] * bf16[D_X, F]", {"B": 8, "D": 8, "F": 8}


@pytest.mark.parametrize("mesh", ["X=8", 8, [2, 4]])
def test_a_mesh_is_given_by_name(mesh: object) -> None:
    for ask in (
        lambda: roofline.bound(LINE, on="h100", mesh=mesh, **SIZES),
        lambda: roofline.shard(LINE, on="h100", mesh=mesh, **SIZES),
        lambda: roofline.comm("AllReduce_X(bf16[8])", on="h100", mesh=mesh),
        lambda: roofline.layout("bf16[B_X, D]", mesh=mesh),
        lambda: roofline.scaling("fsdp", on="v5p", mesh=mesh),
    ):
        with pytest.raises(InputError, match=r"mesh is .*; give axes by name, as in mesh=\{'X': 4, 'Y': 8\}"):
            ask()


def test_sizes_are_given_by_name() -> None:
    with pytest.raises(InputError, match="sizes is 'B=8'; give sizes by name"):
        roofline.bound("bf16[B] + bf16[B]", on="h100", sizes="B=8")


def test_a_dtype_and_a_condition_are_text() -> None:
    with pytest.raises(DTypeError, match="a dtype is text, not 16; as in 'bf16', 'fp8' or 'int8'"):
        roofline.dtypes.get(16)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="dtype is 16, and takes text"):
        roofline.bound(flops=1e12, bytes=1e9, dtype=16, on="h100")
    with pytest.raises(InputError, match=r"a condition is text, not .*; one at a time, such as 'fsdp'"):
        roofline.scaling(["fsdp", "tp"], on="v5p")
