"""The published cases of JAX's own roofline tests, each under the convention it states; loops and branches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from roofline.ops.counting import CONVENTIONS, Convention, one_each, valid_macs
from roofline.programs import trace as trace_any
from roofline.work import Op
from tests.programs.counter_cases import CONTROL_FLOW, EXCEPTED, JAX, SUSPECT
from tests.strategies import for_each

MESH = AbstractMesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)


def trace(function: Any, *inputs: Any, **options: Any) -> Any:
    return trace_any(function, *inputs, frontend="jax", **options)


def as_jax(op: Op) -> Any:
    """2 per multiply-add that meets an element, 1 for every element of everything else; conversions are free."""
    return 2 * valid_macs(op) + one_each(op)


@contextmanager
def convention(count: Any) -> Iterator[str]:
    CONVENTIONS["of the test"] = Convention(count, count.__doc__)
    try:
        yield "of the test"
    finally:
        del CONVENTIONS["of the test"]


def _shapes(case: dict[str, Any]) -> list[Any]:
    kinds = {"float": "float32", "int": "int32"}
    return [jax.ShapeDtypeStruct(s["shape"], kinds.get(s["dtype"], s["dtype"])) for s in case["shapes"]]


def _printed(text: str, name: str) -> Any:
    """One parameter of a printed primitive."""
    return eval(re.search(rf"\b{name}=(\S[^\n]*)", text)[1], {"None": None})


def _conv(case: dict[str, Any]) -> Any:
    text = case["op"]
    options = {name: _printed(text, name) for name in ("batch_group_count", "feature_group_count", "lhs_dilation",
                                                       "rhs_dilation", "padding", "window_strides")}  # fmt: skip
    numbers = re.search(r"lhs_spec=(\([^)]*\)), rhs_spec=(\([^)]*\)), out_spec=(\([^)]*\))", text)
    specs = lax.ConvDimensionNumbers(*(eval(word) for word in numbers.groups()))
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=specs, **options)


UNARY = {"acos": lax.acos, "asin": lax.asin, "atan": lax.atan, "ceil": lax.ceil, "conj": lax.conj, "cos": lax.cos,
         "exp": lax.exp, "floor": lax.floor, "imag": lax.imag, "is_finite": lax.is_finite, "log": lax.log,
         "log1p": lax.log1p, "logistic": lax.logistic, "real": lax.real, "rsqrt": lax.rsqrt, "sinh": lax.sinh,
         "sqrt": lax.sqrt, "tan": lax.tan, "bessel_i0e": lax.bessel_i0e, "bessel_i1e": lax.bessel_i1e,
         "digamma": lax.digamma, "erf_inv": lax.erf_inv, "erf": lax.erf, "erfc": lax.erfc,
         "integer_pow": lambda x: lax.integer_pow(x, 5)}  # fmt: skip

BINARY = {"ge": jnp.greater_equal, "add": jnp.add, "le": jnp.less_equal, "gt": jnp.greater, "eq": jnp.equal,
          "div": jnp.divide, "or": jnp.bitwise_or, "xor": jnp.bitwise_xor, "and": jnp.bitwise_and,
          "sub": jnp.subtract, "mul": jnp.multiply, "lt": jnp.less, "min": jnp.minimum, "max": jnp.maximum}  # fmt: skip


def _primitive(case: dict[str, Any]) -> str:
    """The last primitive of a printed jaxpr."""
    return re.findall(r"= ([\w-]+)", case["jaxpr"])[-1]


def _unary(case: dict[str, Any]) -> Any:
    return UNARY["integer_pow" if "integer_pow" in case["op"] else case["op"]]


def _example(x: Any) -> Any:
    return jnp.sin(x) + x**2


@jax.custom_jvp
def _custom(x: Any) -> Any:
    return _example(x)


@_custom.defjvp
def _custom_jvp(primals: Any, tangents: Any) -> Any:
    return _custom(*primals), tangents[0]


_fake = jax.extend.core.Primitive("fake_jax_primitive")
_fake.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))

_ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)


def _scatter(case: dict[str, Any]) -> Any:
    name = _primitive(case) if "[]. let c" in case["op"] else re.search(r"d:f32\[3,3\] = ([\w-]+)", case["op"])[1]
    if not name.startswith("scatter"):
        return BINARY[name]
    function = getattr(lax, name.replace("-", "_"))
    return lambda x, i, u: function(x, i, u, _ROWS)


def _scatter_apply(case: dict[str, Any]) -> Any:
    if len(case["shapes"]) == 2:
        return lambda a, b: _example(a)
    return lambda x, i, u: lax.scatter_apply(
        x, i, _example, _ROWS, update_shape=u.shape, mode="promise_in_bounds", indices_are_sorted=True
    )


def _gather(case: dict[str, Any]) -> Any:
    rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    mode = case["test"].removeprefix("test_gather_roofline_")
    return lambda x, i: lax.gather(x, i, rows, (1, 3), mode={"fill_or_drop": "fill"}.get(mode, mode))


def _callback(case: dict[str, Any]) -> Any:
    if "pure" in case["test"]:
        return lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    from jax.experimental import io_callback

    return lambda x: io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _debug(case: dict[str, Any]) -> Any:
    def run(x: Any) -> Any:
        jax.debug.callback(lambda value: None, x)
        return x

    return run


@jax.jit
def _g(x: Any, y: Any) -> Any:
    return y * x


def _collective(case: dict[str, Any]) -> Any:
    def matmul_psum(a: Any, b: Any) -> Any:
        return lax.psum(a @ b, ("x", "y"))

    def collective_matmul(a: Any, b: Any, c: Any) -> Any:
        a = lax.all_gather(a, "x", axis=1, tiled=True)
        ab = jnp.einsum("bij,jbk->ikb", a[None, :, :], b[:, None, :]).astype(jnp.int8)[..., 0]
        abc = jnp.einsum("ik,kc->ic", ab, c).astype(jnp.int8)
        return lax.psum_scatter(abc, "x", scatter_dimension=1, tiled=True)

    function = {"matmul_psum": matmul_psum, "collective_matmul": collective_matmul}[case["op"]]
    specs = [eval(case[name], {"P": P}) for name in ("in_specs", "out_specs")]
    return jax.shard_map(function, mesh=MESH, in_specs=specs[0], out_specs=specs[1])


RUNNERS: dict[str, Any] = {
    "test_conv_general_dilated": _conv,
    "test_unary_ops": _unary,
    "test_binary_ops": lambda case: BINARY[_primitive(case)],
    "test_broadcast": lambda case: jnp.add,
    "test_random": lambda case: lambda key: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(key)))[0],
    "test_dot_general": lambda case: jnp.matmul,
    "test_reduce_sum_no_axis": lambda case: jnp.sum,
    "test_reduce_sum_with_axis": lambda case: lambda x: jnp.sum(x, 0),
    "test_scatter_apply": _scatter_apply,
    "test_scatter": _scatter,
    "test_gather": _gather,
    "test_callback": _callback,
    "test_debug": _debug,
    "test_custom_jvp_call_p_roofline_with_neg": lambda case: lambda x: -_custom(x),
    "test_custom_jvp": lambda case: _custom,
    "test_primitive_with_no": lambda case: lambda x: _fake.bind(x),
    "test_nested": lambda case: lambda x, y: _g(x, y) + _g(x, x),
    "test_matmul_psum": _collective,
    "test_collective_matmul": _collective,
}

#: Primitives that JAX's tool has no rule for, whose bytes it counts as nothing.
WITHOUT_RULE = ("cast", "slice", "random_split", "fake_jax_primitive")


def bytes_as_jax(traced: Any) -> Any:
    """Operands and results of every primitive that JAX's tool has a rule for, and no collective."""
    counted = [op for op in traced.ops if op.kind != "collective" and op.name not in WITHOUT_RULE]
    return sum(op.repeat * t.traffic_bytes for op in counted
               for t in {t.ident: t for t in (*op.reads, *op.writes)}.values())  # fmt: skip


