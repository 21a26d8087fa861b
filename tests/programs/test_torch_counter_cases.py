"""The published and hand-made counting cases that torch can run, each under the convention it states."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import roofline
from roofline.ops.basic import written_elements
from roofline.ops.counting import CONVENTIONS, Convention
from roofline.programs import trace
from tests.programs import networks
from tests.strategies import LONG, some

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "counter_cases.json").read_text())[
    "cases"
]
TORCH_SOURCES = (
    "pytorch/",
    "facebookresearch/",
    "sovrasov/",
    "Lyken17/",
    "deepspeedai/",
    "hand ",
    "trap",
    "openxla/xprof",
)


def _t(shape: Any, dtype: str = "fp32") -> str:
    return f"{dtype}{list(shape)}"


def _grad(shape: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=True)


def _backward(function: Any, *inputs: torch.Tensor) -> int:
    return int(trace(function, *inputs, backward=True).only(phase="backward").flops("unmasked"))


def _conv(case: dict[str, Any]) -> int:
    x, w = case["shapes"]["x"], case["shapes"]["w"]
    transposed = "transpose" in case["op"]
    groups = x[1] // w[0 if transposed else 1]
    function = {3: (F.conv1d, F.conv_transpose1d), 4: (F.conv2d, F.conv_transpose2d)}[len(x)][transposed]
    options = {k: case["shapes"][k] for k in ("padding", "stride") if k in case["shapes"]}

    def run(a: Any, b: Any) -> Any:
        return function(a, b, groups=groups, **options)

    if "bwd" in case["op"]:
        return _backward(run, _grad(x), _grad(w))
    return int(trace(run, _t(x), _t(w)).flops())


def _sdpa(case: dict[str, Any]) -> int:
    s = case["shapes"]
    q, k, v = ((s["b"], s["h"], n, d) for n, d in ((s["sq"], s["d"]), (s["sk"], s["d"]), (s["sk"], s["dv"])))

    def run(*qkv: Any) -> Any:
        return F.scaled_dot_product_attention(*qkv, is_causal="causal" in case["op"])

    both = "bwd" in case["op"]
    recompute = "mem_eff" in case["op"] and both
    inputs = [_grad(shape, torch.float16) for shape in (q, k, v)]
    return int(trace(run, *inputs, backward=both, recompute_attention=recompute).flops("unmasked"))


def _resnet18(case: dict[str, Any]) -> int:
    model = networks.on_shapes(networks.resnet18_start)
    backward = "bwd" in case["op"]
    part = trace(model, _t(case["shapes"]["x"]), backward=backward).under("layer1")
    return int(part.only(phase="backward" if backward else "forward").flops())


def _pytrees(case: dict[str, Any]) -> int:
    return int(trace(lambda x: x.mm(x), _grad(case["shapes"][0]), backward=True).flops())


def _variety(case: dict[str, Any]) -> int:
    def run(*t: Any) -> Any:
        linear = nn.Linear(9, 10)
        products = t[0].mm(t[1]), torch.addmm(t[2], t[3], t[4]), torch.matmul(t[5], t[6])
        return *products, torch.einsum("ab,bc->ac", t[6], t[7]), linear(t[8])

    shapes = [(4, 5), (5, 6), (4, 6), (4, 5), (5, 6), (5, 6), (6, 7), (7, 8), (8, 9)]
    return int(trace(run, *(_t(s) for s in shapes)).flops())


def _plain(case: dict[str, Any]) -> int:
    function = {"mm": torch.mm, "matmul": torch.matmul, "addmm": torch.addmm, "baddbmm": torch.baddbmm}[case["op"]]
    return int(trace(function, *(_t(s) for s in case["shapes"])).flops(_convention(case)))


def _convention(case: dict[str, Any]) -> str:
    stated = case["convention"]
    if "incl. bias" in stated:
        return "ptflops"
    if "incl. elementwise" in stated:
        return "elementwise"
    return "fvcore" if stated.startswith("1 per MAC") else "unmasked"


class ThreeNet(nn.Module):
    """As in fvcore's tests."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(2, 5, 1), nn.AdaptiveAvgPool2d((1, 1))
        self.linear1, self.linear2 = nn.Linear(5, 3), nn.Linear(3, 1)

    def forward(self, x: Any) -> Any:
        return self.linear2(self.linear1(self.pool(self.conv(x)).flatten(1)))


