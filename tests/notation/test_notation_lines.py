"""Lines that must paste as written: the notation's own examples, the lines of the seeds' and the book's questions."""

from __future__ import annotations

import pytest
from tests.strategies import for_each

from roofline.errors import NotationError
from roofline.notation import canonical, parse, program

DOCUMENTED = {
    "bf16[B, D] * int8[D, F] -> bf16[B, F]": ("contract", ("D",), ()),
    "int8[B, D] * int8[B, D, F] -> int8[B, F]": ("contract", ("D",), ("B",)),
    "bf16[512, 8192] @ bf16[8192, 4096]": ("contract", ("#2",), ()),
    "bf16[N] · bf16[N] -> bf16[]": ("contract", ("N",), ()),
    "bf16[B, D] + bf16[B, D]": ("add", (), ()),
    "gelu(bf16[B, F])": ("gelu", (), ()),
    "softmax_T(fp32[B, N, S, T])": ("softmax", (), ()),
    "attention(bf16[B, S, N, H], bf16[B, T, K, H], bf16[B, T, K, H], causal)": ("attention", (), ()),
    "conv(bf16[B, 224, 224, 3], bf16[7, 7, 3, 64], stride=2, pad=3)": ("conv", (), ()),
    "bf16[B_X, D] * bf16[D, F_Y] -> bf16[B_X, F_Y]": ("contract", ("D",), ()),
    "A[I, J_X] * B[J_X, K] -> C[I, K] {U_X}": ("contract", ("J",), ()),
    "AllGather_X(bf16[B_X, D])": ("AllGather", (), ()),
    "ReduceScatter_{X,K}(A[I, K] {U_X})": ("ReduceScatter", (), ()),
    "AllReduce_Z(bf16[B_X, D_Y] {U_Z})": ("AllReduce", (), ()),
    "AllToAll_{X,J}(A[I_X, J])": ("AllToAll", (), ()),
    "Permute_X(bf16[B_X, D])": ("Permute", (), ()),
}

# The `notation` of each question, by its id: chapters of "How To Scale Your Model" and the five seed documents.
CASES = [
    ("roofline.dot", "bf16[N] . bf16[N] -> bf16[1]"),
    ("roofline.matmul_intensity", "bf16[B, D] . bf16[D, F] -> bf16[B, F]"),
    ("roofline.matmul_exact_flops", "[B, D] . [D, F] -> [B, F]"),
    ("roofline.two_chip", "bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F] {U_X}; AllReduce_X; mesh X=2"),
    ("roofline.q1.intensity", "int8[B, D] . int8[D, F] -> int8[B, F]"),
    ("tpus.q3", "bf16[B, D] . bf16[D, F] -> bf16[B, F] over pcie"),
    ("tpus.q4.hbm", "int8[B, J] . int8[I, J] -> int8[B, I]"),
    ("tpus.q4.vmem", "int8[B, J] . int8[I, J] -> int8[B, I] over vmem"),
    ("sharding.case.1", "A[I, J] . B[J, K] -> C[I, K]"),
    ("sharding.case.2", "A[I_X, J] . B[J, K] -> C[I_X, K]"),
    ("sharding.case.10", "A[I_X, J] . B[J, K_Y] -> C[I, K]"),
    ("sharding.quiz2.large", "AllGather_Y(bf16[E_Y, F])"),
    ("sharding.a2a", "AllToAll_{X, J} A[I_X, J] -> A[I, J_X]"),
    ("sharding.q2.1", "AllGather_X(bf16[B_X, D_Y])"),
    ("sharding.q2.2", "AllGather_XY(bf16[B_X, D_Y])"),
    ("sharding.q2.3", "AllReduce_Z(bf16[B_X, D_Y] {U_Z})"),
    ("sharding.q4", "bf16[B, D] . bf16[D_X, F] -> bf16[B, F]"),
    ("sharding.q6.a", "bf16[I_X, J_Y] . bf16[J_Y, K] -> bf16[I_X, K]"),
    ("sharding.q6.b", "bf16[I_X, J] . bf16[J_X, K_Y] -> bf16[I_X, K_Y]"),
    ("sharding.q6.c", "bf16[I_X, J] . bf16[J, K_Y] -> bf16[I_X, K_Y]"),
    ("transformers.dots", "[P] . [P] -> []; [N, P] . [P] -> [N]; [N, P] . [P, M] -> [N, M]"),
    ("transformers.contraction", "C[G, H, I, J, K, L] . D[G, H, M, N, K, L] -> [G, H, I, J, M, N]"),
    ("transformers.q2", "A[B_X, D_Y] ._D W[D_Y, F]"),
    ("transformers.q3", "A[I, J, K, L] . B[I, J, M, N, O] -> C[K, L, M, N, O]"),
    ("training.dp_roofline", "In[B_X, D] . Win[D, F] . Wout[F, D] -> Out[B_X, D]"),
    ("profiling.matmul", "bf16[32_X, 1024, 8192] . bf16[8192, 32768_Y] -> bf16[32_X, 1024, 32768_Y]; mesh X=4,Y=2"),
    ("jax.matmul_local", "bf16[8_X, 2048_Y] . bf16[2048_Y, 8192] -> bf16[8_X, 8192]"),
    ("jax.collective_matmul", "A[B_X, D_Y] . W[D, F_Y] -> Out[B_X, F_Y]"),
    ("gpus.q1.4", "fp16[64, 4096] . fp16[4096, 8192] -> fp16[64, 8192]"),
    ("gpus.q2.3", "AllGather_X(bf16[4096_X, 65536]) on h100x8"),
    ("gpus.pq1", "AllGather_X(bf16[B_X, F]) on h100x8"),
    ("gpus.pq2", "AllToAll_{X->N}(bf16[B_X, N]) on h100x8"),
    ("gpus.q4.3", "AllReduce_X(bf16[D, F_Y] {U_X}) on h100x8"),
    ("s000.dot", "bf16[N] . bf16[N] -> bf16[1]"),
    ("s000.matmul", "bf16[B, D] . bf16[D, F] -> bf16[B, F]"),
    ("s000.two_chip", "bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F]; mesh X=2"),
    ("s000.q1", "int8[B, D] . int8[D, F] -> int8[B, F]"),
    ("s000.q2", "bf16[B, D] * int8[D, F] -> bf16[B, F]"),
    ("s000.q4", "int8[B, D] * int8[B, D, F] -> int8[B, F]"),
    ("s002.think.n_chips", "bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F]; mesh X=n"),
    ("s002.q1.fp32", "fp32[B, D] . fp32[D, F] -> fp32[B, F]"),
    ("s003.oi_matmul", "fp16[M, K] . fp16[K, N] -> fp16[M, N]"),
    # As the seed documents themselves print them.
    ("seed 000", "x · y: bf16[N], bf16[N] -> bf16[1]"),
    ("seed 000", "bf16[B, D] × int8[D, F] → bf16[B, F]"),
    ("seed 000", r"$X[B, D] \cdot Y[D, F] \rightarrow Z[B, F]$"),
    ("seed 001", "x • y: bf16[N], bf16[N] → bf16[1]"),
    ("seed 001", r"$X[B, D] \cdot_D Y[D, F] \rightarrow Z[B, F]$"),
    ("seed 002", r"$X_{[B,D]} \times Y_{[D,F]} \rightarrow Z_{[B,F]}$"),
    ("seed 001", "bfloat16[B, D] * int8[D, F] -> bfloat16[B, F]"),
    ("seed 001", r"$\text{int8[B, D]} *_D \text{int8[B, D, F]} \rightarrow \text{int8[B, F]}$"),
]