def _function(case: dict[str, Any]) -> Any:
    (name,) = [max((n for n in RUNNERS if case["test"].startswith(n)), key=len)]
    return RUNNERS[name](case)


@for_each("case", JAX, ids=lambda c: f"{c['number']}-{c['test']}")
def test_case_of_jax(case):
    traced = trace(_function(case), *_shapes(case))
    with convention(as_jax) as name:
        assert traced.flops(name) == case["expected_flops"]
    assert (bytes_as_jax(traced) == case["expected_bytes"]) == (case["number"] not in EXCEPTED)
    sent = sum(op.work.total("wire") for op in traced.collectives())
    assert sent == sum(case["expected_ici_bytes"].values())
    assert traced.complete == (case["test"] not in GAPS)


def _by_rule(jaxpr: Any) -> int:
    """JAX's rules written out: a scatter is three times its updates and the indices, all else operands and results."""
    total = 0
    for eqn in jaxpr.eqns:
        if "jaxpr" in eqn.params:
            total += _by_rule(eqn.params["jaxpr"].jaxpr)
            continue
        sizes = [var.aval.size * var.aval.dtype.itemsize for var in (*eqn.invars, *eqn.outvars)]
        if eqn.primitive.name == "scatter":
            total += 3 * sizes[2] + sizes[1]
        elif eqn.primitive.name != "broadcast_in_dim":
            total += sum(sizes)
    return total


