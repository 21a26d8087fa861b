"""Rules for what a trace of PyTorch holds: gradients, norms, poolings, lists of tensors; real traces made here."""

from __future__ import annotations

import json

import pytest
from tests.strategies import some

from roofline.bounds.memory import traffic
from roofline.measurement import read_profile
from roofline.measurement.points import profile_sections
from roofline.measurement.profiles import ProfiledCall, price_profiled_call
from roofline.measurement.runs import AROUND, Profile
from roofline.rendering.terminal import terminal

X = [2, 8, 16, 16]
N = 2 * 8 * 16 * 16
CONV = ["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
CONV_FLOPS = 2 * 2 * 6 * 8 * 8 * 8 * 9
HEADS = [[2, 4, 128, 64]]
ADAM = [[[64, 32], [64]]] * 4


@pytest.mark.parametrize(
    ("name", "dims", "values", "flops", "moved"),
    [
        (
            "convolution_backward", [[2, 6, 8, 8], X, [6, 8, 3, 3], *[[]] * 8], [*CONV, "[True, True, False]"],
            2 * CONV_FLOPS, 4 * 2 * (2 * 6 * 8 * 8 + N + 6 * 8 * 9),
        ),
        (
            "convolution_backward", [[2, 6, 8, 8], X, [6, 8, 3, 3], *[[]] * 8], [*CONV, "[False, True, True]"],
            CONV_FLOPS + 6 * (128 - 1), 4 * (2 * 6 * 8 * 8 * 2 + N + 6 * 8 * 9 + 6),
        ),
        (
            "_scaled_dot_product_flash_attention_for_cpu_backward", [*HEADS * 5, [2, 4, 128], [], []],
            [*[""] * 6, "0.", "False"], (5 * 2 * 64 + 4) * 8 * 128 * 128, 4 * 7 * 8 * 128 * 64,
        ),
        (
            "_scaled_dot_product_efficient_attention_backward", [*HEADS * 4, [], *HEADS, [2, 4, 128], *[[]] * 5],
            [*[""] * 11, "True"], (5 * 2 * 64 + 4) * 8 * 128 * 129 // 2, 4 * 7 * 8 * 128 * 64,
        ),
        ("native_batch_norm", [X, [8], [8], [8], [8], []], [*[""] * 5, "True"], 7 * N + 16, 4 * (2 * N + 32 + 2 * 16)),
        ("native_batch_norm", [X, [8], [8], [8], [8], []], [*[""] * 5, "False"], 2 * N, 4 * (2 * N + 32)),
        ("cudnn_batch_norm_backward", [X, X, [8], [], [], [8], [8]], [], 7 * N, 4 * (3 * N + 8 * 3 + 16)),
        ("native_layer_norm_backward", [X, X, [], [512, 1], [512, 1], [16], [16], []], ["", "", "[16]"], 9 * N,
         4 * (3 * N + 2 * 512 + 16 + 32)),  # of the shift only the shape
        ("native_group_norm", [X, [8], [8], *[[]] * 5], [*[""] * 3, "2", "8", "256", "4"], 7 * N + 16,
         4 * (2 * N + 16 + 16)),
        ("gelu_backward", [X, X], [], 13 * N, 12 * N),
        ("threshold_backward", [X, X, []], [], N, 12 * N),
        ("elu_backward", [X, [], [], [], [], X], [], 5 * N, 12 * N),
        ("_softmax_backward_data", [X, X, [], []], [], 4 * N, 12 * N),
        ("max_pool2d_with_indices", [X, *[[]] * 5], ["", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"],
         N - 16, 4 * (N + 1024) + 8 * 1024),
        ("max_pool2d_with_indices", [X, *[[]] * 5], ["", "[3, 3]", "[2, 2]", "[0, 0]", "[1, 1]", "True"],
         N - 16, 4 * (N + 1024) + 8 * 1024),
        ("avg_pool2d", [X, *[[]] * 6], ["", "[2]", "[]", "[0]", "False"], 3 * 1024, 4 * (N + 1024)),
        ("avg_pool2d_backward", [[2, 8, 8, 8], X], ["", "", "[3]", "[2]", "[1]"], 1024 - 16, 4 * (N + 1024)),
        ("_adaptive_avg_pool2d", [X, []], ["", "[3, 3]"], N - 16, 4 * (N + 16 * 9)),
        ("upsample_bilinear2d", [X, *[[]] * 4], ["", "[32, 32]"], 4 * (2 + 4) * N, 4 * 5 * N),
        ("upsample_nearest2d_backward", [[2, 8, 32, 32], [], []], ["", "[32, 32]", str(X)], 4 * N, 4 * 5 * N),
        ("nll_loss_backward", [[], [64, 1000], [64], [], []], [], 64, 4 * (64_000 + 64)),
        ("mse_loss", [X, X, []], ["", "", "1"], 3 * N, 4 * (2 * N + 1)),
        ("embedding_dense_backward", [[4, 32, 64], [4, 32], []], ["", "", "1000"], 128 * 64,
         4 * (128 * 64 + 128 + 64_000)),
        ("max", [X, [], []], ["", "-1", "False"], 256 * 15, 4 * (N + 256) + 8 * 256),
        ("cumsum", [X, []], ["", "-1"], 256 * 15, 8 * N),
        ("native_dropout", [X, []], [], 2 * N, 9 * N),
        ("scatter_add_", [[100, 64], [], [32, 64], [32, 64]], [], 32 * 64, 4 * 4 * 32 * 64),
    ],
)  # fmt: skip
def test_gradients_norms_and_poolings_have_rules(name, dims, values, flops, moved):
    op = price_profiled_call(
        ProfiledCall(f"aten::{name}", dims, ["float" if shape else "Scalar" for shape in dims], values)
    )
    assert op.work.total("flops") == flops
    assert traffic([op])[0].total("bytes") == moved


@pytest.mark.parametrize(
    ("name", "dims", "values"),
    [
        ("max_pool2d_with_indices", [X, *[[]] * 5], ["", "[[3]]", "[2, 2]", "[0, 0]", "99999999999", "False"]),
        ("avg_pool2d", [X, *[[]] * 6], ["", "[-9]", "[1]", "[0]", "False"]),
        ("upsample_nearest2d", [X, [], []], ["", "['a', 'b']"]),
        ("repeat", [X, []], ["", "[-2, 1, 1, 1]"]),
        ("native_group_norm", [X, *[[]] * 7], [*[""] * 6, "1e400"]),
        ("embedding_dense_backward", [[4, 32, 64], [4, 32], []], ["", "", "[1000]"]),
        ("where", [X], []),
        ("mm", [[2, 3], [4, 5]], []),
        ("add", [[2, 3], [4, 5]], []),
        ("mv", [[2, 3], [4]], []),
        ("matmul", [[3], [2, 3, 4]], []),
        ("convolution", [[1, 3, 8, 8], [4, 5, 3, 3], *[[]] * 7],
         ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]),
        ("conv2d", [[1, 4, 8, 8], [4, 4, 3, 3], *[[]] * 5], ["", "", "", "[1, 1]", "'same'", "[1, 1]", "1"]),
        ("upsample_nearest2d", [X, [], []], ["", "[-1, 4]"]),
        ("cat", [[], []], []),
        ("mm", [[], []], []),
        ("no_such_operation", [X], []),
    ],
)  # fmt: skip
def test_values_that_make_no_operation_are_not_priced(name, dims, values):
    assert (
        price_profiled_call(
            ProfiledCall(f"aten::{name}", dims, ["float" if shape else "Scalar" for shape in dims], values)
        )
        is None
    )


@pytest.mark.parametrize(
    ("name", "dims", "kinds", "flops", "moved"),
    [
        ("cat", [[[4, 8], [2, 8]], []], [("c10::BFloat16",) * 2, "Scalar"], 0, 2 * 2 * 48),
        ("stack", [[[4, 8], [4, 8]], []], [("c10::BFloat16", "float"), "Scalar"], 0, (2 + 4) * 32 + 4 * 64),
        ("_foreach_addcmul_", [*ADAM[:3], []], [("float",) * 2] * 3 + ["Scalar"], 3 * 2112, 4 * 4 * 2112),
        ("_foreach_norm", [*ADAM[:1], []], [("float",) * 2, "Scalar"], 2 * 2112, 4 * 2114),
        ("_fused_adamw_", [*ADAM, [], []], [("float",) * 2] * 4 + ["", ""], 13 * 2112, 4 * 7 * 2112),
        ("_cudnn_rnn", [[5, 3, 16], [[128, 16], [128, 32], [128], [128]], [], [], [1, 3, 32], [1, 3, 32]],
         ["float", ("float",) * 4, "Scalar", "", "float", "float"], 2 * 15 * 128 * 48 + 22 * 15 * 32,
         4 * (240 + 128 * 50 + 4 * 96 + 480)),
    ],
)  # fmt: skip
def test_lists_of_tensors_have_rules_where_their_formats_are_known(name, dims, kinds, flops, moved):
    values = [*[""] * 6, "2", "32", "0", "1", "False", "0.", "True", "False"]
    op = price_profiled_call(ProfiledCall(f"aten::{name}", dims, kinds, values))
    assert op.work.total("flops") == flops
    assert traffic([op])[0].total("bytes") == moved
    plain = ["TensorList" if isinstance(kind, tuple) else kind for kind in kinds]
    assert price_profiled_call(ProfiledCall(f"aten::{name}", dims, plain, values)) is None


def profiled(path, step):
    """Trace a step as a user would, after one to warm up."""
    torch = pytest.importorskip("torch")
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    profiler.export_chrome_trace(str(path))
    return read_profile(path)


MODELS = {
    "grouped convolution": lambda nn, F: nn.Conv2d(8, 16, 3, groups=4, bias=False),
    "instance norm": lambda nn, F: nn.InstanceNorm2d(8),
    "gelu": lambda nn, F: F.gelu,
    "softmax": lambda nn, F: lambda x: F.softmax(x, -1),
    "max pooling": lambda nn, F: nn.MaxPool2d(3, 2, ceil_mode=True),
    "mean pooling": lambda nn, F: nn.AvgPool2d(3, 2, 1),
    "adaptive pooling": lambda nn, F: nn.AdaptiveAvgPool2d(3),
    "resampling": lambda nn, F: lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "glu": lambda nn, F: lambda x: F.glu(x, 1),
    "prelu": lambda nn, F: nn.PReLU(),
    "elu": lambda nn, F: F.elu,
    "padding": lambda nn, F: lambda x: F.pad(x, (1, 1, 2, 0)),
    "variance": lambda nn, F: lambda x: x.var(-1),
    "logsumexp": lambda nn, F: lambda x: x.logsumexp(-1),
    "linear layer": lambda nn, F: nn.Linear(16, 24),
    "biased convolution": lambda nn, F: nn.Conv2d(8, 6, 3, stride=2),
}


@pytest.mark.parametrize("name", some(list(MODELS), 2))
def test_a_profile_says_what_the_traced_program_says(tmp_path, name):
    """FLOPs and bytes of forward and backward, from a run and from the program alone, are the same."""
    torch = pytest.importorskip("torch")
    from roofline.programs import trace

    module = MODELS[name](torch.nn, torch.nn.functional)
    x = torch.rand(2, 8, 16, 16, requires_grad=True)
    ours = list(module.parameters()) if isinstance(module, torch.nn.Module) else []

    def step(x):
        y = module(x)
        y.backward(torch.ones_like(y))

    def once():
        for tensor in (x, *ours):
            tensor.grad = None
        step(x)

    found = profiled(tmp_path / "trace.json", once)
    for tensor in (x, *ours):
        tensor.grad = None
    program = trace(step, x).ops
    assert sum(run.flops for run in found.runs) == sum(op.work.total("flops") for op in program)
    assert sum(run.bytes for run in found.runs) == sum(work.total("bytes") for work in traffic(program))


def test_training_steps_have_a_rule_for_all_they_do(tmp_path):
    torch = pytest.importorskip("torch")
    nn = torch.nn
    embed = nn.Embedding(100, 64)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.Sequential(embed, layer, nn.LayerNorm(64), nn.Linear(64, 100))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    words = torch.randint(0, 100, (2, 32))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    found = profiled(tmp_path / "trace.json", step)
    names = {run.name.split()[0] for run in found.runs}
    assert {
        "linear", "mm", "bmm", "native_layer_norm_backward", "_softmax_backward_data", "threshold_backward",
        "embedding", "embedding_dense_backward", "nll_loss_forward", "nll_loss_backward", "_log_softmax_backward_data",
        "_foreach_norm", "_fused_adamw_",
    } <= names  # fmt: skip
    assert any("lists" in note for note in found.notes)


def test_under_autocast_the_format_is_that_which_runs(tmp_path):
    """The call as written is given fp32; what it calls, after casts, is bf16."""
    torch = pytest.importorskip("torch")
    linear, x = torch.nn.Linear(256, 512), torch.rand(64, 256)

    def step():
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            linear(x)

    found = profiled(tmp_path / "trace.json", step)
    [product] = [run for run in found.runs if run.name.startswith("linear")]
    assert product.dtype == "bf16"
    assert product.bytes == 2 * (64 * 256 + 512 * 256 + 512 + 64 * 512)
    assert {run.name.split()[0] for run in found.runs} == {"linear", "copy_"}


def event(name, ts, dur, dims=None, **more):
    told = {} if dims is None else {"Input Dims": dims, "Input type": ["float"] * len(dims), **more}
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1, "args": told}


