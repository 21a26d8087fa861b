"""Products of fp32 run in the format that the program allows and the chip has; a floor takes the fastest."""

from __future__ import annotations

from typing import Any

import pytest

import roofline
from roofline.hardware import chip

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")

N = 8192
FLOPS = 2.0 * N**3


def _rate(answer: Any) -> float:
    return FLOPS / float(answer.lower)


def _jax(precision: Any, on: str) -> Any:
    x = jax.ShapeDtypeStruct((N, N), jax.numpy.float32)
    return roofline.trace(lambda a, b: jax.numpy.dot(a, b, precision=precision), x, x, on=on, frontend="jax")


@pytest.mark.parametrize(
    ("precision", "on", "figure", "passes"),
    [
        (None, "a100", "tensor.tf32", 1),
        ("high", "a100", "tensor.tf32", 1),
        ("highest", "a100", "cuda.fp32", 1),
        ("BF16_BF16_F32", "a100", "tensor.bf16", 1),
        ("BF16_BF16_F32_X3", "a100", "tensor.bf16", 3),
        ("BF16_BF16_F32_X9", "a100", "tensor.bf16", 9),
        ("TF32_TF32_F32_X3", "a100", "tensor.tf32", 3),
        (None, "v5e", "mxu.bf16", 1),
        ("high", "v5e", "mxu.bf16", 3),
        ("highest", "v5e", "mxu.bf16", 6),
        ("F32_F32_F32", "v4", "mxu.bf16", 6),
        ("BF16_BF16_F32_X3", "v5e", "mxu.bf16", 3),
        (None, "v100", "cuda.fp32", 1),
        ("BF16_BF16_F32_X6", "v100", "cuda.fp32", 1),
    ],
)
def test_a_product_in_jax_runs_as_its_precision_says(precision: Any, on: str, figure: str, passes: int) -> None:
    found = _jax(precision, on)
    assert _rate(found) == pytest.approx(chip(on).figure(figure).value / passes, rel=0.01)
    assert (f"run as {passes} passes of " in str(found.assumptions)) == (passes > 1)
    assert found.bytes["hbm"] == 3 * 4 * N**2
    dtype = figure.partition(".")[2]
    assert ("products of fp32 run as " in str(found.assumptions)) == (dtype != "fp32")


@pytest.mark.parametrize(("on", "said"), [("v5e", ["bf16 (1 ", "6 passes of bf16 (2 "]), ("a100", ["tf32 (1 "])])
def test_of_products_in_several_precisions_each_says_which(on: str, said: list[str]) -> None:
    def step(a: Any, b: Any) -> Any:
        return jax.numpy.dot(jax.numpy.dot(jax.numpy.dot(a, b), b, precision="highest"), b, precision="highest")

    x = jax.ShapeDtypeStruct((64, 64), jax.numpy.float32)
    lines = [line for line in roofline.trace(step, x, x, on=on).assumptions if "JAX's precision" in line]
    count = {1: "524 kFLOP", 2: "1.05 MFLOP"}
    assert [line.partition(" run as ")[2].partition(": ")[0] for line in lines] == [
        f"{each}product{'s' * (each[-2] != '1')}, {count[int(each[-2])]}" for each in said
    ]
    assert all("test_precision.py:" in line for line in lines)


def test_products_on_a_chosen_unit_stay_in_what_it_has() -> None:
    x = jax.ShapeDtypeStruct((N, N), jax.numpy.float32)
    program = roofline.trace(lambda a, b: jax.numpy.dot(a, b, precision="highest"), x, x, frontend="jax")
    assert _rate(program.bound("v5e", unit="vpu")) == pytest.approx(chip("v5e").figure("vpu.fp32").value, rel=0.01)


def test_the_precision_that_jax_is_set_to_counts() -> None:
    with jax.default_matmul_precision("highest"):
        assert _rate(_jax(None, "a100")) == pytest.approx(chip("a100").figure("cuda.fp32").value, rel=0.01)


def test_pytorch_keeps_fp32_in_products_and_takes_tf32_in_convolutions_as_it_is_set() -> None:
    def product(a: Any, b: Any) -> Any:
        return a @ b

    def convolution(x: Any, kernel: Any) -> Any:
        return torch.nn.functional.conv2d(x, kernel)

    def time(program: Any, *shapes: str) -> float:
        return float(roofline.trace(program, *shapes, on="a100").lower)

    products, convolved = (f"fp32[{N}, {N}]",) * 2, ("fp32[64, 256, 56, 56]", "fp32[256, 256, 3, 3]")
    assert FLOPS / time(product, *products) == pytest.approx(chip("a100").figure("cuda.fp32").value, rel=0.01)
    by_default = time(convolution, *convolved)
    backends = torch.backends
    try:
        backends.cuda.matmul.allow_tf32 = True
        with backends.cudnn.flags(enabled=backends.cudnn.enabled, allow_tf32=False):  # PyTorch's own tests freeze them
            assert FLOPS / time(product, *products) == pytest.approx(chip("a100").figure("tensor.tf32").value, rel=0.01)
            assert time(convolution, *convolved) == pytest.approx(8 * by_default, rel=0.01)
    finally:
        backends.cuda.matmul.allow_tf32 = False
    said = roofline.trace(convolution, *convolved, on="a100").assumptions
    assert "torch.backends.cudnn.allow_tf32 is set: products of fp32 run as tf32" in said


def test_of_products_of_modules_each_module_is_named() -> None:
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 4))
    said = " ".join(roofline.trace(layers, "fp32[2, 3, 8, 8]", on="a100").assumptions)
    assert "products of fp32 run as tf32 (1 product, 31.7 kFLOP: module 0)" in said


def test_pytorch_on_a_tpu_multiplies_in_one_pass_of_bf16() -> None:
    found = roofline.trace(lambda a, b: a @ b, *[f"fp32[{N}, {N}]"] * 2, on="v5e")
    assert _rate(found) == pytest.approx(chip("v5e").figure("mxu.bf16").value, rel=0.01)
    assert found.bytes["hbm"] == 3 * 4 * N**2
    assert "the precision of PyTorch/XLA is 'default': products of fp32 run as bf16" in found.assumptions


def test_an_open_size_keeps_the_format() -> None:
    layer = torch.nn.Conv2d(256, 256, 3)
    opened = roofline.trace(layer, "fp32[B, 256, 56, 56]", on="a100").formula()(B=64)
    closed = roofline.trace(layer, "fp32[64, 256, 56, 56]", on="a100")
    assert float(opened["lower"]) == pytest.approx(float(closed.lower))


def test_an_onnx_file_multiplies_in_tf32_as_onnx_runtime_does() -> None:
    onnx = pytest.importorskip("onnx")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [N, N]) for name in "xy")
    z = onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node("MatMul", ["x", "y"], ["z"])], "product", [x, y], [z])
    program = roofline.trace(onnx.helper.make_model(graph))
    for on, figure in (("a100", "tensor.tf32"), ("v100", "cuda.fp32")):
        assert _rate(program.bound(on)) == pytest.approx(chip(on).figure(figure).value, rel=0.01)
    found = program.bound("a100")
    assert found.bytes["hbm"] == 3 * 4 * N**2
    assert "use_tf32 of ONNX Runtime's CUDA provider is 1: products of fp32 run as tf32" in found.assumptions
