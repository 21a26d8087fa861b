"""How chips with whole experts get the tokens of others, and give the results back."""

from __future__ import annotations

from dataclasses import dataclass

from roofline import dtypes
from roofline.hardware.machine import MeshAxis
from roofline.models.blocks.exchange import Algorithm, exchanged
from roofline.models.step import Step, divided
from roofline.models.trace import Trace
from roofline.ops.collective_choice import AUTO, Chooser
from roofline.ops.collective_groups import groups
from roofline.ops.collective_picks import Density
from roofline.sizes import Size, product
from roofline.work import Tensor


@dataclass(frozen=True, slots=True)
class Spread:
    """How chips with whole experts send them their tokens: an AllToAll over ``axes``, another one back.

    ::

        dispatch    own·c rows from each chip, less those for chips that have the token: c are the chips that a token's
                    k experts lie on, and what leaves a node goes once to each other node that has some of them
        combine     as many rows back: each chip weighs and adds up what its experts made of a token, each node what
                    its chips made, and the token's own chip the rest
        not once    own·k rows each way, one for each expert, weighted and added up where the token came from

    Rows are sent in the formats ``dispatch`` and ``combine``. Chips of the ``tensor`` axes, and in decode of the
    ``context`` axes, hold the same tokens: each sends its part and an AllGather gives all the results, unless tokens
    are ``scattered`` between blocks. ``group`` says that copies of the model share experts. Shared experts stand whole
    on every chip, or are ``split`` over the ``tensor`` axes. Empty formats are that of the activations.

    Sources: Lepikhin et al., arXiv:2006.16668; DeepSeek-V3, arXiv:2412.19437, section 3.2.2 (once to a node); DeepEP's
    kernels for throughput (once to a chip) and for low latency (once for each expert).
    """

    axes: tuple[MeshAxis, ...]
    tensor: tuple[MeshAxis, ...] = ()
    context: tuple[MeshAxis, ...] = ()
    group: bool = False
    scattered: bool = False
    split: bool = False
    dispatch: str = ""
    combine: str = ""
    algorithm: Algorithm = None
    once: bool = True

    def same(self, step: Step) -> tuple[MeshAxis, ...]:
        """The axes whose chips hold the same tokens."""
        return self.tensor if step.ring else (*self.context, *self.tensor)

    def own(self, step: Step) -> Size:
        """Tokens that one chip sends."""
        return divided(step.tokens, self._sharing(step))

    def every(self, step: Step) -> Size:
        """Tokens of all the chips that share experts."""
        if self.group:
            return (step.batch if step.group is None else step.group) * step.new
        return step.batch * step.new if self.context else step.tokens

    def copies(self, step: Step) -> int:
        """Chips that lie together and have each token before it is sent."""
        ways = self._sharing(step)
        return 1 if self.scattered or not isinstance(ways, int) else ways

    def _sharing(self, step: Step) -> Size:
        return product(axis.size for axis in self.same(step))

    def sent(self, trace: Trace, way: str, x: Tensor, rows: Size, made: Size, density: Density = 1) -> Tensor:
        """Send the rows that are ``made`` of a chip's tokens to the experts or back; return the ``rows`` that arrive.

        The busiest chip's link sets the time: it gets more than it sends, or the other way round.
        """
        width = x.dims[1]
        dtype = (self.dispatch if way == "dispatch" else self.combine) or trace.step.activations
        out = trace.made(f"{way}.all_to_all", rows, width, dtype=dtype)
        nbytes = dtypes.get(dtype).nbytes(made * width) * product(axis.size for axis in self.axes)
        op = exchanged("AllToAll", self.axes, nbytes, x, out, self.algorithm, density)
        trace.add(op, f"{way}.all_to_all")
        return out

    def says(self) -> str:
        """How often a token is sent."""
        if not self.once:
            return "a token is sent once for each of its experts"
        said = "a token is sent once to each chip that has some of its experts"
        tiers = groups(self.axes)
        name = self.algorithm.name("AllToAll") if isinstance(self.algorithm, Chooser) else self.algorithm
        if any(group.topology == "torus" for group in tiers):
            return f"{said}, and once over each link on its way"
        passed_on = len(tiers) > 1 and name in (None, AUTO, "hierarchical")
        return f"{said}, and once to each node" if passed_on else said