def profile_of(folder, events):
    (folder / "trace.json").write_text(json.dumps(events))
    return read_profile(folder / "trace.json")


ENGINE = "autograd::engine::evaluate_function: "


def test_compiled_code_and_the_engine_are_told_by_names_of_their_own(tmp_path):
    events = [
        event("TorchDynamo Cache Lookup", -40, 30),
        event("Torch-Compiled Region: 0/0", 0, 1000),
        event("CompiledFunction", 1, 998, [[64, 64]]),
        event("aten::mm", 2, 700, [[64, 64], [64, 64]]),
        event(f"{ENGINE}ViewBackward0", 2000, 20),
        event("ViewBackward0", 2002, 16, [[64, 64]]),
        event("aten::view", 2004, 5, [[64, 64]]),
        event(f"{ENGINE}OddBackward0", 3000, 50),
        event("aten::unique_dim", 3002, 46, [[64, 64]]),
    ]
    found = profile_of(tmp_path, events)
    assert found.unpriced == {
        "kernels of torch.compile": pytest.approx(300e-6),
        AROUND: pytest.approx(50e-6),
        "OddBackward0": pytest.approx(50e-6),
    }


def test_a_call_that_casts_first_does_not_lack_a_rule(tmp_path):
    half = {"Input type": ["c10::Half"] * 2}
    events = [
        event("aten::mm", 0, 100, [[64, 64], [64, 64]]),
        event("aten::copy_", 5, 10, [[64, 64], [64, 64]], **{"Input type": ["c10::Half", "float"]}),
        event("aten::mm", 80, 15, [[64, 64], [64, 64]], **half),
    ]
    found = profile_of(tmp_path, events)
    assert [(run.name.split()[0], run.dtype) for run in found.runs] == [("copy_", "fp32"), ("mm", "fp16")]
    assert found.unpriced == {AROUND: pytest.approx(75e-6)}


