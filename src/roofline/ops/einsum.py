"""Einsum: a sum over products of tensors as the operations that compute it.

>>> x, w = Tensor("x", (64, 512), "bf16"), Tensor("w", (512, 2048), "bf16")
>>> y = Tensor("y", (64, 2048), "bf16")
>>> [(op.name, op.dims) for op in einsum_operations("einsum", "ij,jk", (x, w), (y,))]
[('einsum', {'m': 64, 'n': 2048, 'k': 512, 'batch': 1})]

Operands are contracted two at a time, from the left. A letter that only one of the two has and that nothing later needs
is summed first. A letter that stands twice in one operand takes its diagonal, which is a view.

>>> written, open_ = (einsum_operations("einsum", text, (x, w), (y,))[0].work for text in ("ij,jk->ik", "...j,jk"))
>>> written == open_
True
>>> [op.kind for op in einsum_operations("einsum", "ij->j", (x,), (Tensor("y", (512,), "bf16"),))]
['reduction']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from roofline.ops import pricing
from roofline.sizes import Size, product
from roofline.work import Op, Tensor


class Term(NamedTuple):
    """An operand and its letters."""

    tensor: Tensor
    letters: tuple[str, ...]


def operand_letters(equation: str, ranks: Sequence[int]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The letters of each operand and of the result; an ellipsis stands for numbered ones, counted from the last.

    >>> operand_letters("...ij,jk", (3, 2))
    ([('0', 'i', 'j'), ('j', 'k')], ('0', 'i', 'k'))
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    words = given.split(",")
    missing = [rank - len(word.replace("...", "")) for word, rank in zip(words, ranks, strict=True)]
    most = max((many for word, many in zip(words, missing, strict=True) if "..." in word), default=0)

    def spread(word: str, many: int) -> tuple[str, ...]:
        before, dots, after = word.partition("...")
        return (*before, *(str(place) for place in range(many - 1, -1, -1) if dots), *after)

    terms = [spread(word, many) for word, many in zip(words, missing, strict=True)]
    if arrow:
        return terms, spread(result, most)
    every = [letter for term in terms for letter in term]
    once = sorted(letter for letter in set(every) if every.count(letter) == 1 and not letter.isdigit())
    return terms, (*(str(place) for place in range(most - 1, -1, -1)), *once)


def einsum_operations(name: str, equation: str, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> list[Op]:
    """The operations of an einsum, the last of which writes its result."""
    words, result = operand_letters(equation, [len(tensor.dims) for tensor in reads])
    size: dict[str, Size] = {}
    for word, tensor in zip(words, reads, strict=True):
        for letter, n in zip(word, tensor.dims, strict=True):
            size[letter] = n if size.get(letter, 1) == 1 else size[letter]
    terms = [Term(tensor, tuple(dict.fromkeys(word))) for tensor, word in zip(reads, words, strict=True)]
    ops: list[Op] = []
    while terms:
        first, *rest = terms
        later = {letter for term in rest[1:] for letter in term.letters} | set(result)
        if not rest:
            ops += _summed(name, first, later, size, writes[0]) or [pricing.move(name, (first.tensor,), writes)]
            break
        sides = []
        for term, other in ((first, rest[0]), (rest[0], first)):
            found = _summed(name, term, later | set(other.letters), size, None)
            kept = tuple(letter for letter in term.letters if letter in later | set(other.letters))
            sides.append(Term(found[-1].writes[0] if found else term.tensor, kept))
            ops += found
        last = len(rest) == 1
        joined = tuple(dict.fromkeys(letter for side in sides for letter in side.letters if letter in later))
        out = writes[0] if last else _made(writes[0], len(ops), joined, size)
        ops.append(_pair(name, sides, later, size, out))
        if last:
            break
        terms = [Term(out, joined), *rest[1:]]
    return ops


def _pair(name: str, sides: Sequence[Term], later: set[str], size: Mapping[str, Size], out: Tensor) -> Op:
    """Contract two operands, or multiply them where nothing is summed."""
    left, right = (set(side.letters) for side in sides)
    reads, shared = [side.tensor for side in sides], left & right
    if not shared - later:
        return pricing.elementwise("multiply", reads, (out,), name=name)

    def times(chosen: set[str]) -> Size:
        return product(size[letter] for letter in sorted(chosen))

    sizes = {"m": left - shared, "n": right - shared, "k": shared - later, "batch": shared & later}
    return pricing.contraction(name, reads, (out,), **{key: times(chosen) for key, chosen in sizes.items()})


def _summed(name: str, term: Term, later: set[str], size: Mapping[str, Size], out: Tensor | None) -> list[Op]:
    """Sum an operand over the letters that nothing else has; none where it keeps them all."""
    kept = tuple(letter for letter in term.letters if letter in later)
    elements, results = (product(size[letter] for letter in chosen) for chosen in (term.letters, kept))
    if len(kept) == len(term.letters):
        return []
    made = out or _made(term.tensor, 0, kept, size)
    return [pricing.reduction("sum", (term.tensor,), (made,), elements=elements, results=results, name=name)]


def _made(near: Tensor, number: int, kept: Sequence[str], size: Mapping[str, Size]) -> Tensor:
    """A tensor between two steps."""
    made = Tensor(f"{near.ident}.{number}.{''.join(kept)}", tuple(size[letter] for letter in kept), near.dtype)
    return replace(made, role="activation")
