"""Operations of torchvision, which need not be installed: its schemas stand here, costs are counted in loops."""

from __future__ import annotations

import pytest
import torch

from roofline.programs import trace
from roofline.sizes import symbol

_WINDOW = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
SCHEMAS = {
    "deform_conv2d": f"(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_WINDOW}) -> Tensor",
    "_deform_conv2d_backward": "(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{_WINDOW}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
}


def _convolved(x, weight, offset, mask, bias, *window):
    return x.new_empty((x.shape[0], weight.shape[0], *offset.shape[2:]))


def _gradients(grad, *tensors_and_window):
    return tuple(torch.empty_like(tensor) for tensor in tensors_and_window[:5])


def _regions(x, rois, scale, height, width, ratio, aligned):
    return x.new_empty((rois.shape[0], x.shape[1], height, width))


@pytest.fixture(autouse=True)
def vision():
    """torchvision's operations: its own, or their schemas and shapes for as long as a test runs."""
    if hasattr(torch.ops.torchvision, "deform_conv2d"):
        yield
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for (name, schema), shapes in zip(SCHEMAS.items(), (_convolved, _gradients, _regions), strict=True):
        library.define(name + schema)
        library.impl(name, shapes, "Meta")
    yield
    library._destroy()


def _inputs(batch, channels, out, taps, rows, columns, groups):
    dims = {
        "x": (batch, channels, 9, 11),
        "w": (out, channels // groups, taps, taps),
        "offset": (batch, 2 * taps * taps, rows, columns),
        "mask": (batch, taps * taps, rows, columns),
        "bias": (out,),
    }
    return [f"fp32[{', '.join(map(str, sizes))}]" for sizes in dims.values()]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("batch", "channels", "out", "taps", "groups"), [(2, 4, 6, 3, 1), (1, 6, 4, 2, 2)])
def test_deformed_convolutions(batch, channels, out, taps, groups, masked):
    rows, columns = 5, 7
    window = (2, 2, 1, 1, 1, 1, groups, 1, masked)
    given = _inputs(batch, channels, out, taps, rows, columns, groups)
    found = trace(lambda *tensors: torch.ops.torchvision.deform_conv2d(*tensors, *window), *given)
    macs = mixed = 0
    for _ in range(batch * rows * columns):
        for _ in range(taps * taps):
            macs += out * channels // groups
            mixed += channels * (4 * 2 + masked)  # four neighbours, each times its part and added
    results = batch * out * rows * columns
    assert found.complete
    assert found.macs() == macs
    assert found.flops("all") == 2 * macs + mixed + results
    read = {t.dims for op in found.ops for t in op.reads}
    assert ((batch, taps * taps, rows, columns) in read) is masked
    grad = f"fp32[{batch}, {out}, {rows}, {columns}]"
    back = trace(lambda *tensors: torch.ops.torchvision._deform_conv2d_backward(*tensors, *window), grad, *given)
    assert back.complete
    assert back.macs() == 2 * macs


@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_regions_of_an_image(ratio):
    places = "fp32[2, 8, 32, 32]", "fp32[10, 5]"
    found = trace(lambda x, r: torch.ops.torchvision.roi_align(x, r, 1.0, 7, 5, ratio, False), *places)
    assert found.flops("all") == sum((4 * 2 + 1) * ratio * ratio for _ in range(10 * 8 * 7 * 5))
    assert found.complete


def test_regions_that_say_how_much_is_looked_at_are_a_gap():
    places = "fp32[2, 8, 32, 32]", "fp32[10, 5]"
    (gap,) = trace(lambda x, r: torch.ops.torchvision.roi_align(x, r, 1.0, 7, 5, -1, False), *places).listed_gaps()
    assert (gap.name, gap.reason) == ("torchvision.roi_align", "how many places are looked at depends on the regions")


def test_a_part_of_a_gated_tensor_reads_both_halves_of_it_of_open_sizes_too():
    def two_columns(x):
        return torch.nn.functional.glu(x)[:, :2].clone()

    assert trace(two_columns, "fp32[64, 256]").bytes("minimal") == 4 * 64 * (2 * 2 + 2)
    moved = trace(two_columns, "fp32[B, 256]").bytes("minimal")
    assert moved.subs(dict.fromkeys(moved.free_symbols, 64)) == 4 * 64 * (2 * 2 + 2)


def test_rows_of_a_gated_tensor_whose_gated_size_is_open_are_both_halves_of_them():
    moved = trace(lambda x: torch.nn.functional.glu(x)[:4], "fp32[64, F]").bytes("minimal")
    assert moved.subs(dict.fromkeys(moved.free_symbols, 256)) == 4 * 4 * (256 + 128)
    assert trace(lambda x: torch.nn.functional.glu(x, 0)[2:4], "fp32[64, F]").bytes("minimal") == 4 * 6 * symbol("F")
