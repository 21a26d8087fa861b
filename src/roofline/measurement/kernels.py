"""Kernel: a few lines of LLVM IR that do one kind of work and nothing else, and how much one count of it is.

The body of every kernel is ``void body(a, b, c, count)``. IR is text with explicit vectors: what is written is what
runs, since no optimiser passes over it. Pointers are typed, which every LLVM from 14 on reads.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The signature all bodies share.
HEAD = "define internal void @body(i8* %a, i8* %b, i8* %c, i64 %count) noinline {"

#: Cache lines are at most this long; buffers are aligned to it, and to every vector.
LINE = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its ``ir``, what it is in words, and the ``amount`` of ``unit`` that one count does.

    ``arrays`` is how many arrays it walks, ``step`` the bytes (or counts) of one turn of its loop, ``dtype`` what it
    computes in, ``amx`` that it needs the system's leave to use matrix tiles.
    """

    name: str
    ir: str
    what: str
    unit: str
    amount: float
    step: int = 1
    arrays: int = 0
    dtype: str = ""
    amx: bool = False


def loop(
    body: str,
    step: int,
    *,
    before: str = "",
    carried: str = "",
    after: str = "",
    more: str = "",
    until: str = "%count",
) -> str:
    """Wrap lines of IR into a body that runs them for every ``step`` of ``count``; ``%i`` is where it stands.

    ``before`` runs once ahead, ``carried`` holds the phi nodes of what is kept in registers, ``after`` runs once at
    the end, ``more`` is what stands beside the body (declarations, metadata), ``until`` what the loop runs to.
    """
    return f"""{HEAD}
entry:
{before}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{carried}
{body}
  %next = add i64 %i, {step}
  %again = icmp ult i64 %next, {until}
  br i1 %again, label %loop, label %end
end:
{after}
  ret void
}}
{more}"""
