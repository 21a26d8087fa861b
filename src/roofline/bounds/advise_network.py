"""What would move an answer that waits for the network: each idea is the question with one thing changed.

>>> from roofline import bound
>>> answer = bound("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", on="v5e:4", B=64, D=2048, F=8192)
>>> for idea in layouts(answer.question, answer):
...     print(idea.change)
B over X
F over X
>>> [idea.change for idea in faster_links(answer.question, answer)]
['ici at twice the bandwidth']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from roofline import dtypes
from roofline.bounds.advice_engine import Proposal, reshard, retype_result
from roofline.bounds.bound import Bound, Use
from roofline.bounds.question import Question
from roofline.errors import InputError
from roofline.hardware import override
from roofline.hardware.axes import Mesh
from roofline.hardware.rate import find_link
from roofline.notation import program
from roofline.notation.scope import is_unnamed

# Narrower formats of what is sent, by its width in bits.
_NARROWER = {64: ("fp32", "bf16"), 32: ("bf16", "fp8"), 16: ("fp8",)}

# Limiting forms: what no collective reaches is no advice.
_LIMITS = ("book", "book-levels")


def layouts(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Shard another dimension over the axes that something is sent over."""
    for axis in _sent_over(answer):
        parsed = program(asked.text, asked.conventions.compute)
        shapes = [shape for step in parsed.steps for shape in (*step.inputs, step.output)]
        now = {one.label for shape in shapes for one in shape.axes if axis in one.shard}
        for label in dict.fromkeys(label for shape in shapes for label in shape.labels):
            if label not in now and not is_unnamed(label):
                made = partial(reshard, asked, axis, label)
                yield from _attempt(f"{label} over {axis}", "another dimension is sharded", made)


def other_plan(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Take the best plan where another one was asked for."""
    if asked.conventions.plan is not None:
        yield Proposal("the best plan", "other collectives", asked.vary(plan=None))


def other_algorithms(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Send by another algorithm that the links can do."""
    from roofline.ops.collectives.cost import algorithms

    mesh = asked.on_mesh().mesh
    if mesh is None:
        return
    taken = {part.op.options["algorithm"] for part in answer.ops if part.op.kind == "collective"}
    names: dict[str, None] = {}
    for op in (part.op for part in answer.ops if part.op.kind == "collective"):
        axes = mesh.select(op.options["axes"])
        closed = all(level.shape != "line" for axis in axes for level in axis.segments)
        found = algorithms(op.options["collective"], axes, op.writes[0].dtype if op.writes else "")
        names.update(dict.fromkeys(n for n in found if n not in _LIMITS and (closed or n != "two-way ring")))
    for name in names:
        if {name} != taken:
            yield Proposal(f"algorithm {name}", "collectives go another way", asked.vary(algorithm=name))


def narrower_result(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Send the result in fewer bits."""
    last = program(asked.text, asked.conventions.compute).steps[-1].output if asked.text else None
    sent = {t.ident for part in answer.ops if part.op.kind == "collective" for t in part.op.writes}
    if last is None or last.ident not in sent or dtypes.get(last.dtype).family != "float":
        return
    for name in _NARROWER.get(dtypes.get(last.dtype).bits, ()):
        yield from _attempt(f"{name} result", "fewer bytes on the links", partial(retype_result, asked, name))


def other_sizes(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Half or twice the chips along the axes that something is sent over."""
    mesh = asked.on_mesh().mesh
    if mesh is None:
        return
    for axis in _sent_over(answer):
        size = mesh[axis].size
        for n in (size // 2, size * 2) if isinstance(size, int) and size % 2 == 0 else ():
            word = "fewer" if n < size else "more"
            yield from _attempt(f"{axis} = {n}", f"{word} chips", partial(_resized, asked, mesh, axis, n))


def faster_links(asked: Question, answer: Bound) -> Iterator[Proposal[Bound]]:
    """Links of twice the bandwidth, or half the latency where that is what takes the time."""
    use = max((u for u in answer.uses if u.resource == answer.bound_by), key=lambda u: u.time)
    link = _link_of(asked, use)
    if link is None:
        return
    found = find_link(asked.machine, link)
    if use.quantity == "wire" and found is not None and found.bandwidth is not None:
        machine = override(asked.machine, {link: found.bandwidth.value * 2})
        yield Proposal(f"{link} at twice the bandwidth", "faster links", asked.vary(machine=machine))
    if use.quantity == "hops" and found is not None and found.latency is not None:
        machine = override(asked.machine, {f"{link}.latency": found.latency.value / 2})
        yield Proposal(f"{link} at half the latency", "shorter hops", asked.vary(machine=machine))


#: What to try, in this order; what helps is sorted by gain.
ON_THE_NETWORK: tuple[Callable[[Question, Bound], Iterator[Proposal[Bound]]], ...] = (
    layouts,
    other_plan,
    other_algorithms,
    narrower_result,
    other_sizes,
    faster_links,
)


def _attempt(change: str, reason: str, make: Callable[[], Question]) -> Iterator[Proposal[Bound]]:
    """A change that the notation or the network refuses is no idea."""
    try:
        yield Proposal(change, reason, make())
    except InputError:
        return


def _sent_over(answer: Bound) -> list[str]:
    """Mesh axes that the plan's collectives go over."""
    axes = (axis for part in answer.ops if part.op.kind == "collective" for axis in part.op.options["axes"])
    return list(dict.fromkeys(axes))


def _link_of(asked: Question, use: Use) -> str | None:
    mesh = asked.on_mesh().mesh
    level = None if mesh is None else mesh.segment(use.place)
    return None if level is None else level.link


def _resized(asked: Question, mesh: Mesh, axis: str, size: int) -> Question:
    """The question with another number of chips along one axis, on a target of that shape."""
    sizes: dict[str, Any] = {one.name: one.size for one in mesh} | {axis: size}
    if not asked.conventions.mesh and len(sizes) == len(asked.machine.shape) and asked.machine.slices == 1:
        machine = replace(asked.machine, shape=tuple(sizes.values()), mesh=None)
        from roofline.hardware.mesh import with_mesh

        return asked.vary(machine=with_mesh(machine))
    if asked.machine.shape:
        raise InputError(f"{asked.machine.target} has one shape", hint="name a larger target")
    return asked.vary(mesh={**asked.conventions.mesh, axis: size})
