"""What goes wrong, and what is said about it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from roofline.errors import InputError, MissingExtraError, NotationError, RooflineError, SizeError
from roofline.programs import trace
from roofline.programs.api import FRONT_ENDS, FrontEnd, front_end


def _branches(x):
    if x.sum() > 0:
        return x
    return -x


def _wider(x):
    return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, x)


CASES = [
    (_branches, ["fp32[4]"], r"test_torch_messages\.py:1\d: the program asks for the value of a tensor .*only shapes"),
    (lambda x: float(x.mean()), ["fp32[4]"], "asks for the value of a tensor .* pass the value as a Python number"),
    (lambda x: x.nonzero(), ["fp32[4]"], "the shape of the result of nonzero depends on values"),
    (lambda x: x[x > 0], ["fp32[4]"], "the shape of the result of index depends on values"),
    (nn.Linear(4, 5), ["fp32[3, 7]"], r"addmm\(fp32\[5\], fp32\[3, 7\], fp32\[4, 5\]\) fails: a and b must have same"),
    (nn.Conv2d(3, 8, 3), ["fp32[1, 4, 8, 8]"], r"convolution\(fp32\[1, 4, 8, 8\].*check the shapes of the inputs"),
    (nn.Linear(4, 5), [], r"the program fails on shapes alone: TypeError: .*missing 1 required positional argument"),
    (lambda x: x.nope(), ["fp32[3]"], r"test_torch_messages\.py:\d+: .*AttributeError: 'Tensor' object has no"),
    (torch.add, ["fp32[3]", "fp32[4]"], "The size of tensor a|must match|broadcast"),
    (nn.Embedding(8, 8), ["mxfp4[3]"], "torch has no dtype for mxfp4; it has fp64"),
    (
        torch.exp,
        [f"fp32[{2**62}, {2**62}]"],
        "is too large for torch: RuntimeError: Storage size .*; give smaller sizes",
    ),
    (lambda x: x.tolist(), ["fp32[3]"], "fails on shapes alone: .*; it asks for the values of a tensor: trace what is"),
    (lambda x: x.numpy(), ["fp32[3]"], r"test_torch_messages\.py:\d+: .*it asks for the values of a tensor"),
    (
        lambda x: torch.autograd.grad(x.sum(), x),
        ["fp32[3]"],
        r"does not require grad .*; ask for gradients with backward=True, or begin with x.requires_grad_\(\)",
    ),
    (
        nn.Linear(4, 5),
        ["bf16[2, 4]"],
        r"operands of different dtypes; give the inputs the dtype of the weights, as in fp32\[2, 4\]",
    ),
    (
        nn.Conv2d(3, 8, 3),
        ["bf16[1, 3, 8, 8]"],
        r"should be the same; the model is fp32: give the inputs as fp32\[...\], or return model.to\(torch.bfloat16\)",
    ),
    (
        nn.Linear(4, 5),
        ["fp32[2, 4]", "fp32[2]"],
        "but 3 were given; give one input for each argument",
    ),
    (nn.LSTM(3, 4), ["fp32[2, 5]"], "Expected 3, got 5; check the inputs' shapes"),
    (_wider, ["int16[3, 3]"], "higher-order operation out_dtype has no rule"),
    (lambda x: x.to_sparse() @ x, ["fp32[3, 3]"], "the shape of the result of _to_sparse depends on values"),
    (lambda x: torch._cslt_compress(x), ["fp32[9]"], r"_cslt_compress\(fp32\[9\]\) fails: .*register one"),
    (lambda x: x * 2, ["int64[3]"], None),
]


@pytest.mark.parametrize(("program", "inputs", "message"), CASES)
def test_message(program, inputs, message):
    if message is None:
        assert trace(program, *inputs).ops
        return
    with pytest.raises(InputError, match=message):
        trace(program, *inputs)
    assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0


def test_inputs_are_read_as_the_notation_reads_them():
    assert trace(nn.ReLU(), "bf16[B, 8]", sizes={"B": 4}).inputs == ("bf16[4, 8]",)
    with pytest.raises(SizeError, match="size B is 0; a size is a whole number of at least 1"):
        trace(nn.ReLU(), "bf16[B, 8]", sizes={"B": 0})
    with pytest.raises(NotationError, match="an input names its dtype"):
        trace(nn.ReLU(), "x[3, 8]")
    for bare in ("3x8", "(3, 8)", "[3,8]", "3,8"):
        with pytest.raises(NotationError, match=r"an input names its dtype; as in 'bf16\[3, 8\]'"):
            trace(nn.ReLU(), bare)
    with pytest.raises(NotationError, match="an input is one tensor"):
        trace(nn.ReLU(), "bf16[3, 8] * bf16[8, 4]")
    with pytest.raises(RooflineError, match="did you mean 'bf16'"):
        trace(nn.ReLU(), "bf61[3, 8]")


def test_backward_needs_something_to_differentiate():
    said = "nothing that came out requires a gradient; trace without backward, or with input_gradients=True"
    with pytest.raises(InputError, match=said):
        trace(torch.relu, "fp32[3]", backward=True)
    with pytest.raises(InputError, match="unknown optimizer 'adamv'; did you mean 'adam'"):
        trace(nn.Linear(3, 3), "fp32[2, 3]", optimizer="adamv")
    with pytest.raises(InputError, match="there are no parameters to optimise"):
        trace(nn.ReLU(), "fp32[2, 3]", optimizer="sgd")


def test_gradients_of_inputs_are_those_of_an_input_that_asks_for_one():
    conv, x = nn.Conv2d(64, 128, 3, padding=1), torch.empty(2, 64, 14, 14, requires_grad=True)
    asked, own, first = (
        trace(conv, *inputs, backward=True, **more)
        for inputs, more in ((["fp32[2, 64, 14, 14]"], {"input_gradients": True}), ([x], {}), ([x.detach()], {}))
    )
    assert asked.flops() == own.flops() == 3 * trace(conv, "fp32[2, 64, 14, 14]").flops()
    assert first.flops() * 3 == asked.flops() * 2
    said = "no gradient of the inputs is counted, as of a first layer; input_gradients=True counts it too"
    assert [said in found.assumptions for found in (asked, own, first)] == [False, False, True]
    assert said not in trace(nn.Embedding(10, 4), "int32[3]", backward=True).assumptions
    with pytest.raises(InputError, match="input_gradients= is for torch; backward=True of JAX has it"):
        trace(lambda x: x, "fp32[3]", frontend="jax", input_gradients=True)


def test_what_cannot_be_traced():
    with pytest.raises(InputError, match="an int cannot be traced; give a module, a function, or the path"):
        trace(3, "fp32[3]")
    with pytest.raises(InputError, match=r"'model\.pt' is not an ONNX file"):
        trace("model.pt")
    with pytest.raises(InputError, match="unknown front end 'pytorch'; did you mean 'torch'"):
        trace(nn.ReLU(), "fp32[3]", frontend="pytorch")


def test_a_missing_library_names_its_extra(monkeypatch):
    monkeypatch.setitem(
        FRONT_ENDS, "torch", FrontEnd("torch_that_is_not_there", "torch", "roofline.programs.pytorch.trace")
    )
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[torch\]'"):
        front_end("torch")


def test_an_operation_that_knows_no_shapes_names_itself():
    with torch.library._scoped_library("roofline_test", "DEF") as library:
        library.define("shapeless(Tensor x) -> Tensor")
        library.impl("shapeless", lambda x: x.clone(), "CPU")
        with pytest.raises(InputError, match=r"shapeless\(fp32\[3\]\) fails: .*register_fake"):
            trace(torch.ops.roofline_test.shapeless, "fp32[3]")


def test_an_operation_of_the_users_own_is_a_gap():
    with torch.library._scoped_library("roofline_test", "DEF") as library:
        library.define("own(Tensor x) -> Tensor")
        library.impl("own", lambda x: torch.empty_like(x), "Meta")
        traced = trace(torch.ops.roofline_test.own, "fp32[3]")
    assert [(gap.name, gap.bytes) for gap in traced.listed_gaps()] == [("roofline_test.own", 24)]


def test_one_input_alone_is_no_list_of_inputs():
    for alone in ("fp32[3, 4]", torch.zeros(3, 4), ["fp32[3, 4]"], ("fp32[3, 4]",)):
        assert trace(nn.Linear(4, 5), inputs=alone).flops() == trace(nn.Linear(4, 5), "fp32[3, 4]").flops()
