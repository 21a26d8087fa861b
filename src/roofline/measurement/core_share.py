"""Whether a core is its own: others on the same core are not in any account of this system.

Two threads of one core take turns at fetching instructions. A run of instructions that do nothing goes as fast as they
are fetched; a chain of additions, each waiting for the one before, goes at the clock's own pace whoever else is
there. The ratio of their times is a constant of the core while it is alone and nearly twice that while another thread
is busy on it, be it another program or, on a rented machine, another customer. A look takes a few microseconds.

>>> alone, shared = 1000 << HALF, 2000 << HALF
>>> core = CoreShare()
>>> core.learn(lambda: alone)
>>> core.of(alone), core.of(alone, shared), core.of(0)
(1.0, 0.5, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable

#: Instructions of a turn of the run that does nothing, additions of a turn of the chain, and turns of each: about
#: two microseconds on a core of today.
IDLE_STEPS, IDLE_TURNS, CHAIN_STEPS, CHAIN_TURNS = 240, 120, 64, 84

#: Looks that are judged together, and the share of them that may be faster than a core can be: a clock that changed.
BATCH, ODD = 2000, 0.003

#: Where the upper half of a look begins, and its lower half.
HALF = 32
LOWER = 2**HALF - 1

#: The least share of its fetching that a core has to itself while a window counts.
OWN = 0.9

_CHAIN = "\n".join(f"  %x{n + 1} = {('add', 'xor')[n % 2]} i64 %x{n}, %first" for n in range(CHAIN_STEPS))
_IDLE = "\\0A".join(["nop"] * IDLE_STEPS)

#: Machine code that looks once: the time of the run as millionths of the chain's in the upper 32 bits, the chain's in
#: nanoseconds in the lower ones. The chain is taken before and after the run. Where these two differ by more than one
#: in so many, since the clock changed, an interrupt came or the code was in no cache, it looks once more, then tells
#: 0. Needs ``@now``. There is one copy of it: where code lies changes how fast it is fetched.
APART = 32
FRONT_END = f"""
@odd = internal global i64 3

define internal i64 @chain() noinline {{{{
entry:
  %first = load volatile i64, i64* @odd
  %before = call i64 @now(i32 {{wall}})
  %begin = call i64 @now(i32 {{wall}})
  br label %turn
turn:
  %x0 = phi i64 [ %first, %entry ], [ %x{CHAIN_STEPS}, %turn ]
  %n = phi i64 [ 0, %entry ], [ %next, %turn ]
{_CHAIN}
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {CHAIN_TURNS}
  br i1 %more, label %turn, label %end
end:
  store volatile i64 %x{CHAIN_STEPS}, i64* @odd
  %over = call i64 @now(i32 {{wall}})
  %whole = sub i64 %over, %begin
  %reading = sub i64 %begin, %before
  %took = sub i64 %whole, %reading
  ret i64 %took
}}}}

define i64 @front_end() noinline {{{{
entry:
  br label %look
look:
  %tried = phi i64 [ 0, %entry ], [ 1, %unknown ]
  %one = call i64 @chain()
  %begin = call i64 @now(i32 {{wall}})
  br label %turn
turn:
  %n = phi i64 [ 0, %look ], [ %next, %turn ]
  call void asm sideeffect "{_IDLE}", ""()
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {IDLE_TURNS}
  br i1 %more, label %turn, label %end
end:
  %over = call i64 @now(i32 {{wall}})
  %two = call i64 @chain()
  %took = sub i64 %over, %begin
  %less = icmp ult i64 %one, %two
  %least = select i1 %less, i64 %one, i64 %two
  %most = select i1 %less, i64 %two, i64 %one
  %apart = sub i64 %most, %least
  %part = mul i64 %apart, {APART}
  %steady = icmp ult i64 %part, %least
  br i1 %steady, label %known, label %unknown
known:
  %scaled = mul i64 %took, 1000000
  %ratio = udiv i64 %scaled, %least
  %high = shl i64 %ratio, 32
  %packed = or i64 %high, %least
  %fits = icmp ult i64 %ratio, {2 ** (HALF - 1)}
  %told = select i1 %fits, i64 %packed, i64 0
  ret i64 %told
unknown:
  %first = icmp eq i64 %tried, 0
  br i1 %first, label %look, label %silent
silent:
  ret i64 0
}}}}
"""


def clock(*looks: int) -> float | None:
    """Tell the clock in Hz at some looks, None where none could tell.

    >>> clock(1 << 32 | 2000, 0)
    2688000000.0
    """
    found = [look & LOWER for look in looks if look]
    return CHAIN_STEPS * CHAIN_TURNS * 1e9 * len(found) / sum(found) if found else None


class CoreShare:
    """Turns what looks at a core found into shares: the fastest of many looks is a core that is its own."""

    def __init__(self) -> None:
        self._looks: list[int] = []
        self._fastest = 0
        self._told, self._silent = 0, 0

    def of(self, *looks: int) -> float:
        """The least share that some looks tell of; none where one could not tell, all before there were enough.

        Where a machine's clock is so coarse that most looks tell nothing, those that do not are no sign.
        """
        ratios = [look >> HALF for look in looks]
        silent = ratios.count(0)
        self._silent += silent
        self._told += len(ratios) - silent
        self._looks += [ratio for ratio in ratios if ratio]
        if len(self._looks) >= BATCH:
            fast = sorted(self._looks)[int(ODD * len(self._looks))]
            self._fastest = min(self._fastest or fast, fast)
            self._looks.clear()
        if not self._fastest:
            return 1.0
        if silent and self._silent < self._told:
            return 0.0
        return min(1.0, self._fastest / max(ratios)) if any(ratios) else 1.0

    def learn(self, look: Callable[[], int]) -> None:
        """Look as often as it takes to know what the core does alone."""
        for _ in range(BATCH):
            self.of(look())
