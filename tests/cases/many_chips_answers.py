"""Answers to the seeds' and the book's questions about several chips, each through the public API.

:data:`ANSWERS` maps a case's id to a function that returns its answers by name; a closed form is answered by a function
of the sizes (or rates) it is evaluated at. Bandwidths W of the book are both ways over one axis, twice that of a link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline import Bound, bound, layout, shard, solve
from tests.cases.many_chips_scaling import SCALING, V5P

SPLIT = "bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F]"


def first(text: str, mesh: dict[str, int] | None = None, **sizes: int) -> str:
    """What the plan with the least to send sends."""
    return shard(text, on="v5p", mesh=mesh or {"X": 4, "Y": 4}).best.name


# ---- the seeds' and the first chapter's two chips


def split(chips: int = 2, **options: Any) -> Callable[..., Bound]:
    """The matmul split along its inner dimension, with links of 45 GB/s."""
    return lambda **sizes: bound(SPLIT, on=f"v5e:{chips}", link=4.5e10, plan="AllReduce", sizes=sizes, **options)


def two_chips() -> dict[str, Any]:
    D = solve(SPLIT, "D", on="v5e:2", link=4.5e10).value
    return {
        "t_math": lambda B, D, F: split()(B=B, D=D, F=F).math,
        "t_comms": lambda B, F, D=8192: split()(B=B, D=D, F=F).comms,
        "half_D": D / 2,
        "D_crit": D,
        "D": D,
    }


def narrow() -> dict[str, Any]:
    answer = split()(B=4096, D=1024, F=32768)
    return {
        "comms_over_math": answer.comms_over_math,
        "best_utilisation": answer.utilisation * 100,
        "h100_threshold": solve(SPLIT, "D", on="h100:2", set={"bf16": 9.89e14}).value,
        "scales": bool(answer.comms_over_math <= 1),
    }


# ---- chapter 3: layouts and sharded matmuls


def two_strategies() -> dict[str, Any]:
    text = "bf16[B, D] . bf16[D_X, F] -> bf16[B, F]"

    def ask(plan: str, B: int, D: int, F: int, C: float, W: float, X: int = 4) -> Bound:
        options = {"on": "v5p", "mesh": {"X": X}, "set": {"bf16": C}, "link": W / 2, "algorithm": "book"}
        return bound(text, plan=plan, sizes={"B": B, "D": D, "F": F}, **options)

    def longest(answer: Bound) -> float:
        return float(max(answer.math, answer.comms))

    gather, reduce = "AllGather_X(bf16[D_X, F])", "slice_{X,D}(bf16[B, D]); AllReduce_X(bf16[B, F] {U_X})"
    numbers = {"C": 4.59e14, "W": 1.8e11}
    alpha = solve(text, "B", on="v5p", mesh={"X": 4}, plan=gather, set=V5P, algorithm="book").value

    def faster(B: int, D: int) -> str:
        both = [longest(ask(plan, B, D, 32768, **numbers)) for plan in (gather, reduce)]
        return "strategy 2" if both[1] < both[0] else "strategy 1"

    small = [faster(64, D) for D in (96, 120, 136, 256)] == ["strategy 1"] * 2 + ["strategy 2"] * 2
    large = [faster(65536, D) for D in (4096, 5088, 5112, 8192)] == ["strategy 1"] * 2 + ["strategy 2"] * 2
    return {
        "t1": lambda **sizes: longest(ask(gather, **sizes)),
        "t2": lambda **sizes: longest(ask(reduce, **sizes)),
        "alpha": alpha,
        "B_threshold": alpha,
        "D_threshold_small_B": 2 * alpha,
        "small_batch": "strategy 2 wins when D > 2B" if small else "",
        "large_batch": "strategy 2 wins when D > 5100" if large else "",
    }


def replicated_product() -> dict[str, Any]:
    def plans(**rates: float) -> Any:
        figures = {"bf16": rates.get("C", 2.75e14)}
        options = {"on": "v4:4x4x4", "set": figures, "link": rates.get("W", 9e10) / 2, "algorithm": "book"}
        sizes = {name: int(size) for name, size in rates.items() if name in "IJK"}
        return shard("A[I, J] * B[J, K] -> C[I, K]", sizes={"J": 4096, **sizes}, **options)

    def named(name: str, **rates: float) -> Any:
        return next(plan for plan in plans(**rates) if plan.name == name)

    outer = "slice_{X,Y,Z,I}(A[I, J]); AllGather_{X,Y,Z}(C[I_XYZ, K])"
    columns = "slice_{X,Y,Z,K}(B[J, K]); AllGather_{X,Y,Z}(C[I, K_XYZ])"
    inner = "slice_{X,Y,Z,J}(A[I, J]); slice_{X,Y,Z,J}(B[J, K]); AllReduce_{X,Y,Z}(C[I, K] {U_XYZ})"
    sizes = {"I": 4096, "K": 4096}
    least = plans(**sizes).best.bound.lower
    equal = all(named(name, **sizes).bound.lower == least for name in (outer, columns))
    return {
        "opt1_comms": lambda **at: named(outer, **at).comms,
        "opt3_comms": lambda **at: named(inner, **at).comms,
        "t_math_sharded": lambda **at: named(outer, **at).math,
        "best": "shard I or K over XYZ, AllGather at the end (equal)" if equal else "",
    }


def quiz6(text: str, words: dict[str, str]) -> Callable[[], dict[str, Any]]:
    def answers() -> dict[str, Any]:
        def ask(**sizes: int) -> Bound:
            whole = dict.fromkeys("IJK", 8192) | {name: int(size) for name, size in sizes.items()}
            return bound(text, on="v5e:4x4", link=4.5e10, algorithm={"AllReduce": "line"}, sizes=whole)

        name = ask().plan or ""
        return {
            "collective": words.get(name, name),
            "t_comms_nowrap": lambda **sizes: ask(**sizes).comms,
            "t_math": lambda **sizes: ask(**sizes).math,
        }

    return answers


def gather_or_scatter(M: int, K: int) -> float:
    """Bytes of gathering A[N, M_X] over those of scattering C[N, K]."""
    text = "A[N, M_X] * B[M, K] -> C[N, K_X]"
    gather, scatter = (
        bound(text, on="v5p", mesh={"X": 4}, plan=plan, N=1024, M=M, K=K)
        for plan in (
            "AllGather_X(A[N, M_X]); slice_{X,K}(B[M, K])",
            "slice_{X,M}(B[M, K]); ReduceScatter_{X,K}(C[N, K] {U_X})",
        )
    )
    return float(gather.comms / scatter.comms)


def jax_matmul() -> dict[str, Any]:
    answer = bound("In:bf16[8_X, 2048_Y] . W:bf16[2048_Y, 8192] -> bf16[8_X, 8192]", on="v5e:4x2", plan="AllReduce")
    matmul, reduced = (part.op for part in answer.ops)
    (moved,) = reduced.reads
    return {
        "in_local": list(matmul.reads[0].dims),
        "w_local": list(matmul.reads[1].dims),
        "out_local": list(reduced.writes[0].dims),
        "collective": f"{reduced.options['collective']}_{''.join(reduced.options['axes'])} of "
        f"{moved.dtype}[{','.join(map(str, moved.dims))}]",
    }


def collective_matmul() -> dict[str, Any]:
    mesh = {"X": 2, "Y": 4}
    sizes = {"B": 1024, "D": 2048, "F": 8192}
    text = "A[B_X, D_Y] . W[D, F_Y] -> Out[B_X, F_Y]"
    assert bound(text, on="v5e:2x4", **sizes).plan == "AllGather_Y(A[B_X, D_Y])"
    return {
        "a_local": list(layout("A[B_X, D_Y]", mesh=mesh, B=1024, D=2048).local),
        "w_local": list(layout("W[D, F_Y]", mesh=mesh, D=2048, F=8192).local),
    }


def true_shapes() -> dict[str, Any]:
    held = layout("bf16[F_X, D]", mesh={"X": 8}, F=32768, D=8192)
    return {"F": held.local[0] * held.chips}


ANSWERS: dict[str, Callable[[], dict[str, Any]]] = {
    "s000.two_chip": two_chips,
    "s002.q3.D1024": narrow,
    "roofline.two_chip": two_chips,
    "sharding.case.1": lambda: {
        "collective": _none(bound("A[I, J] * B[J, K] -> C[I, K]", on="v5p", I=8, J=8, K=8).plan),
        "output": "C[I, K]",
    },
    "sharding.case.2": lambda: {
        "collective": _none(first("A[I_X, J] . B[J, K] -> C[I_X, K]")),
        "output": "C" + bound("A[I_X, J] . B[J, K]", on="v5p:4x4x4").ops[0].op.writes[0].label.removeprefix("bf16"),
    },
    "sharding.case.10": lambda: {"collective": either_or("A[I_X, J] . B[J, K_Y] -> C[I, K]"), "output": "C[I, K]"},
    "sharding.q4": two_strategies,
    "sharding.q5": replicated_product,
    "sharding.q6.a": quiz6(
        "bf16[I_X, J_Y] . bf16[J_Y, K] -> bf16[I_X, K]",
        {"AllReduce_Y(bf16[I_X, K] {U_Y})": "AllReduce_Y on 2*I*K/X bytes"},
    ),
    "sharding.q6.b": quiz6(
        "bf16[I_X, J] . bf16[J_X, K_Y] -> bf16[I_X, K_Y]",
        {"AllGather_X(bf16[J_X, K_Y])": "AllGather_X of B, 2*J*K/Y bytes"},
    ),
    "sharding.q6.c": quiz6("bf16[I_X, J] . bf16[J, K_Y] -> bf16[I_X, K_Y]", {"no communication": "none"}),
    "sharding.q9": lambda: {"ratio": gather_or_scatter},
    "jax.matmul_local": jax_matmul,
    "jax.collective_matmul": collective_matmul,
    "profiling.q1": true_shapes,
    **SCALING,
}


def _none(plan: str | None) -> str:
    return "none" if plan in (None, "no communication") else str(plan)


def either_or(text: str) -> str:
    """The two ways of the book: gather both operands, or gather the result."""
    names = [plan.name for plan in shard(text, on="v5p:4x4x4", I=8192, J=8192, K=8192)]
    both = "AllGather_X(A[I_X, J]); AllGather_Y(B[J, K_Y])" in names
    return "AllGather A and B, or C (pick the cheaper)" if both and "AllGather_{X,Y}(C[I_X, K_Y])" in names else ""