def test_time_around_operations_is_not_said_to_lack_a_rule():
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as shown:
        console.print(terminal(profile_sections([], Profile((), {AROUND: 1e-3}), "on a machine", 20)))
    assert "1 ms around other operations" in shown.get()
    assert "no rule" not in shown.get()


def test_shapes_are_those_of_the_trace(tmp_path):
    """Channels stand second there, and heads before lengths: the names of runs say it as the user wrote it."""
    values = {"Concrete Inputs": ["", "", "", "", "0.", "True", "", "False"]}
    events = [event("aten::scaled_dot_product_attention", 0, 9, [[1, 8, 32, 64]] * 3 + [[]] * 5, **values)]
    (tmp_path / "trace.json").write_text(json.dumps(events))
    assert read_profile(tmp_path / "trace.json").runs[0].name == ("scaled_dot_product_attention 1x8x32x64 1x8x32x64")


def test_sparse_tensors_are_not_taken_for_full_ones(tmp_path):
    """They have a shape and no strides; their products were priced as if they stored every element."""
    sparse = {"Input Strides": [[64, 1], [], [64, 1]]}
    plain = event("aten::mm", 0, 100, [[64, 64], [64, 64]])
    dims = [[64, 64], [64, 64], [64, 64]]
    found = profile_of(tmp_path, [plain, event("aten::addmm", 200, 30, dims, **sparse)])
    assert [run.name for run in found.runs] == ["mm 64x64 64x64"]
    assert found.unpriced == {"aten::addmm": pytest.approx(30e-6)}
    assert "no rule for aten::addmm of tensors without strides, as sparse ones are" in found.notes[-1]
    whole = {"Input Strides": [[], [64, 1], [64, 1]]}
    again = profile_of(tmp_path, [event("aten::addmm", 200, 30, [[], *dims[1:]], **whole)])
    assert [run.flops for run in again.runs] == [2 * 64**3 + 64**2]


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_products_of_a_map_and_of_a_derivative_are_those_of_the_whole_batch(tmp_path):
    """``vmap`` calls a product with the shapes of one entry first, ``jvp`` works out the tangents inside it."""
    torch = pytest.importorskip("torch")
    x, v, w = torch.rand(3, 4), torch.rand(3, 4), torch.rand(4, 5)
    steps = {
        "map": (lambda: torch.vmap(lambda row: row @ w)(x), 2 * 3 * 4 * 5),
        "dots": (lambda: torch.vmap(torch.dot)(x, v), 3 * 2 * 4),
        "derivative": (lambda: torch.func.jvp(lambda a: a @ w, (x,), (v,)), 3 * 2 * 3 * 4 * 5),
        "linear": (lambda: torch.nn.functional.linear(x[None], w.T), 2 * 3 * 4 * 5),
    }
    for name, (step, flops) in steps.items():
        found = profiled(tmp_path / f"{name}.json", step)
        assert sum(run.flops * run.calls for run in found.runs if run.op.kind == "contraction") == flops
