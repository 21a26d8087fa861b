"""Programs a user might bring, each counted by hand: a U-Net, a ViT on flex attention, a scan, an encoder-decoder."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.out_dtype import out_dtype
from torch.nn.attention import bias
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from roofline.errors import InputError
from roofline.programs import trace
from roofline.programs.pytorch import recorder
from roofline.sections import Amount


class Double(nn.Module):
    """Two convolutions, a norm between the activations."""

    def __init__(self, cin, cout):
        super().__init__()
        self.first, self.second = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.norm = nn.GroupNorm(8, cout)

    def forward(self, x):
        return F.silu(self.norm(self.second(F.silu(self.first(x)))))


class UNet(nn.Module):
    """Two levels down, two up by transposed convolutions, joined with what was kept."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([Double(3, 16), Double(16, 32)])
        self.middle = Double(32, 64)
        self.up = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.join = nn.ModuleList([Double(64, 32), Double(32, 16)])
        self.out = nn.Conv2d(16, 1, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat((up(x), kept.pop()), 1))
        return self.out(x)


def test_a_unet():
    P, Q, R = 64 * 64, 32 * 32, 16 * 16
    layers = [(3, 16, 9, P), (16, 16, 9, P), (16, 32, 9, Q), (32, 32, 9, Q), (32, 64, 9, R), (64, 64, 9, R),
              (64, 32, 4, R), (64, 32, 9, Q), (32, 32, 9, Q), (32, 16, 4, Q), (32, 16, 9, P), (16, 16, 9, P),
              (16, 1, 1, P)]  # fmt: skip
    macs = 2 * sum(cin * cout * taps * places for cin, cout, taps, places in layers)
    found = trace(UNet(), "fp32[2, 3, 64, 64]")
    assert found.macs() == macs
    assert found.complete
    assert found.modules["up.0"] == "ConvTranspose2d"
    assert found.under("up.0").macs() == 2 * 64 * 32 * 4 * R
    first = 2 * 3 * 16 * 9 * P
    assert trace(UNet(), "fp32[2, 3, 64, 64]", backward=True).macs() == 3 * macs - first
    joins = [op for op in found.ops if op.name == "cat"]
    assert [op.where for op in joins] == ["", ""]
    assert {op.options["source"].partition(":")[0] for op in found.ops} == {"test_torch_programs.py"}


class FlexLayer(nn.Module):
    """Attention under a mask that is a function, and a feed-forward layer."""

    def __init__(self, d, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(d, 3 * d), nn.Linear(d, d), heads
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, mask):
        B, S, D = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = flex_attention(q, k, v, block_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(B, S, D))
        return x + self.mlp(x)


class FlexViT(nn.Module):
    """Patches see their own row of the image."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 16, 16)
        self.layers = nn.ModuleList(FlexLayer(64, 4) for _ in range(3))

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        S = x.shape[1]
        mask = create_block_mask(lambda b, h, i, j: (i // 8) == (j // 8), None, None, S, S, device=image.device)
        for layer in self.layers:
            x = layer(x, mask)
        return x.mean(1)


def test_a_vit_with_flex_attention():
    S = 64
    layer = S * (3 * 64 * 64 + 64 * 64 + 2 * 64 * 256) + 4 * (S * 8) * (16 + 16)
    found = trace(FlexViT(), "fp32[2, 3, 128, 128]")
    assert found.macs() == 2 * (S * 64 * 3 * 256 + 3 * layer)
    assert found.complete
    assert found.under("layers.1").macs() == 2 * layer


class Scan(nn.Module):
    """A selective state space, step by step, as Mamba's reference code."""

    def __init__(self, d=32, n=8):
        super().__init__()
        self.into, self.out = nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.conv = nn.Conv1d(d, d, 4, groups=d, padding=3)
        self.select, self.decay, self.n = nn.Linear(d, 2 * n + 1), nn.Parameter(torch.empty(d, n)), n

    def forward(self, u):
        B, L, D = u.shape
        x, gate = self.into(u).chunk(2, -1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :L].transpose(1, 2))
        step, b, c = self.select(x).split([1, self.n, self.n], -1)
        step, state, ys = F.softplus(step), u.new_zeros(B, D, self.n), []
        for t in range(L):
            fresh = step[:, t, :, None] * b[:, t, None, :]
            state = torch.exp(step[:, t, :, None] * self.decay) * state + fresh * x[:, t, :, None]
            ys.append((state * c[:, t, None, :]).sum(-1))
        return self.out(torch.stack(ys, 1) * F.silu(gate))