@pytest.mark.parametrize(
    ("number", "again"),
    [
        (71, 2 * 3 * 4),  # updates [2, 3] of one constant
        (97, 11 * 4 * 4),  # the second time that g(e, e) gives e
        (112, 2 * 3 * 4),  # the two rows that are replaced
    ],
)
def test_both_numbers_of_an_excepted_case(number, again):
    (case,) = [c for c in JAX if c["number"] == number]
    function = _function(case)
    assert _by_rule(jax.make_jaxpr(function)(*_shapes(case)).jaxpr) == case["expected_bytes"]
    assert bytes_as_jax(trace(function, *_shapes(case))) == case["expected_bytes"] - again


#: What JAX counts as nothing is a gap here.
GAPS = ("test_primitive_with_no_roofline_rule_contributes_nothing", "test_callback_with_output_roofline_pure_callback",
        "test_callback_with_output_roofline_io_callback")  # fmt: skip


def test_trap_of_the_branch_and_the_loop():
    (case,) = [c for c in CONTROL_FLOW if c["test"] == "while/cond"]
    x = jax.ShapeDtypeStruct(case["shapes"][0], "float32")

    def branch(x):
        return lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x, x)

    def loop(x):
        return lax.while_loop(lambda c: c[0] < 7, lambda c: (c[0] + 1, c[1] @ c[1]), (0, x))

    assert trace(branch, x).flops() == case["expected_flops"]
    assert trace(loop, x, trips=7).flops() == 7 * case["expected_flops"]


def test_trap_of_the_scan():
    (case,) = [c for c in CONTROL_FLOW if c["test"] == "scan"]
    x = jax.ShapeDtypeStruct(case["shapes"][0], "float32")
    traced = trace(lambda c: lax.scan(lambda c, _: (c @ c, None), c, None, length=10)[0], x)
    assert traced.flops() == case["expected_flops"]


def test_suspect_cases_are_counted_as_they_should_be():
    """A tool counts one row of a running sum, and the body of a scan once; the right values are these."""
    for case in (c for c in SUSPECT if not c["source"].startswith("openxla")):
        if case["test"] == "scan10 matmul":
            found = trace(lambda c: lax.scan(lambda c, _: (c @ c, None), c, None, length=10)[0], *_shapes(case))
            assert found.flops() == 10 * 2 * 256**3 == 10 * case["expected_flops"]
        elif case["test"] == "test_select_n_roofline":
            found = trace(lambda *t: lax.select_n(*t), *(jax.ShapeDtypeStruct((4, 8), "int32"),) * 4)
            assert (found.flops("all"), found.bytes()) == (32, 5 * 128)
        else:
            name = re.search(r"= (cum\w+)\[axis=(\d)", case["op"])
            run = getattr(lax, name[1])
            found = trace(lambda x, run=run, axis=int(name[2]): run(x, axis), jax.ShapeDtypeStruct((3, 8, 15), "int32"))
            n = (3, 8, 15)[int(name[2])]
            each = 4 if name[1] == "cumlogsumexp" else 1
            assert found.flops("all") == each * (360 - 360 // n)
