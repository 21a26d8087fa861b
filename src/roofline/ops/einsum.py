"""Einsum: a sum over products of tensors as the operations that compute it.

>>> x, w = Tensor("x", (64, 512), "bf16"), Tensor("w", (512, 2048), "bf16")
>>> y = Tensor("y", (64, 2048), "bf16")
>>> [(op.name, op.dims) for op in einsum_operations("einsum", "ij,jk", (x, w), (y,))]
[('einsum', {'m': 64, 'n': 2048, 'k': 512, 'batch': 1})]

Operands are contracted two at a time, from the left, or of up to ten in the order of the fewest FLOPs (``any_order``).
A letter that only one of the two has and that nothing later needs is summed first. A letter that stands twice in one
operand takes its diagonal, which is a view.

>>> written, open_ = (einsum_operations("einsum", text, (x, w), (y,))[0].work for text in ("ij,jk->ik", "...j,jk"))
>>> written == open_
True
>>> [op.kind for op in einsum_operations("einsum", "ij->j", (x,), (Tensor("y", (512,), "bf16"),))]
['reduction']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import le

from roofline.frozen import NamedTuple, replace
from roofline.ops import pricing
from roofline.sizes import Size, at_typical_size, is_array, is_surely, product
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


#: Which two of the operands that are left are contracted, one pair after the other.
Order = tuple[tuple[int, int], ...]

#: Operands up to which all orders are tried, 180 of five, and up to which the best ones of parts are joined.
_MOST_TRIED, MOST_ORDERED = 5, 10


def einsum_operations(
    name: str, equation: str, reads: Sequence[Tensor], writes: Sequence[Tensor], *, any_order: bool = False
) -> list[Op]:
    """The operations of an einsum, the last of which writes its result.

    >>> chain = [Tensor(name, dims, "bf16") for name, dims in (("a", (64, 8)), ("b", (8, 64)), ("c", (64, 2)))]
    >>> out = (Tensor("y", (64, 2), "bf16"),)
    >>> for freely in (False, True):
    ...     found = einsum_operations("einsum", "ij,jk,kl->il", chain, out, any_order=freely)
    ...     sum(op.work.total("flops") for op in found)
    81920
    4096

    Orders of open sizes are compared at typical ones, which the last operation says where another may be cheaper.
    """
    words, result = operand_letters(equation, [len(tensor.dims) for tensor in reads])
    size: dict[str, Size] = {}
    for word, tensor in zip(words, reads, strict=True):
        for letter, n in zip(word, tensor.dims, strict=True):
            size[letter] = n if size.get(letter, 1) == 1 else size[letter]
    seen = zip(reads, words, strict=True)
    terms = [Term(_diagonal(tensor, word, size), tuple(dict.fromkeys(word))) for tensor, word in seen]
    usual: Order = ((0, 1),) * (len(terms) - 1)
    if not any_order or any(map(is_array, size.values())) or not 2 < len(terms) <= MOST_ORDERED:
        return _in_order(name, terms, usual, set(result), size, writes[0])
    tried = _orders(len(terms)) if len(terms) <= _MOST_TRIED else [_of_best_parts(terms, set(result), size)]
    found = [_in_order(name, terms, order, set(result), size, writes[0]) for order in (usual, *tried)]
    costs: list[Size] = [sum(op.work.total("flops") * op.repeat for op in ops) for ops in found]
    least, cost = min(enumerate(costs), key=lambda each: at_typical_size(each[1]))
    ops = found[least]
    if not all(is_surely(le, cost, other) for other in costs):
        ops[-1] = replace(ops[-1], note=f"{name}: products go in the order that is the cheapest at open sizes of 1,024")
    return ops


def _diagonal(tensor: Tensor, word: Sequence[str], size: Mapping[str, Size]) -> Tensor:
    """The tensor, of which the diagonal alone is read where a letter stands twice.

    >>> _diagonal(Tensor("x", (4, 4), "bf16"), "ii", {"i": 4}).touched
    4
    """
    letters = dict.fromkeys(word)
    if len(letters) == len(word):
        return tensor
    return replace(tensor, touched=product(size[letter] for letter in letters))


def _orders(count: int) -> Iterator[Order]:
    """Every order of pairs; the result of a pair comes first of those that are left."""
    if count == 1:
        yield ()
        return
    for pair in combinations(range(count), 2):
        yield from ((pair, *rest) for rest in _orders(count - 1))


def _of_best_parts(terms: Sequence[Term], result: set[str], size: Mapping[str, Size]) -> Order:
    """The order of the fewest products at typical sizes: of every set of operands the two parts that take the fewest.

    Source: Pfeifer, Haegeman and Verstraete 2014, "Faster identification of optimal contraction sequences".
    """
    every = (1 << len(terms)) - 1
    typical = {letter: at_typical_size(n) for letter, n in size.items()}

    def kept(part: int) -> set[str]:
        own, others = (
            {letter for at, term in enumerate(terms) if part >> at & 1 == inside for letter in term.letters}
            for inside in (1, 0)
        )
        return own & (others | result)

    left = [kept(part) for part in range(every + 1)]
    least: dict[int, tuple[float, tuple[int, ...]]] = {1 << at: (0.0, ()) for at in range(len(terms))}
    for part in range(1, every + 1):
        halves, half = list[int](), part & (part - 1)
        while half:
            halves, half = [*halves, half], (half - 1) & part
        ways = [
            (least[a][0] + least[part - a][0] + product(typical[n] for n in left[a] | left[part - a]), (a, part - a))
            for a in halves
            if a > part - a
        ]
        if ways:
            least[part] = min(ways)
    order, wanted, held = list[tuple[int, int]](), [every], [1 << at for at in range(len(terms))]
    splits = list[tuple[int, ...]]()
    while wanted:
        halves_of = least[wanted.pop()][1]
        splits, wanted = ([halves_of, *splits], [*wanted, *halves_of]) if halves_of else (splits, wanted)
    for a, b in splits:
        one, two = sorted((held.index(a), held.index(b)))
        order.append((one, two))
        held = [a + b, *(part for part in held if part not in (a, b))]
    return tuple(order)


def _in_order(
    name: str, terms: list[Term], order: Order, result: set[str], size: Mapping[str, Size], written: Tensor
) -> list[Op]:
    ops: list[Op] = []
    pairs = iter(order)
    while terms:
        one, two = next(pairs, (0, 1))
        others = [term for at, term in enumerate(terms) if at not in (one, two)]
        first, rest = terms[one], [*terms[two : two + 1], *others]
        later = {letter for term in rest[1:] for letter in term.letters} | result
        if not rest:
            ops += _summed(name, first, later, size, written) or [pricing.move(name, (first.tensor,), (written,))]
            break
        sides = []
        for term, other in ((first, rest[0]), (rest[0], first)):
            found = _summed(name, term, later | set(other.letters), size, None)
            kept = tuple(letter for letter in term.letters if letter in later | set(other.letters))
            sides.append(Term(found[-1].writes[0] if found else term.tensor, kept))
            ops += found
        last = len(rest) == 1
        joined = tuple(dict.fromkeys(letter for side in sides for letter in side.letters if letter in later))
        out = written if last else _made(written, len(ops), joined, size)
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
    return Tensor(f"{near.ident}.{number}.{''.join(kept)}", tuple(size[letter] for letter in kept), near.dtype)