def test_a_scan():
    B, L, D, N = 2, 6, 32, 8
    found = trace(Scan(), f"fp32[{B}, {L}, {D}]")
    assert found.macs() == B * (L * D * 2 * D + (L + 3) * D * 4 + L * D * (2 * N + 1) + L * D * D)
    in_loop = [op for op in found.ops if op.name in ("exp", "mul", "add", "sum")]
    each = 5 * B * D * N + B * N + B * D * N + B * D * (N - 1)  # decay, exp, ·state, ·x, sum; Δ·b; ·c; its sum over n
    assert sum(op.work.total("flops") for op in in_loop) == L * each + B * L * D  # and the gate's product
    assert trace(Scan(), f"fp32[B, {L}, {D}]").macs().subs("B", 2) != 0
    with pytest.raises(ValueError, match=r"test_torch_programs\.py:\d+: L cannot stay open: here "):
        trace(Scan(), f"fp32[B, L, {D}]")


class Attention(nn.Module):
    """Attention written out, for itself or for what an encoder made."""

    def __init__(self, d, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.heads = heads

    def kv(self, memory):
        B, T, _ = memory.shape
        return [f(memory).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.k, self.v)]

    def forward(self, x, k, v):
        B, S, D = x.shape
        q = self.q(x).view(B, S, self.heads, -1).transpose(1, 2)
        return self.o(((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(B, S, D))


class EncoderDecoder(nn.Module):
    """One layer of each, the decoder a step with a cache."""

    def __init__(self, d=64, heads=4):
        super().__init__()
        self.words = nn.Embedding(100, d)
        self.encoder, self.inner, self.cross = (Attention(d, heads) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(d, 128, bias=False), nn.ReLU(), nn.Linear(128, d, bias=False))
        self.head = nn.Linear(d, 100, bias=False)

    def forward(self, ids, token, cache):
        memory = self.words(ids)
        memory = memory + self.encoder(memory, *self.encoder.kv(memory))
        x = self.words(token)
        k, v = (torch.cat(pair, 2) for pair in zip(cache, self.inner.kv(x), strict=True))
        x = x + self.inner(x, k, v)
        x = x + self.cross(x, *self.cross.kv(memory))
        return self.head(x + self.mlp(x))


def test_an_encoder_decoder_with_cross_attention_and_a_cache():
    B, S, C, d = 2, 20, 9, 64
    encoder = 4 * S * d * d + 2 * S * S * d
    step = 4 * d * d + 2 * (C + 1) * d + 2 * d * d + 2 * S * d * d + 2 * S * d + 2 * d * 128 + d * 100
    cache = (f"fp32[{B}, 4, {C}, 16]",) * 2
    found = trace(EncoderDecoder(), f"int64[{B}, {S}]", f"int64[{B}, 1]", cache)
    assert found.macs() == B * (encoder + step)
    opened = trace(EncoderDecoder(), "int64[B, S]", "int64[B, 1]", ("fp32[B, 4, C, 16]",) * 2).macs()
    at = {symbol: {"B": B, "S": S, "C": C}[str(symbol)] for symbol in opened.free_symbols}
    assert opened.subs(at) == found.macs()


class Quantised(nn.Module):
    """An int8 product, then one in fp8."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.zeros(64, 128, dtype=torch.int8))
        self.register_buffer("scale", torch.ones(128, dtype=torch.bfloat16))
        self.register_buffer("second", torch.zeros(32, 128, dtype=torch.float8_e4m3fn))
        self.register_buffer("one", torch.ones(()))

    def forward(self, x):
        whole = (x / x.abs().amax(-1, keepdim=True) * 127).round().to(torch.int8)
        y = F.relu(torch._int_mm(whole, self.first).to(torch.bfloat16) * self.scale).to(torch.float8_e4m3fn)
        return torch._scaled_mm(y, self.second.t(), self.one, self.one, out_dtype=torch.bfloat16)


def test_a_quantised_mlp():
    found = trace(Quantised(), "bf16[32, 64]")
    work = {key.dtype: amount for op in found.ops for key, amount in op.work.items() if key.place == "matrix"}
    assert work == {"int8": 2 * 32 * 64 * 128, "fp8": 2 * 32 * 128 * 32}
    assert {use.dtype for use in found.bound("h100").uses if use.resource == "tensor"} == {"int8", "fp8"}
    assert found.complete


class Bytes(torch.Tensor):
    """A weight of bytes and scales that multiplies in bytes, as torchao's quantised ones do."""

    @staticmethod
    def __new__(cls, held, scale):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=torch.bfloat16, device=held.device)

    def __init__(self, held, scale):
        self.held, self.scale = held, scale

    def __tensor_flatten__(self):
        return ["held", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, facts, size, stride):
        return Bytes(inner["held"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not F.linear:
            return super().__torch_function__(func, types, args, kwargs or {})
        x, weight = args[:2]
        assert x.device == weight.held.device
        made = out_dtype(torch.ops.aten.mm.default, torch.int32, x.round().to(torch.int8), weight.held.t())
        return (made * weight.scale).to(x.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Bytes(args[0].held, args[0].scale)
        raise TypeError(f"{func} of bytes")


def test_weights_of_a_class_of_their_own_multiply_in_their_format():
    model = nn.Linear(64, 128, bias=False)
    weight = Bytes(torch.zeros(128, 64, dtype=torch.int8), torch.zeros(128))
    model.weight = nn.Parameter(weight, requires_grad=False)
    found = trace(model, "bf16[32, 64]")
    work = {key.dtype: amount for op in found.ops for key, amount in op.work.items() if key.place == "matrix"}
    assert work == {"int8": 2 * 32 * 64 * 128}
    assert found.bytes("minimal") == 2 * 32 * 64 + 128 * 64 + 4 * 128 + 2 * 32 * 128
    assert found.parameters() == 128 * 64 + 128
    assert model.weight.held.device.type == "cpu"


def test_names_of_devices_are_of_no_concern():
    programs = [
        lambda x: x.cuda() * 2, lambda x: x.to("cuda:1") * 2, lambda x: x.cpu() * 2, lambda x: x.to(device="cuda") * 2,
        lambda x: x.to(x.device) * 2,
    ]  # fmt: skip
    assert [[op.name for op in trace(program, "fp32[3]").ops] for program in programs] == [["mul"]] * 5
    assert trace(lambda x: torch.zeros(3, device="cuda") + x, "fp32[3]").bytes() == 4 * 12


def test_a_spectrogram_with_its_window():
    found = trace(lambda x: torch.stft(x, 64, return_complex=True, window=torch.hann_window(64)), "fp32[1, 1024]")
    frames = 1 + 1024 // 16
    assert found.complete
    assert sum(op.work.total("flops") for op in found.only(kind="fft").ops) == frames * 5 * 64 * 6 / 2


@pytest.mark.parametrize(
    ("corner", "queries", "keys"),
    [("upper_left", 8, 12), ("upper_left", 12, 8), ("lower_right", 8, 8), ("lower_right", 8, 12)],
)
@pytest.mark.parametrize("inside", [False, True])
def test_causal_biases_of_pytorch_stand_in_their_corner(corner, queries, keys, inside):
    make = getattr(bias, f"causal_{corner}")
    held = make(queries, keys)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=make(queries, keys) if inside else held)

    sizes = [f"bf16[2, 4, {length}, 16]" for length in (queries, keys, keys)]
    seen = torch.ones(queries, keys).tril(keys - queries if corner == "lower_right" else 0).sum().item()
    traced = trace(attend, *sizes)
    assert traced.flops() == 2 * 2 * 4 * seen * (16 + 16)
    assert [op.kind for op in traced.ops] == ["attention"]
    assert "__new__" not in vars(bias.CausalBias)


def test_an_exported_program_is_traced_as_its_module():
    exported = torch.export.export(torch.nn.Linear(4, 6), (torch.zeros(3, 4),))
    assert trace(exported, "fp32[3, 4]").flops() == 2 * 3 * 4 * 6


def test_attention_of_an_exported_program_is_one_operation():
    class Causal(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)

    exported = torch.export.export(Causal(), (torch.zeros(2, 3, 5, 8),))
    assert trace(exported, "fp32[2, 3, 5, 8]").ops[0].kind == "attention"
    assert trace(exported, "fp32[2, 3, 5, 8]").flops() == 4 * 2 * 3 * 15 * 8


def test_writing_into_what_a_program_made_has_a_gradient():
    """A constant keeps its values, unless a gradient goes through what is written into it."""
    layer = nn.Linear(16, 4, bias=False)

    def embedded(x):
        made = torch.zeros(8, 6, device=x.device)
        made[:, 1:5] = layer(x)
        return made

    assert trace(embedded, "fp32[8, 16]", backward=True).macs() == 2 * 8 * 16 * 4
    assert trace(embedded, "fp32[8, 16]").bytes("minimal") == 4 * (8 * 16 + 16 * 4 + 8 * 6)


def test_the_floor_writes_what_is_added_up_once():
    """Sums over the edges of a graph: indices, features, weights, and a result for each node."""
    ends = torch.arange(1000).reshape(2, 500) % 100
    layer = nn.Linear(16, 32, bias=False)

    def passed(x, ends):
        return torch.zeros(100, 32, device=x.device).index_add_(0, ends[1], layer(x)[ends[0]])

    found = trace(passed, "fp32[100, 16]", ends)
    assert found.bytes("minimal") == 4 * (100 * 16 + 16 * 32 + 100 * 32) + 8 * 1000
    assert trace(passed, "fp32[100, 16]", ends, backward=True).macs() == 2 * 100 * 16 * 32


def test_a_tensor_whose_values_are_looked_at_has_them_again_afterwards():
    weight = torch.ones(4, 4, requires_grad=True)

    def program(x):
        with torch.no_grad():
            weight.mul_(0.5)
        weight.data.mul_(0.5)
        return x @ weight if weight.abs().max() < 100 else x

    assert trace(program, "fp32[8, 4]").macs() == 8 * 4 * 4
    assert bool((weight == 1).all())


def test_a_plain_tensor_of_the_caller_has_its_values_again_afterwards():
    layer, factor, place = nn.Linear(4, 4), torch.ones(4), torch.tensor([2, 3])
    layer.scale, layer.counts = torch.ones(4), [torch.zeros(2)]

    def program(x, rows):
        factor.add_(1)
        place[0], rows[1] = 1, 1
        for held in (layer.scale, *layer.counts):
            held += 1
        return x[place, rows] * factor[: place[0]] * layer.scale.sum()

    rows = torch.tensor([0, 0])
    assert trace(program, "fp32[8, 4]", rows).ops
    assert [factor.sum(), layer.scale.sum(), layer.counts[0].sum()] == [4, 4, 0]
    assert (place.tolist(), rows.tolist()) == ([2, 3], [0, 0])

    def replaces(x):
        factor.data = torch.zeros(4)
        layer.scale.resize_(8)
        return x * factor

    assert trace(replaces, "fp32[4]").ops
    assert (factor.tolist(), layer.scale.tolist()) == ([1] * 4, [1] * 4)


def test_every_tensor_that_shares_a_storage_is_given_back_as_it_was():
    held = torch.arange(8.0)
    first, second, third = held[:4], held[4:], held.view(2, 4)

    def replaces(x):
        first.data, second.data = torch.zeros(2), torch.zeros(2)
        third.add_(1).t_()
        return x * second

    assert trace(replaces, "fp32[2]").ops
    assert first.tolist() + second.tolist() == third.flatten().tolist() == list(range(8))
    first[0] = 9  # they share it still
    assert (held[0], third[0, 0], third.shape) == (9, 9, (2, 4))


def test_a_program_looks_at_values_of_a_tensor_and_works_out_its_gradient():
    weight, other = torch.ones(4, requires_grad=True), nn.Parameter(torch.ones(4))

    def looks(x):
        return (x * weight).sum() if weight.sum() > 0 and weight[0].item() == 1 else x.sum()

    def learns(x):
        loss = (x * weight * weight.max().item()).sum()
        loss.backward()
        return weight.grad

    def descends(x):
        for _ in range(10):
            loss = ((other - 1) ** 2).sum()
            if loss.item() < 1e-3:
                return x * other
            loss.backward()
        return x

    assert trace(looks, "fp32[4]", input_gradients=True).bytes("minimal") == 4 * (4 * 4 + 1)
    assert [op.name for op in trace(learns, "fp32[4]").ops][-2:] == ["mul", "mul"]
    assert [op.name for op in trace(descends, "fp32[4]").ops] == ["sub", "pow", "sum", "mul"]
    assert (weight.grad, other.grad) == (None, None)
    with pytest.raises(InputError, match="asks for the value"):
        trace(lambda x: x * weight if (x * weight).sum() > 0 else x, "fp32[4]")

    def changes(x):
        with torch.no_grad():
            weight.mul_(x)
        return x * weight if weight.sum() > 0 else x

    with pytest.raises(InputError, match="asks for the value"):
        trace(changes, "fp32[4]")


@pytest.mark.filterwarnings("ignore")
def test_a_function_of_a_tensor_from_outside_is_linearized():
    weight = torch.rand(8, 8)
    found = trace(lambda x: torch.func.linearize(lambda v: torch.tanh(v @ weight), x)[1](x), "fp32[8, 8]")
    assert found.complete
    assert found.macs() >= 2 * 8**3


def test_distributions_do_not_look_at_values():
    layer = nn.Linear(64, 32, bias=False)

    def loss(x):
        mean, spread = layer(x), F.softplus(layer(x))
        given = torch.distributions.Normal(mean, spread)
        wanted = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
        drawn = torch.distributions.Beta(spread, spread).rsample()
        return torch.distributions.kl_divergence(given, wanted).sum() + given.rsample().sum() + drawn.sum()

    validates = torch.distributions.Distribution._validate_args
    found = trace(loss, "fp32[8, 64]")
    assert found.complete
    assert found.macs() == 2 * 8 * 64 * 32
    assert torch.distributions.Distribution._validate_args is validates
    assert trace(lambda x, y, v: F.gaussian_nll_loss(x, y, v), *("fp32[8, 64]",) * 3).complete


def test_a_trace_on_a_machine_is_its_time_there():
    layer = nn.Linear(64, 32)
    found, apart = trace(layer, "fp32[8, 64]", on="h100", policy="minimal"), trace(layer, "fp32[8, 64]")
    assert found.to_dict() == apart.bound("h100", policy="minimal").to_dict()
    assert trace(layer, "fp32[8, 64]", on="h100", estimate=True).expectation is not None


class _Block(nn.Module):
    """Attention by matmul and softmax in its own ``forward``, beside two children."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        return x + self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


@pytest.mark.parametrize("on", [None, "h100", "h100,l4"])
def test_rows_under_a_module_add_up_to_it(on):
    program = trace(nn.Sequential(_Block(), nn.Linear(32, 8)), torch.empty(2, 16, 32))
    roofs = {name: program.bound(on=name) for name in on.split(",")} if on else {}
    [table] = [each for each in program.sections(under=roofs) if getattr(each, "name", "") == "modules"]
    for path in ("Sequential", "0"):
        at = next(i for i, row in enumerate(table.rows) if row.cells[0] == path)
        above = table.rows[at]
        below = []
        for row in table.rows[at + 1 :]:
            if row.level <= above.level:
                break
            below += [row] if row.level == above.level + 1 else []
        assert below
        for column, cell in enumerate(above.cells):
            if isinstance(cell, Amount):
                parts = [row.cells[column] for row in below]
                added = sum(part.value for part in parts if isinstance(part, Amount))
                assert added == pytest.approx(cell.value), table.columns[column].name
    own = next(row for row in table.rows if row.cells[0] == "its own operations")
    assert own.level == 2
    assert [row.cells[0] for row in table.rows].count("its own operations") == 1


class Attends(nn.Module):
    """A projection, attention and a residual in one forward."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(64, 64)

    def forward(self, x):
        return x + self.out(nn.functional.scaled_dot_product_attention(x, x, x))


def test_attention_that_a_module_computes_itself_has_a_row_of_its_own():
    program = trace(Attends(), torch.empty(8, 4, 128, 64))
    [table] = [each for each in program.sections() if getattr(each, "name", "") == "modules"]
    flops = {str(row.cells[0]): next(c.value for c in row.cells if isinstance(c, Amount) and c.unit == "FLOP")
             for row in table.rows if row.cells[0] != "its own operations"}  # fmt: skip
    assert flops["its own attention"] == 4 * 8 * 4 * 128 * 128 * 64  # two products for each of 8 x 4 heads
    assert "its own operations" in [row.cells[0] for row in table.rows]
    assert flops["Attends"] == flops["its own attention"] + flops["out"]


def test_views_alone_and_a_module_without_others_have_no_row_of_their_own():
    program = trace(nn.Sequential(nn.Flatten(0, 1), nn.Linear(32, 8)), torch.empty(2, 16, 32))
    assert "its own operations" not in str(program)


def test_gradients_of_tensors_that_a_function_refers_to():
    linear, weight, leaf = torch.nn.Linear(64, 32), torch.randn(64, 32), torch.randn(64, 32, requires_grad=True)
    parameters = dict(linear.named_parameters())

    def loss(given, x):
        return (torch.func.functional_call(linear, given, (x,)) ** 2).sum()

    def by_graph(x):
        return torch.autograd.grad(((x @ leaf) ** 2).sum(), leaf)

    def by_call(x):
        ((x @ leaf) ** 2).sum().backward()
        return leaf.grad

    grad, x, w, bias = torch.func.grad, 8 * 64, 64 * 32, 32
    programs = [
        (by_graph, x + 2 * w),
        (by_call, x + 2 * w),
        (lambda x: grad(lambda w: ((x @ w) ** 2).sum())(weight), x + 2 * w),
        (lambda x: torch.func.vjp(lambda w: x @ w, weight)[1](x @ weight), x + 2 * w),
        (lambda x: grad(loss)(parameters, x), x + 2 * (w + bias)),
        (lambda x: torch.func.vmap(grad(loss), (None, 0))(parameters, x), x + 9 * (w + bias)),
    ]
    for program, elements in programs:
        found = trace(program, "fp32[8, 64]")
        assert found.bytes("minimal") == 4 * elements
        assert found.macs() >= 2 * 8 * 64 * 32
    assert leaf.grad is None
    assert leaf.device.type == "cpu"


def test_gradients_with_respect_to_parameters_that_a_function_refers_to():
    """A step reads each parameter once; an ensemble has a gradient for each of its models."""
    func, layer = torch.func, nn.Linear(8, 4)
    parameters, size, moved = dict(layer.named_parameters()), 8 * 4 + 4, 3 * 8 + 3 * 4

    def loss(held, x, y):
        return F.mse_loss(func.functional_call(layer, held, (x,)), y)

    def step(x, y):
        gradients = func.grad(loss)(parameters, x, y)
        return [held - 0.1 * gradients[name] for name, held in parameters.items()]

    inputs = ("fp32[3, 8]", "fp32[3, 4]")
    assert trace(step, *inputs).bytes("minimal") == 4 * (moved + 2 * size)
    together, _ = func.stack_module_state([nn.Linear(8, 4) for _ in range(5)])
    found = trace(lambda x, y: func.vmap(func.grad(loss), (0, None, None))(together, x, y), *inputs)
    assert found.bytes("minimal") == 4 * (moved + 5 * 2 * size)
    assert found.flops() == 5 * 2 * 2 * 3 * 8 * 4


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("leaf", [torch.ones(64, 32, requires_grad=True), nn.Parameter(torch.ones(64, 32))])
def test_functions_that_refer_to_a_tensor_with_a_gradient_are_transformed(leaf):
    def product(x):
        return x @ leaf

    def loss(x):
        return product(x).sum()

    func, moved = torch.func, 4 * (8 * 64 + 64 * 32)
    programs = [
        (func.grad(loss), moved + 4 * 8 * 64),
        (func.vmap(product), moved + 4 * 8 * 32),
        (func.vmap(func.grad(loss)), moved + 4 * 8 * 64),
        (lambda x: func.jvp(product, (x,), (x,))[1], moved + 4 * 8 * 32),
        (lambda x: func.vjp(product, x)[1](product(x))[0], moved + 4 * 8 * 64),
    ]
    for program, most in programs:
        assert 0 < trace(program, "fp32[8, 64]").bytes("minimal") <= most
    plain = leaf.detach()
    for transform in (func.jacfwd, func.jacrev, func.hessian):
        of_leaf, of_plain = (trace(transform(lambda x, w=w: (x @ w).sum(0)), "fp32[2, 64]") for w in (leaf, plain))
        assert of_leaf.bytes("minimal") == of_plain.bytes("minimal")


def test_much_is_not_worked_out_of_a_tensor_with_a_gradient(monkeypatch):
    monkeypatch.setattr(recorder, "LARGEST_CONSTANT", 20_000)
    monkeypatch.setattr(recorder, "_MOST_WORK", 10_000)
    table = torch.arange(2048.0, requires_grad=True)  # 8 KB
    assert trace(lambda x: x * 2 if (table * 2).sum() > 0 else x, "fp32[8]").ops[-1].name == "mul"
    programs = [
        lambda x: x if table.repeat(3).sum() > 0 else x * 2,
        lambda x: x if [table + 1, table + 2, (table + 3).sum()][-1] > 0 else x * 2,
        lambda x: x if (table.view(64, 32) @ table.view(32, 64)[:, :4]).sum() > 0 else x * 2,
    ]
    for program in programs:
        with pytest.raises(InputError, match="asks for the value"):
            trace(program, "fp32[8]")


def test_values_of_a_tensor_with_a_gradient_that_a_function_refers_to_are_known():
    count, table = torch.tensor(3.0, requires_grad=True), torch.arange(-2.0, 6.0, requires_grad=True)
    weight = torch.randn(64, 32, requires_grad=True)

    def learns(x):
        ((x * count.item()) @ weight).sum().backward()
        return weight.grad

    def rows(x):
        return x[: int(count.data)] * 2

    programs = [
        (lambda x: x[: int(count.item())] * 2, 3 * 64 * 2),
        (rows, 3 * 64 * 2),
        (lambda x: x * float(count.detach()), 8 * 64 * 2),
        (lambda x: x[: len(table.tolist())] * 2, 8 * 64 * 2),
        (lambda x: x[: int(table.detach().numpy()[7])] * 2, 5 * 64 * 2),
        (lambda x: x @ weight if weight.abs().max() < 100 else x, 8 * 64 + 64 * 32 + 8 * 32),
        (lambda x: x * complex(count.detach()).real if torch.equal(count, count) else x @ weight, 8 * 64 * 2 + 1),
        (lambda x: x * float(f"{count.detach():.1f}") if torch.allclose(table, table) else x @ weight, 8 * 64 * 2 + 8),
        (lambda x: x * 2 if torch.is_nonzero(count.sum()) else x @ weight, 8 * 64 * 2 + 1),
        (learns, 8 * 64 + 64 * 32 + 64 * 32),
    ]
    for program, elements in programs:
        assert trace(program, "fp32[8, 64]").bytes("minimal") == 4 * elements
    assert trace(lambda x: x[table > 0], "fp32[8, 64]").ops[-1].writes[0].elements == 5 * 64
    assert weight.grad is None
    with pytest.raises(InputError, match="asks for the value"):
        trace(lambda x: x * count.item() if x.sum() > 0 else x @ weight, "fp32[8, 64]")


def test_tokens_of_each_expert_are_counted_and_multiplied_in_groups():
    """Every token goes through two of four experts, whose rows lie behind each other."""

    def experts(x, gate, up):
        chosen = (x @ gate).topk(2).indices.flatten()
        order = chosen.argsort()
        ends = torch.bincount(chosen, minlength=4).cumsum(0).to(torch.int32)
        return torch._grouped_mm(x[order // 2], up, offs=ends)

    found = trace(experts, "bf16[6, 8]", "bf16[8, 4]", "bf16[4, 8, 16]")
    assert found.macs() == 6 * 8 * 4 + 2 * 6 * 8 * 16
    assert found.bytes("minimal") == 2 * (6 * 8 + 8 * 4 + 4 * 8 * 16 + 12 * 16)
    assert found.assumptions == ("bincount(minlength=4) meets no value above 3",)
    summed = trace(lambda x, of: torch.bincount(x, of, minlength=4), "int64[6]", "fp32[6]")
    assert summed.bytes() == 6 * 8 + 6 * 4 + 4 * 4
    with pytest.raises(InputError, match="the shape of the result of bincount depends on values"):
        trace(torch.bincount, "int64[6]")


def test_a_tensor_of_one_number_is_an_argument_of_the_program():
    def program(x, slope, chosen=None, facts=None, kind="reflect"):
        assert all(isinstance(each, torch.Tensor) for each in (slope, chosen, facts["step"]))
        return F.pad(F.prelu(x, slope) * facts["step"], (1, 1), kind)

    given = {"chosen": torch.tensor(True), "facts": {"step": torch.tensor(2.0)}}
    found = trace(program, "fp32[3, 8]", torch.tensor(0.1), kwargs=given)
    assert found.bytes("minimal") == 4 * (24 + 1 + 1 + 30)
    by_name = trace(program, inputs=["fp32[3, 8]", torch.tensor(0.1)], kwargs=given | {"kind": "replicate"})
    assert [op.name for op in by_name.ops][-1] == "replication_pad1d"


def test_margins_and_pools_at_random_have_gradients():
    labels = torch.zeros(10, dtype=torch.long)
    step = trace(lambda x: F.multi_margin_loss(x, labels), "fp32[10, 5]", input_gradients=True)
    assert (step.complete, step.bytes("minimal")) == (True, 4 * (50 + 50 + 1) + 8 * 10)
    several = trace(F.multilabel_margin_loss, "fp32[10, 5]", labels[:, None].repeat(1, 5), input_gradients=True)
    assert (several.complete, several.bytes("minimal")) == (True, 4 * (50 + 50 + 1) + 8 * 50)
    pool = trace(lambda x: F.fractional_max_pool3d(x, 2, output_size=2), "fp32[2, 3, 5, 5, 5]", input_gradients=True)
    assert pool.only(name="fractional_max_pool3d_backward").ops[0].writes[0].elements == 6 * 125
