"""Layouts: what each chip holds, the padding of XLA's tiles, axes as LaTeX writes them."""

from __future__ import annotations

from itertools import product as every

import pytest

from roofline import bound, layout, parse
from roofline.bounds.shard import tiled_elements
from roofline.errors import NotationError
from roofline.notation.structure import MemoryLayout


def test_tiles_pad_an_array() -> None:
    """The example of XLA's own page on tiled layouts: 3 x 5 in tiles of 2 x 2 takes 4 x 6."""
    found = layout("f32[3,5]{1,0:T(2,2)}")
    assert (found.elements, found.tiled_elements, found.bytes, found.global_bytes) == (15, 24, 96, 60)
    assert str(found).startswith("f32[3,5]{1,0:T(2,2)}  on one chip\n")


def test_no_padding_where_tiles_divide() -> None:
    found = layout("bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}")
    assert found.bytes == found.global_bytes == 2 * 32 * 32 * 4096
    assert found.assumptions == ("lies in VMEM (S(1)); S(0) or none is HBM",)


def test_a_part_of_a_sharded_array_is_padded() -> None:
    found = layout("bf16[B_X, D]{1,0:T(8,128)}", mesh={"X": 4}, B=20, D=100)
    assert (found.elements, found.tiled_elements, found.total_bytes) == (500, 8 * 128, 4 * 2 * 8 * 128)


@pytest.mark.parametrize(("dims", "order", "tiles"), [
    ((3, 5), (1, 0), ((2, 2),)),
    ((3, 5), (0, 1), ((4, 2),)),
    ((7, 3, 50), (2, 1, 0), ((8, 128),)),
    ((7, 3, 50), (0, 2, 1), ((4, 16), (2, 8))),
    ((100,), (0,), ((8, 128), (2, 1))),
    ((9, 5), (), ((4, 4), (2, 2), (2,))),
])  # fmt: skip
def test_elements_by_placing_every_one(dims: tuple[int, ...], order: tuple[int, ...], tiles: tuple) -> None:
    """Brute force: the number of tiles that hold an element, each of them whole, level by level."""
    places = set(every(*(range(size) for size in dims)))
    shape = [*reversed(order)] if order else [*range(len(dims))]
    places = {tuple(place[i] for i in shape) for place in places}
    for tile in tiles:
        padded = {(0,) * (len(tile) - len(place)) + place for place in places}
        split = {
            (
                *place[: len(place) - len(tile)],
                *(at // t for at, t in zip(place[len(place) - len(tile) :], tile, strict=True)),
            )
            for place in padded
        }
        inside = [*every(*(range(t) for t in tile))]
        places = {(*outer, *inner) for outer in split for inner in inside}
    assert tiled_elements(dims, MemoryLayout(order, tiles)) == len(places)


@pytest.mark.parametrize(("text", "said"), [
    ("f32[3,5]{1,2:T(2,2)}", "a layout of dimensions 1, 2; of 2 dimensions each stands once"),
    ("f32[3,5]{1,0:T(2,)}", "expected a tile of a layout, as in T(8,128)"),
    ("f32[3,5]{1,0:T(8,128)(0,1)}", "expected a tile of a layout, as in T(8,128)"),
    ("f32[3,5]{1,0", "expected '}' at the end of a layout"),
])  # fmt: skip
def test_layouts_that_do_not_read(text: str, said: str) -> None:
    with pytest.raises(NotationError, match="\\".join(said.split("\\")).replace("(", "\\(").replace(")", "\\)")):
        layout(text)


@pytest.mark.parametrize(("latex", "plain"), [
    (r"A[I_{XY}, J]", "A[I_XY, J]"),
    (r"$\textbf{A}[I_X, J_{YZ}]$", "A[I_X, J_YZ]"),
    (r"\textbf{AllGather}_{XY}(A[I_{XY}, J])", "AllGather_{X,Y}(A[I_XY, J])"),
    (r"\textbf{AllReduce}_{XY}(C[I, K] \{ U_{XY} \})", "AllReduce_{X,Y}(C[I, K] {U_XY})"),
    (r"\textbf{ReduceScatter}_{Y, K}\, C[I_X, K] \{U_Y\} \rightarrow C[I_X, K_Y]",
     "ReduceScatter_{Y,K}(C[I_X, K] {U_Y}) -> C[I_X, K_Y]"),
    (r"A[I_X, J] \cdot_J B[J, K_{YZ}] \rightarrow C[I_X, K_{YZ}]", "A[I_X, J] ._J B[J, K_YZ] -> C[I_X, K_YZ]"),
])  # fmt: skip
def test_axes_as_the_book_writes_them(latex: str, plain: str) -> None:
    """In braces, X, Y and Z are axes letter by letter, as in LaTeX; other names are axes of their own."""
    if "->" not in plain and "(" not in plain:
        assert layout(latex, mesh={"X": 2, "Y": 2, "Z": 2}).local == layout(plain, mesh={"X": 2, "Y": 2, "Z": 2}).local
        return
    sizes = {"I": 512, "J": 512, "K": 512}
    answers = [
        bound(text, on="v5p:4x4x4", sizes={k: v for k, v in sizes.items() if k in text}) for text in (latex, plain)
    ]
    assert answers[0].lower == answers[1].lower
    assert answers[0].expression == answers[1].expression


def test_a_longer_name_in_braces_is_one_axis() -> None:
    (statement,) = parse("A[I_{data}, J_{DP}]").statements
    assert [dim.axes for dim in statement.value.dims] == [("data",), ("DP",)]


@pytest.mark.parametrize(("text", "moved"), [
    ("bf16[100,300]{1,0:T(8,128)} * bf16[300,200]", 2 * (104 * 384 + 300 * 200 + 100 * 200)),
    ("f32[3,5]{1,0:T(2,2)} + f32[3,5]", 4 * (24 + 15 + 15)),
    ("f32[3,5]{1,0} + f32[3,5]", 4 * 45),
])  # fmt: skip
def test_a_bound_moves_the_padding_of_tiles(text: str, moved: int) -> None:
    """The example of XLA's own page, and a weight of the book in tiles of 8 x 128."""
    found = bound(text, on="v5e")
    assert found.total_bytes == moved
    assert any("padding of the tiles" in line for line in found.assumptions) == ("T(" in text)


def test_advice_on_a_tiled_tensor_keeps_its_tiles() -> None:
    found = bound("bf16[100,300]{1,0:T(8,128)} * bf16[300,200]", on="v5e")
    (advised,) = [each for each in found.advise() if str(each.change) == "int8 operands"]
    fresh = bound("int8[100,300]{1,0:T(8,128)} * int8[300,200] -> bf16[100,200]", on="v5e")
    assert advised.after.lower == pytest.approx(fresh.lower)
    wide = bound("bf16[B, D]{1,0:T(8,128)} * bf16[D, 200]", on="v5e")
    assert wide.formula(B=100, D=300).values()["lower"] == pytest.approx(found.lower)


def test_a_sharded_tensor_in_tiles_says_what_is_left_out() -> None:
    found = bound("bf16[B_X,300]{1,0:T(8,128)} * bf16[300,200]", on="v5e:4", B=128)
    assert any(line.endswith("is not counted: it is sharded") for line in found.assumptions)