@pytest.mark.parametrize("text", DOCUMENTED)
def test_documented_examples_mean_what_they_say(text):
    function, contracted, batch = DOCUMENTED[text]
    (step,) = program(text).steps
    assert (step.function, step.contracted, step.batch) == (function, contracted, batch)


def test_a_documented_program_has_three_steps():
    found = program("h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]")
    assert [step.function for step in found.steps] == ["contract", "gelu", "contract"]
    assert [step.output.ident for step in found.steps][:2] == ["h", "g"]
    assert found.steps[1].inputs[0].source == "step"
    assert found.steps[2].output.labels == ("B", "D")


@for_each(("name", "text"), CASES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CASES)])
def test_lines_of_the_sources_read(name, text):
    found = program(text)
    assert found.steps
    assert canonical(program(canonical(found))) == canonical(found)


@pytest.mark.parametrize(
    "text",
    [
        "x • y: bf16[N], bf16[N] → bf16[1]",
        "bf16[N] • bf16[N] → bf16[1]",
        "bf16[N] ⋅ bf16[N] ⟶ bf16[]",
        "x[N] * y[N]",
    ],
)
def test_a_dot_product_gives_a_scalar(text):
    (step,) = program(text).steps
    assert step.kind == "contraction"
    assert step.output.axes == ()
    assert step.contracted == ("N",)


def test_a_pasted_line_of_latex_is_the_plain_line():
    pasted = program(r"$\text{int8[B, D]} *_D \text{int8[B, D, F]} \rightarrow \text{int8[B, F]}$")
    assert canonical(pasted) == canonical(program("int8[B, D] * int8[B, D, F] -> int8[B, F]"))
    gathered = program(r"\textbf{AllGather}_{X}(A[I_X, J])")
    assert gathered.steps[0].function == "AllGather"


def test_a_line_of_full_width_signs_is_the_plain_line():
    pasted = program("h ＝ bf16［B，D］×int8【D，F】→bf16[B、F]；gelu（h）")
    assert canonical(pasted) == canonical(program("h = bf16[B, D] * int8[D, F] -> bf16[B, F]; gelu(h)"))


def test_a_collective_without_an_operand_takes_what_came_before():
    found = program("bf16[B, D_X] . bf16[D_X, F] -> bf16[B, F] {U_X}; AllReduce_X; mesh X=2")
    assert found.steps[1].inputs[0].ident == found.steps[0].output.ident
    assert found.steps[1].output.unreduced == ()
    assert found.mesh == {"X": 2}


@pytest.mark.parametrize("line", ["h = bf16[B, D] + bf16[B, D]; gelu(h); h", "h = bf16[B, D] + bf16[B, D]; h; gelu(h)"])
def test_a_result_named_alone_leaves_and_is_no_operation(line: str) -> None:
    found = program(line)
    assert [step.leaves for step in found.steps] == [True, False]
    assert canonical(found).endswith("; gelu(h) -> bf16[B, D]; h")
    assert program(canonical(found)).steps[0].leaves
    assert canonical(found, {"B": 8}).endswith("; gelu(h) -> bf16[8, D]; h")


def test_tensors_alone_parse_and_are_no_program():
    for text in ("bf16[8_X, 2048_Y]; bf16[2048, 8192_Y]", "bf16[32,32,4096]{2,1,0:T(8,128)(2,1)S(1)}"):
        assert parse(text).statements[0].value.dims[0].size in (8, 32)
        with pytest.raises(NotationError, match="a tensor alone is no operation"):
            program(text)