def _fvcore(case: dict[str, Any]) -> int:
    text, shapes = case["op"], [s["shape"] for s in case["shapes"]]
    model: Any
    if text.startswith("ThreeNet"):
        model = ThreeNet()
    elif "MatmulNet" in text:
        model = torch.matmul
    elif "BMMNet" in text:
        model = torch.bmm
    elif "EinsumNet" in text:

        def model(a: Any, b: Any) -> Any:
            return torch.einsum("bnd,bmd->bnm", a, b)
    else:
        inner = text[text.index("(", text.index("Net")) :] if "Net(" in text else text
        layer = inner[inner.index(": ") + 2 : inner.rindex("\n")] if "Net(" in text else text
        layer = layer.replace("bias=False, ", "") if layer.startswith("BatchNorm") else layer
        model = eval(f"nn.{layer}", {"nn": nn})
    traced = trace(model, *(_t(s) for s in shapes))
    if case.get("expected_flops_2mac_only") is not None:
        assert traced.flops("unmasked") == case["expected_flops_2mac_only"]
    return int(traced.flops("fvcore"))


class SmallConvNet(nn.Module):
    """As in fvcore's tests of activation counts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 4, 1, 2), nn.Conv2d(4, 2, 1, 2)

    def forward(self, x: Any) -> Any:
        return self.conv3(self.conv2(self.conv1(x)))


def _activations(case: dict[str, Any]) -> int:
    traced = trace(SmallConvNet(), _t(case["shapes"][0]["shape"]))
    if "supported_ops" in case["test"]:  # a handle of the caller's own that says 100 for every convolution
        CONVENTIONS["hundred"] = Convention(lambda op: 100 if op.kind == "convolution" else 0, "100 a convolution")
        try:
            return int(traced.flops("hundred"))
        finally:
            del CONVENTIONS["hundred"]
    return int(sum(written_elements(op) for op in traced.ops if op.kind in ("contraction", "convolution")))


def _batch_norm(case: dict[str, Any]) -> int:
    training = "training" in case["op"]
    model = nn.BatchNorm2d(2, affine=training).train(training)
    return int(trace(model, _t(case["shapes"][0])).flops("fvcore"))


def _einsum(case: dict[str, Any]) -> int:
    return int(trace(lambda a, b: torch.einsum(case["op"].split()[1], a, b), *map(_t, case["shapes"])).flops("macs"))


def _module(case: dict[str, Any]) -> int:
    model = eval(f"nn.{case['op'] if '(' in case['op'] else case['op'] + '()'}", {"nn": nn})
    convention = "macs" if case["source"].startswith("Lyken17") else _convention(case)
    return int(trace(model, *map(_t, case["shapes"])).flops(convention))


def _ptflops(case: dict[str, Any]) -> int:
    text = case["op"].replace("(3,2,3,bias", "(3,2,3,bias")
    model = eval(f"nn.{text}", {"nn": nn})
    assert sum(p.numel() for p in model.parameters()) == case["expected_params"]
    return int(trace(model, _t(case["shapes"][0])).flops("ptflops"))


def _interpolate(case: dict[str, Any]) -> int:
    def run(x: Any) -> Any:
        return F.interpolate(x, size=(20, 20), mode="bilinear", align_corners=False)

    return int(trace(run, _t(case["shapes"][0])).flops("ptflops"))


def _lenet(case: dict[str, Any]) -> int:
    layers: list[nn.Module] = []
    for cin, cout in ((1, 6), (6, 16)):
        layers += [nn.Conv2d(cin, cout, 5), nn.Tanh(), nn.AvgPool2d(2)]
    layers += [
        nn.Conv2d(16, 120, 5),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
        nn.Softmax(1),
    ]
    model = nn.Sequential(*layers)
    assert sum(p.numel() for p in model.parameters()) == case["expected_params"]
    traced = trace(model, _t(case["shapes"][0]))
    assert traced.macs() == case["expected_macs"]
    return int(traced.flops("elementwise"))


def _ridge(case: dict[str, Any]) -> float:
    figures = {"hbm": f"{100 * 2**30} B/s", "cuda.fp32": 1e12}
    found = roofline.bound(flops=1e12, bytes=1e9, dtype="fp32", unit="vector", on="h100", set=figures)
    return float(found.critical_intensity)


def _network(case: dict[str, Any]) -> int:
    tokens = "int64"
    builders: dict[str, tuple[Any, str]] = {
        "BERT-base": (networks.Bert, _t(case["shapes"][0], tokens)),
        "MobileNetV2": (networks.mobilenet_v2, _t(case["shapes"][0])),
        "MobileNetV1": (networks.mobilenet_v1, _t(case["shapes"][0])),
        "Mixtral-8x7B 32 layers": (networks.mixtral, _t(case["shapes"][0], tokens)),
        "Mixtral-8x7B 2 layers": (lambda: networks.mixtral(2), _t(case["shapes"][0], tokens)),
        "ViT-B/16": (networks.ViT, _t(case["shapes"][0])),
        "GPT-2": (networks.GPT2, _t(case["shapes"][0], tokens)),
    }
    build, given = builders[case["test"]]
    model = networks.on_shapes(build).eval()
    model = model.to(torch.bfloat16) if "Mixtral" in case["test"] else model
    assert sum(p.numel() for p in model.parameters()) == case["expected_params"]
    return int(trace(model, given).flops("unmasked"))


def _int_mm(case: dict[str, Any]) -> int:
    return int(trace(torch._int_mm, *(_t(s, "int8") for s in case["shapes"])).flops())


def _grouped_mm(case: dict[str, Any]) -> int:
    return int(
        trace(
            lambda a, b, o: torch._grouped_mm(a, b, offs=o), *(_t(s, "bf16") for s in case["shapes"]), "int32[4]"
        ).flops()
    )


def _encoder(case: dict[str, Any]) -> int:
    return int(trace(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), _t(case["shapes"][0])).flops())


def _grouped_conv(case: dict[str, Any]) -> int:
    layer = nn.Conv2d(8, 16, 3, padding=1, groups=2)
    return int(trace(layer, _grad(case["shapes"][0]), backward=True).only(phase="backward").flops())


RUNNERS: dict[str, Any] = {
    "test_torchscript": lambda case: _plain({**case, "op": "mm"}),
    "test_module": _resnet18,
    "test_convs": _conv,
    "test_sdpa": _sdpa,
    "test_op": lambda case: (_conv if "conv" in case["op"] else _plain)(case),
    "test_pytrees": _pytrees,
    "test_flop_counter_variety": _variety,
    "TestActivationCountAnalysis": _activations,
    "TestFlopCountAnalysis": _fvcore,
    "test_torch_mm": _plain,
    "test_batch_norm": _batch_norm,
    "test_complicated_einsum": _einsum,
    "test_func_interpolate_args": _interpolate,
    "test_conv_t": _ptflops,
    "test_conv2d": _module,
    "test_conv": _ptflops,
    "test_relu": _module,
    "test_flops_profiler_in_inference": _lenet,
    "RidgePointNormalCase": _ridge,
    "int_mm": _int_mm,
    "grouped mm": _grouped_mm,
    "encoder layer eval": _encoder,
    "group2 conv backward": _grouped_conv,
    "llama scan 32 layers": lambda case: int(
        trace(networks.on_shapes(networks.Llama), _t(case["shapes"][0][:2], "int64")).under("layers").flops("unmasked")
    ),
}

#: Cases of JAX's control flow, which its own tests run.
JAX_ONLY = ("while/cond", "scan")


def _of_torch(case: dict[str, Any]) -> bool:
    return case["source"].startswith(TORCH_SOURCES) and case["test"] not in JAX_ONLY and not case.get("suspect")


def _expected(case: dict[str, Any]) -> Any:
    for name in ("expected_flops", "expected_activations", "expected_ridge"):
        if case.get(name) is not None:
            return case[name]
    raise AssertionError(f"case {case['number']} expects nothing")


@pytest.mark.parametrize(
    "case",
    some([c for c in CASES if _of_torch(c) and (LONG or "32 layers" not in c["test"])], 2),
    ids=lambda c: f"{c['number']}-{c['test']}",
)
def test_counter_case(case):
    test = case["test"].partition("::")[0]
    runner = RUNNERS.get(test) or _network
    found = runner(case)
    expected = _expected(case)
    tolerance = 0.05 if "tolerance" in case["notes"] else 1e-5 if isinstance(expected, float) else 0
    assert found == pytest.approx(expected, rel=tolerance, abs=0)


def test_every_case_has_a_home():
    torch_cases = [c for c in CASES if _of_torch(c)]
    assert len(CASES) == 194
    assert len(torch_cases) == 74
    assert all(prod(s) for c in torch_cases for s in (c["shapes"] or []) if isinstance(s, list))
