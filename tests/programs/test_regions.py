"""Which elements the results of a program need, against the elements themselves."""

import random
from itertools import product

import numpy as np
import pytest

from roofline import trace
from roofline.bounds.memory import BYTE_POLICIES
from roofline.programs import regions
from roofline.programs.tensor_parts import Stretches, places_together
from roofline.sizes import is_symbol, symbol
from tests.strategies import LONG, some

FACTORS = {24: [(24,), (4, 6), (2, 3, 4), (8, 3), (2, 2, 6)], 60: [(60,), (6, 10), (3, 4, 5), (2, 30), (15, 4)]}


def _held(region, shape):
    """The elements of a region."""
    held = np.zeros(shape, bool)
    for box in regions.box_in(region, shape):
        held[tuple(slice(*edges) for edges in box)] = True
    return held


def _box(draw, shape):
    box = []
    for size in shape:
        first, last = sorted(draw.sample(range(size + 1), 2))
        step = draw.choice((1, 1, 2, 3))
        box.append(regions.edge(first, -(-(last - first) // step), step))
    return tuple(box)


def _drawn_region(draw, shape):
    return regions.union([_box(draw, shape) for _ in range(draw.randint(1, 3))])


def test_boxes_that_share_an_open_dimension_have_as_many_elements_a_row_as_in_numbers():
    draw, rows, row = random.Random(7), symbol("B"), (7, 6)
    for _ in range(200 if LONG else 100):
        boxes = _drawn_region(draw, row)
        opened = tuple(((0, rows, 1), *box) for box in boxes)
        assert regions.elements_of(opened, (rows, *row)) == rows * _held(boxes, row).sum()


def test_steps_of_open_sizes_count_as_the_first_of_them():
    rows = symbol("B")
    boxes = (((0, 8 * rows, rows),), ((1, 8 * rows, rows),))
    assert regions.elements_of(boxes, (8 * rows,)) == 8


def test_of_three_open_boxes_what_they_share_counts_once():
    b = symbol("B")
    boxes = [((x * b, y * b, 1), (u * b, v * b, 1)) for x, y, u, v in ((0, 2, 0, 3), (1, 4, 1, 5), (0, 3, 2, 6))]
    # 6 + 12 + 12 less 2 + 2 + 6 that two share, and 1 that all three do
    assert regions.elements_of(boxes, (6 * b, 6 * b)).expand() == (30 - 10 + 1) * b**2


def test_a_running_sum_in_parallel_needs_all_that_it_adds():
    jax = pytest.importorskip("jax")

    def running(x):
        return jax.lax.associative_scan(jax.numpy.add, x, axis=1)

    assert trace(running, "fp32[B, 8]", frontend="jax").bytes("minimal") == 2 * 4 * 8 * symbol("B")


def test_an_operand_of_more_dimensions_than_the_result_is_needed_whole():
    assert regions.aligned((((0, 1, 1),),), (2, 3), (3,)) is regions.WHOLE


def test_places_together_are_those_of_their_sets():
    draw = random.Random(7)
    for _ in range(400):
        drawn = [[(draw.randint(1, 5), draw.choice((1, 2, 3, 6, 12))) for _ in range(3)] for _ in range(3)]
        held = [Stretches(draw.randint(0, 30), tuple(steps)) for steps in drawn]
        each = [{h.start + sum(at) for at in product(*(range(0, n * s, s) for n, s in h.steps))} for h in held]
        extents = [h.last + 1 - h.start for h in held if h.is_one_run]
        assert extents == [len(places) for h, places in zip(held, each, strict=True) if h.is_one_run]
        assert places_together(held) == len(set.union(*each))
    runs = [Stretches(at, ((10**9, 1),)) for at in (0, 5, 2 * 10**9)]  # more places than are looked at one by one
    assert places_together(runs) == 2 * 10**9 + 5


@pytest.mark.parametrize("total", FACTORS)
def test_regions_are_followed_back_to_the_elements_that_a_result_takes(total):
    draw = random.Random(total)
    for _ in range(200 if LONG else 100):
        shape, other = draw.choices(FACTORS[total], k=2)
        x, axis = np.arange(total).reshape(shape), draw.randrange(len(shape))
        order = draw.sample(range(len(shape)), len(shape))
        places = [draw.randrange(shape[axis]) for _ in range(7)]
        ways = [
            (x.reshape(other), lambda r, s=shape, o=other: regions.reshaped(r, o, s)),
            (np.transpose(x, order), lambda r, o=order: regions.moved(r, o)),
            (np.flip(x, axis), lambda r, s=shape, a=axis: regions.flipped(r, s, [a])),
            (np.tile(x, (2,) * len(shape)), lambda r, s=shape: regions.repeated(r, s)),
            (x.take(places, axis), lambda r, a=axis, p=places: regions.picked(r, a, p)),
            (np.concatenate([x - 10**6, x], axis), lambda r, s=shape, a=axis: regions.joined(r, a, s[a], s[a])),
            (np.broadcast_to(x, (2, *shape)), lambda r, s=shape: regions.broadcast(r, s, range(1, len(s) + 1))),
        ]
        for out, back in ways:
            asked = _drawn_region(draw, out.shape)
            taken = _held(asked, out.shape)
            assert regions.elements_of(asked, out.shape) == taken.sum()
            assert set(x[_held(back(asked), shape)].tolist()) == set(out[taken].tolist()) & set(range(total))
        asked, part = _drawn_region(draw, shape), regions.box_of(shape)[:axis] + _box(draw, shape)[axis:]
        part = tuple((first, last, 1) for first, last, _ in part)
        left = _held(regions.outside(asked, part), shape)
        assert (left == _held(asked, shape) & ~_held((part,), shape)).all()


@pytest.mark.parametrize("seed", some(range(40), 4))
def test_windows_reach_the_elements_that_a_part_of_their_results_is_made_of(seed):
    """Convolutions with pads, strides, gaps and groups, plain, transposed and of JAX: by the gradient, of ones."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    draw = random.Random(seed)
    groups, taps, stride, dilation = draw.choice((1, 2)), draw.randint(1, 4), draw.randint(1, 3), draw.randint(1, 2)
    pad, transposed = draw.randint(0, dilation * (taps - 1)), draw.random() < 0.4
    x = torch.ones(2, 4, 13, requires_grad=True)
    weight = torch.ones(4 if transposed else 6, (6 if transposed else 4) // groups, taps, requires_grad=True)
    convolve = torch.nn.functional.conv_transpose1d if transposed else torch.nn.functional.conv1d
    how = {"stride": stride, "padding": pad, "dilation": dilation, "groups": groups}
    out = convolve(x, weight, **how)
    if not out.shape[2]:
        return
    box = tuple((first, draw.randint(first + 1, n), 1) for first, n in ((draw.randrange(n), n) for n in out.shape))
    part = tuple(slice(*edges) for edges in box)
    out[part].sum().backward()
    spans = [
        [(int(at.min()), int(at.max()) + 1) if at.numel() else (0, 0) for at in tensor.grad.nonzero(as_tuple=True)]
        for tensor in (x, weight)
    ]
    windows = regions.Reach(
        *((out, x)[:: 1 if transposed else -1][k].shape[2] for k in (0, 1)), taps, stride, pad, dilation
    )
    found = regions.convolved((box,), tuple(weight.shape), [windows], groups, transposed)
    for region, span, tensor in zip(found, spans, (x, weight), strict=True):
        held = _held(region, tuple(tensor.shape))
        exact = tensor.grad.numpy() != 0
        assert (held | ~exact).all()  # nothing that counts is left out
        assert tensor is x or (held.any((0, 1)) == exact.any((0, 1))).all()
        ends = [(int(at.min()), int(at.max()) + 1) if at.size else (0, 0) for at in held.nonzero()]
        assert dilation > 1 or stride > 1 or ends == span or tensor is weight
    if not transposed:

        def program(x, w):
            lanes = jax.lax.conv_general_dilated(
                x,
                w,
                (stride,),
                [(pad, pad)],
                rhs_dilation=(dilation,),
                dimension_numbers=("CWN", "WIO", "NWC"),
                feature_group_count=groups,
            )
            return lanes[part[0], part[2], part[1]] + 1.0

        shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((4, 13, 2), (taps, 4 // groups, 6))]
        mine = trace(program, *shapes, frontend="jax")
        theirs = trace(lambda x, w: convolve(x, w, **how)[part] + 1.0, torch.ones(2, 4, 13), weight.detach())
        assert mine.bytes("minimal") == theirs.bytes("minimal")


JAX_PARTS = {
    "rows of a scan": (lambda lax, jnp, x: lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1][:4], 4 * 8),
    "rows of a map": (lambda lax, jnp, x: lax.map(lambda r: r * 2, x)[5:9], 4 * 8),
    "columns of a map": (lambda lax, jnp, x: lax.map(lambda r: r * 2, x)[:, :2], 16 * 2),
    "last rows of a scan backwards": (
        lambda lax, jnp, x: lax.scan(lambda c, r: (c + r, c * r), jnp.zeros(8), x, reverse=True)[1][12:], 4 * 8
    ),
    "columns of what a scan carries": (lambda lax, jnp, x: lax.scan(lambda c, r: (c + r, r), x[0], x)[0][:3], 16 * 3),
    "a loop": (lambda lax, jnp, x: lax.fori_loop(0, 3, lambda i, c: c * 0.9 + i, x)[2:5], 3 * 8),
    "a loop until": (
        lambda lax, jnp, x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].sum(1, keepdims=True) + c[1]),
                                           (0, x))[1][2:5, :2], 3 * 8
    ),
    "a loop that turns": (
        lambda lax, jnp, x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.flip(c[1], 0)), (0, x))[1][:2],
        2 * 2 * 8,
    ),
    "a branch": (lambda lax, jnp, x: lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: x + 1, x)[2:4], 2 * 8 + 1),
    "sequences of known lengths": (
        lambda lax, jnp, x: (x * (jnp.arange(16) < 5).astype(x.dtype)[:, None]).sum(1, keepdims=True), 5 * 8
    ),
    "scores times powers that are zero for what follows": (
        lambda lax, jnp, x: ((x @ x.T) * jnp.tril(0.9 ** abs(jnp.arange(16)[:, None] - jnp.arange(16))) @ x)[:3], 3 * 8
    ),
    "branches of other rows": (
        lambda lax, jnp, x: lax.cond(x[0, 0] > 0, lambda x: jnp.cumsum(x, 0)[:4], lambda x: jnp.flip(x, 0)[:4], x),
        4 * 8 + 1,
    ),
    "a pool": (lambda lax, jnp, x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID")[:2], 4 * 8),
    "a pool with gaps": (lambda lax, jnp, x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (3, 4), "VALID")[:2], 4 * 4),
    "a pool of taps apart": (
        lambda lax, jnp, x: lax.reduce_window(x, 0.0, lax.add, (3, 1), (9, 1), ((3, 3), (0, 0)), None, (4, 1)), 5 * 8
    ),
    "products of windows": (lambda lax, jnp, x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (2, 2), "VALID")[:2], 32),
    "the largest": (lambda lax, jnp, x: lax.top_k(x, 2)[0][3:5], 2 * 8),
    "columns of sums of segments": (
        lambda lax, jnp, x: jnp.zeros((4, 8)).at[jnp.arange(16) // 4].add(x)[:, :2], 16 * 2
    ),
    "rows of sums of segments": (lambda lax, jnp, x: jnp.zeros((4, 8)).at[jnp.arange(16) // 4].add(x)[1:3], 8 * 8),
    "columns of a scatter": (lambda lax, jnp, x: x.at[x[0, :2].astype(int)].set(x[3:5] * 2)[:, 4:6], 14 * 2 + 2),
    "matrices of a batch": (lambda lax, jnp, x: jnp.linalg.svd(x.reshape(8, 4, 4), compute_uv=False)[2:4], 32),
}  # fmt: skip


@pytest.mark.parametrize("name", JAX_PARTS)
def test_a_part_of_what_a_loop_a_branch_or_windows_give_is_made_of_a_part(name):
    jax = pytest.importorskip("jax")
    program, read = JAX_PARTS[name]
    x = jax.ShapeDtypeStruct((16, 8), "float32")
    given = jax.eval_shape(lambda x: program(jax.lax, jax.numpy, x), x).size
    traced = trace(lambda x: program(jax.lax, jax.numpy, x) + 1.0, x, frontend="jax")
    assert traced.bytes("minimal") == 4 * (read + given)


@pytest.mark.parametrize(
    ("kind", "sizes"),
    some([("bilinear", ((9, 8), (16, 12))), ("bicubic", ((16, 12), (7, 9))), ("lanczos3", ((8, 8), (8, 24)))], 3, 1),
)
def test_a_part_of_a_resized_image_reads_what_its_jacobian_has(kind, sizes):
    jax = pytest.importorskip("jax")
    image = np.random.default_rng(0).random(sizes[0]).astype(np.float32)

    def resized(x):
        return jax.image.resize(x, sizes[1], kind)[1:4, 2:5]

    used = int((np.asarray(jax.jit(jax.jacobian(resized))(image)) != 0).any((0, 1)).sum())
    assert trace(resized, jax.ShapeDtypeStruct(*sizes[:1], "float32")).bytes("minimal") == 4 * (used + 9)


@pytest.mark.parametrize("shape", [(9, 7), (200, 90), (3, 100, 40)])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_where_a_mask_holds_are_apart_and_hold_nothing_else(shape, seed):
    draw = np.random.default_rng(seed)
    rows, columns = (np.sort(draw.integers(0, 40, size)) for size in shape[-2:])
    mask = [
        draw.random(shape) < 0.9, np.broadcast_to(rows[:, None] >= columns, shape),
        np.broadcast_to(np.arange(shape[-1]) % 2 == 0, shape), np.broadcast_to(rows[:, None] // 5 % 2 == 0, shape),
    ][seed]  # fmt: skip
    found = regions.boxes_where(mask)
    held = _held(found, shape)
    assert not (held & ~mask).any()
    assert held.sum() == regions.elements_of(tuple(found), shape)
    assert seed == 0 or held.sum() == mask.sum()


def test_a_triangle_of_a_sum_with_the_transpose_needs_both_triangles():
    """A Cholesky decomposition of what is made symmetric, as JAX does it; of a product with itself one triangle."""
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    square, triangle = 5 * 5, 5 * 6 // 2
    for lib, frontend in ((torch, "torch"), (jax.numpy, "jax")):
        for program, needed in (
            (lambda x, lib=lib: lib.tril(x + x.T), square),
            (lambda x, lib=lib: (lambda y: lib.tril(y + y.T))(lib.exp(x)), square),
            (lambda x, lib=lib: lib.tril(x * x), triangle),
        ):
            assert trace(program, "fp32[5, 5]", frontend=frontend).bytes("minimal") == 4 * (needed + square)
    found = trace(jax.numpy.linalg.cholesky, "fp32[5, 5]", frontend="jax")
    assert found.bytes("minimal") == 4 * 2 * square


@pytest.mark.parametrize(
    "part", some([(slice(100), slice(None)), (slice(None), slice(50)), (slice(60, 190), slice(20, 160))], 2)
)
@pytest.mark.parametrize("kind", ["tril", "where"])
def test_of_a_part_of_a_large_triangle_most_is_read_and_never_more(kind, part):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    sides, shown = 1 if kind == "tril" else 2, np.tril(np.ones((200, 200), bool))[part]
    exact = shown.sum() if kind == "tril" else shown.size
    choose = {"tril": (torch.tril, jax.numpy.tril)}.get(kind) or (
        lambda x, y: torch.where(torch.ones(200, 200).tril() > 0, x, y),
        lambda x, y: jax.numpy.where(jax.numpy.tri(200) > 0, x, y),
    )
    given = [torch.empty(200, 200)] * sides, [jax.ShapeDtypeStruct((200, 200), "float32")] * sides
    for program, inputs in zip(choose, given, strict=True):
        read = trace(lambda *x, program=program: program(*x)[part], *inputs).bytes("minimal") / 4 - shown.size
        assert 0.98 * exact < read <= exact


@pytest.mark.parametrize(
    ("how", "left", "part"),
    some(
        [
            ({"lower": True}, True, (slice(2), slice(None))),
            ({"lower": True, "transpose_a": True}, True, (slice(3, 5), slice(1, 2))),
            ({"unit_diagonal": True}, False, (slice(None), slice(2))),
        ],
        2,
    ),
)
def test_of_a_triangle_a_part_of_the_solution_reads_what_its_jacobian_has(how, left, part):
    jax = pytest.importorskip("jax")

    def program(a, b):
        return jax.lax.linalg.triangular_solve(a, b, left_side=left, **how)[part]

    draw = np.random.default_rng(0)
    given = [draw.random((6, 6)).astype(np.float32) + 4 * np.eye(6, dtype=np.float32)]
    given.append(draw.random((6, 4) if left else (5, 6)).astype(np.float32))
    slopes = jax.jit(jax.jacobian(program, argnums=(0, 1)))(*given)
    read = sum(int((np.asarray(slope) != 0).any((0, 1)).sum()) for slope in slopes)
    shapes = [jax.ShapeDtypeStruct(value.shape, "float32") for value in given]
    written = jax.eval_shape(program, *shapes).size
    assert trace(program, *shapes).bytes("minimal") == 4 * (read + written)


def test_weights_that_a_program_of_jax_holds_are_data_whatever_they_are():
    jax = pytest.importorskip("jax")
    weight = jax.numpy.zeros((8, 4))
    traced = trace(lambda x: x @ weight, jax.ShapeDtypeStruct((6, 8), "float32"))
    assert traced.bytes("minimal") == 4 * (6 * 8 + 8 * 4 + 6 * 4)


BACKWARDS = {"scan_input_directions": [1], "scan_output_directions": [1]}

#: A node of x [6, 2, 4], of r [2, 2, 4], weights [1, 4, 4] and indices, where its result is cut, and what is read.
ONNX_PARTS = {
    "the largest": ("TopK", "xk", {"axis": 0}, (1, 0, 1), 6 * 4),
    "a scatter": ("ScatterElements", "xir", {"axis": 0}, (2, 1, 3), 4 * 2 * 2 + 2 * 2 * 2 + 2 * 8),
    "the largest of each row": ("Hardmax", "x", {"axis": 2}, (0, 1, 3), 2 * 8),
    "a pool": ("LpPool", "x", {"kernel_shape": [2]}, (0, 2, 4), 2 * 8),
    "a recurrent layer": ("RNN", "xww", {"hidden_size": 4}, (0, 0, 2), 2 * 8 + 16),
    "one backwards": ("RNN", "xww", {"hidden_size": 4, "direction": "reverse"}, (0, 4, 6), 2 * 8 + 16),
    "sequences of one": ("RNN", "xww", {"hidden_size": 4}, (2, 1, 2), 6 * 4 + 16),
    "rows of a scan": ("Scan", "cx", {"num_scan_inputs": 1}, (0, 1, 3), 8 + 3 * 8),
    "rows of a scan backwards": ("Scan", "cx", {"num_scan_inputs": 1, **BACKWARDS}, (0, 4, 6), 8 + 2 * 8),
    "rows of a scan to the back": (
        "Scan",
        "cx",
        {"num_scan_inputs": 1, "scan_output_directions": [1]},
        (0, 1, 3),
        8 + 5 * 8,
    ),
    "columns of a scan": ("Scan", "cx", {"num_scan_inputs": 1}, (2, 0, 1), 2 + 6 * 2),
}


@pytest.mark.parametrize("name", ONNX_PARTS)
def test_a_part_of_what_an_onnx_node_gives_is_made_of_a_part(name):
    onnx = pytest.importorskip("onnx")
    helper, floats, whole = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    kind, words, facts, (axis, first, last), read = ONNX_PARTS[name]
    if kind == "Scan":
        adding = [helper.make_node("Add", ["before", "row"], ["now"]), helper.make_node("Identity", ["now"], ["out"])]
        ends = [
            [helper.make_tensor_value_info(n, floats, [2, 4]) for n in pair]
            for pair in (("before", "row"), ("now", "out"))
        ]
        facts = {**facts, "body": helper.make_graph(adding, "body", *ends)}
    made = ["last", "y"] if kind == "Scan" else ["y", "more"] if kind in ("TopK", "RNN") else ["y"]
    part = {"first": [first], "end": [last], "axis": [axis], "k": [2]}
    nodes = [
        helper.make_node(kind, list(words), made, **facts),
        helper.make_node("Slice", ["y", *list(part)[:3]], ["z"]),
    ]
    shapes = {"x": (6, 2, 4), "r": (2, 2, 4), "w": (1, 4, 4), "c": (2, 4), "i": (2, 2, 4)}
    given = [helper.make_tensor_value_info(n, whole if n == "i" else floats, shapes[n]) for n in shapes if n in words]
    held = [onnx.numpy_helper.from_array(np.array(value), n) for n, value in part.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("z", floats, None)], held)
    traced = trace(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), frontend="onnx")
    assert traced.bytes("minimal") == 4 * (read + sum(t.elements for t in traced.ops[-1].writes))


@pytest.mark.parametrize("first", [0, 2, 4])
@pytest.mark.parametrize(
    ("kind", "indices", "shape"),
    [
        ("ScatterND", [[0], [-2], [2]], (3, 2, 4)),
        ("ScatterND", [[1, 0], [4, 1], [5, 1]], (3, 4)),
        ("ScatterND", [[[1], [3]], [[3], [4]]], (2, 2, 2, 4)),
        ("ScatterElements", [[[0] * 4] * 2, [[3] * 4] * 2, [[5] * 4] * 2], (3, 2, 4)),
    ],
)
@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("updated", ["x", "r"])
def test_values_that_a_scatter_of_onnx_writes_at_known_places_are_read_where_the_result_has_them(
    kind, indices, shape, first, reduction, updated
):
    """Of the values those that stand in two rows of the result, and of what is replaced nothing, in place too."""
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    facts = {"reduction": reduction} | ({"axis": 0} if kind == "ScatterElements" else {})
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(kind, [updated, "i", "u"], ["y"], **facts),
        helper.make_node("Slice", ["y", "first", "end", "axis"], ["z"]),
    ][updated == "x" :]
    held = {"i": np.array(indices), "first": np.array([first]), "end": np.array([first + 2]), "axis": np.array([0])}
    ends = [helper.make_tensor_value_info(n, floats, size) for n, size in (("x", (6, 2, 4)), ("u", shape))]
    graph = helper.make_graph(
        nodes, "g", ends, [helper.make_tensor_value_info("z", floats, [2, 2, 4])],
        [onnx.numpy_helper.from_array(value, n) for n, value in held.items()],
    )  # fmt: skip
    traced = trace(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), frontend="onnx")
    places = np.array(indices) % (np.array([6, 2])[: len(indices[0])] if kind == "ScatterND" and len(shape) < 3 else 6)
    rows = places[..., 0] if kind == "ScatterND" else places
    written = np.isin(rows, (first, first + 1))
    used = written.sum() * (np.prod(shape) // written.size)
    left = np.ones((6, 2, 4))
    if reduction == "none":
        left[tuple(np.moveaxis(places, -1, 0)) if kind == "ScatterND" else places[:, 0, 0]] = 0
    of_indices = 8 * (np.size(indices) if kind == "ScatterND" else used)
    assert traced.bytes("minimal") == 4 * (used + left[first : first + 2].sum() + 16) + of_indices


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_loop_that_fills_a_cache_row_by_row_writes_every_row(steps):
    jax = pytest.importorskip("jax")

    def fill(cache, row):
        return jax.lax.fori_loop(0, steps, lambda i, c: jax.lax.dynamic_update_slice(c, row, (i, 0)), cache)

    traced = trace(fill, jax.ShapeDtypeStruct((16, 32), "float32"), jax.ShapeDtypeStruct((1, 32), "float32"))
    assert traced.bytes("minimal") == 4 * 32 * (1 + steps)


def _jax_steps(draw, shape):
    """A way to move elements, drawn for a shape."""
    jnp, lax = pytest.importorskip("jax.numpy"), pytest.importorskip("jax.lax")
    axis, rows = draw.randrange(len(shape)), [draw.randrange(shape[0]) for _ in range(draw.randint(1, 5))]
    part = tuple(slice(edges[0], edges[1], edges[2]) for edges in _box(draw, shape))
    first, amount = draw.randrange(shape[0]), draw.randint(1, shape[0])
    return draw.choice(
        [
            lambda x: x[part],
            lambda x: x[part],
            lambda x: jnp.repeat(x, amount, axis),
            lambda x: jnp.concatenate([x, x], axis),
            lambda x: jnp.stack([x, x[::-1]]),
            lambda x: x.reshape(shape[0], -1),
            lambda x: x.ravel(),
            lambda x: x.T,
            lambda x: jnp.flip(x, axis),
            lambda x: jnp.roll(x, amount, axis),
            lambda x: jnp.pad(x, 1),
            lambda x: x[np.array(rows)],
            lambda x: lax.dynamic_slice_in_dim(x, first, amount, 0),
            lambda x: x.at[first].set(0.0),
            lambda x: jnp.tile(x, 2) * 1.0,
        ]
    )


def read_of_input(traced, ident):
    """Bytes of an input that the floor reads, and bytes that it writes."""
    moves, read, written = BYTE_POLICIES["minimal"].moves(traced.ops, None), 0, 0
    for index, op in enumerate(traced.ops):
        results = {tensor.ident for tensor in op.writes}
        for tensor, amount in moves(index, op):
            written += amount if tensor.ident in results else 0
            read += amount if tensor.ident not in results and tensor.ident.partition("[")[0] == ident else 0
    return read, written


@pytest.mark.parametrize("seed", some(range(8), 4))
def test_a_jax_program_reads_the_elements_that_its_result_holds(seed):
    jax = pytest.importorskip("jax")
    draw = random.Random(seed)
    x = np.arange(1.0, 25.0, dtype=np.float32).reshape(draw.choice(FACTORS[24]))
    out, steps = jax.numpy.asarray(x), []
    while len(steps) < 4:
        step = _jax_steps(draw, out.shape)
        after = step(out)
        if 0 < after.size < 2000:
            steps.append(step)
            out = after

    def program(x):
        for step in steps:
            x = step(x)
        return x + 1.0

    traced = trace(program, jax.ShapeDtypeStruct(x.shape, x.dtype), frontend="jax")
    needed = len(set(np.asarray(out).ravel().tolist()) - {0.0})
    assert read_of_input(traced, "t1") == (4 * needed, 4 * out.size)


def _onnx_step(draw, shape, held):
    """A node that moves elements, drawn for a shape: operator, inputs behind the first, attributes."""
    axis = draw.randrange(len(shape))
    first, last = sorted(draw.sample(range(shape[axis] + 1), 2))
    rows = [draw.randrange(shape[axis]) for _ in range(draw.randint(1, 5))]
    kind, lists, attributes = draw.choice(
        [
            ("Slice", ([first], [last], [axis], [draw.choice((1, 2))]), {}),
            ("Slice", ([-1], [-1000], [axis], [-1]), {}),
            ("Gather", (rows,), {"axis": axis}),
            ("Concat", None, {"axis": axis}),
            ("Reshape", ([shape[0], -1],), {}),
            ("Reshape", ([-1],), {}),
            ("Transpose", (), {"perm": draw.sample(range(len(shape)), len(shape))}),
            ("Tile", ([2] * len(shape),), {}),
            ("Pad", ([draw.choice((0, 1)) for _ in range(2 * len(shape))],), {}),
            ("Expand", ([2, *shape],), {}),
            ("Relu", (), {}),
        ]
    )
    names = []
    for numbers in lists or ():
        names.append(f"c{len(held)}")
        held[names[-1]] = np.array(numbers, np.int64)
    return kind, lists is None, names, attributes


@pytest.mark.parametrize("seed", some(range(8), 2, 1))
def test_an_onnx_file_reads_the_elements_that_its_result_holds(seed):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    helper, draw, held, nodes = onnx.helper, random.Random(seed), {}, []
    x = np.arange(1.0, 25.0, dtype=np.float32).reshape(draw.choice(FACTORS[24]))

    def file(nodes):
        given = [helper.make_tensor_value_info("x", 1, x.shape)]
        result = [helper.make_tensor_value_info(nodes[-1].output[0], 1, None)]
        constants = [onnx.numpy_helper.from_array(value, name) for name, value in held.items()]
        graph = helper.make_graph(nodes, "drawn", given, result, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])

    out = x
    while len(nodes) < 4:
        last = nodes[-1].output[0] if nodes else "x"
        kind, twice, names, attributes = _onnx_step(draw, out.shape, held)
        node = helper.make_node(kind, [last, *([last] if twice else names)], [f"v{len(nodes)}"], **attributes)
        after = ReferenceEvaluator(file([*nodes, node])).run(None, {"x": x})[0]
        if 0 < after.size < 2000:
            nodes.append(node)
            out = after
    nodes.append(helper.make_node("Neg", [nodes[-1].output[0]], ["y"]))
    needed = len(set(out.ravel().tolist()) - {0.0})
    assert read_of_input(trace(file(nodes), frontend="onnx"), "x") == (4 * needed, 4 * out.size)


def _torch_step(draw, torch, shape):
    """A way to move elements, drawn for a shape."""
    axis, rows = draw.randrange(len(shape)), [draw.randrange(shape[0]) for _ in range(draw.randint(1, 5))]
    part = tuple(slice(edges[0], edges[1], edges[2]) for edges in _box(draw, shape))
    order = draw.sample(range(len(shape)), len(shape))
    amount = draw.randint(1, shape[0])
    return draw.choice(
        [
            lambda x: x[part],
            lambda x: x[part],
            lambda x: x.repeat(2, *[1] * (len(shape) - 1)),
            lambda x: torch.repeat_interleave(x, 2, axis),
            lambda x: torch.cat([x, x], axis),
            lambda x: torch.stack([x, x.flip(0)], axis),
            lambda x: x.reshape(shape[0], -1),
            lambda x: x.flatten(),
            lambda x: x.permute(order),
            lambda x: torch.roll(x, amount, axis),
            lambda x: torch.nn.functional.pad(x, (1, 2)),
            lambda x: x[torch.tensor(rows)],
            lambda x: x.index_select(0, torch.tensor(rows)),
            lambda x: x.expand(2, *x.shape),
            lambda x: x.clone().mul_(1.0),
            lambda x: x.chunk(2, axis)[-1],
        ]
    )


@pytest.mark.parametrize("seed", some(range(8), 2, 1))
def test_a_torch_program_reads_the_elements_that_its_result_holds(seed):
    torch = pytest.importorskip("torch")
    draw = random.Random(seed)
    x = torch.arange(1.0, 25.0).view(draw.choice(FACTORS[24]))
    out, steps = x, []
    while len(steps) < 4:
        step = _torch_step(draw, torch, out.shape)
        after = step(out)
        if 0 < after.numel() < 2000:
            steps.append(step)
            out = after

    def program(x):
        for step in steps:
            x = step(x)
        return x + 1.0

    needed = len(set(out.flatten().tolist()) - {0.0})
    assert read_of_input(trace(program, x), "t0") == (4 * needed, 4 * out.numel())


def _jax_step_of_rows(draw, jnp, lax):
    """A way to move elements of an array [B, …] whose first size is open."""
    first, ones = draw.randrange(3), jnp.ones
    return draw.choice(
        [
            lambda x: x[..., first : first + 4],
            lambda x: x[:1],
            lambda x: x[-1:],
            lambda x: x[2:],
            lambda x: x[:2],
            lambda x: x[1:] - x[:-1],
            lambda x: jnp.concatenate([x, x], 0),
            lambda x: jnp.repeat(x, 2, -1),
            lambda x: jnp.swapaxes(x, -1, -2),
            lambda x: x.sum(1, keepdims=True),
            lambda x: jnp.cumsum(x, -1),
            lambda x: x @ ones((x.shape[-1], 5)),
            lambda x: x[..., np.array([0, 0, 1])],
            lambda x: jnp.stack([x, x * 2])[first % 2],
            lambda x: jnp.flip(x, -1),
            lambda x: jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 1)]),
            lambda x: jnp.roll(x, 1, -1),
            lambda x: lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1:]), x)[1],
            lambda x: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + 1, x),
            lambda x: x.at[:, 0].set(0.0),
            lambda x: lax.dynamic_update_slice(x, ones((1, *x.shape[1:])), (0,) * x.ndim),
            lambda x: x.reshape(x.shape[0], 1, -1),
        ]
    )


@pytest.mark.parametrize("seed", some(range(20), 4))
def test_a_formula_of_a_jax_program_that_gives_a_part_is_the_number_at_that_size(seed):
    jax = pytest.importorskip("jax")
    draw = random.Random(seed)
    steps = [_jax_step_of_rows(draw, jax.numpy, jax.lax) for _ in range(draw.randint(1, 3))]

    def program(x):
        for step in steps:
            x = step(x)
        return x + 1.0

    formula = trace(program, "fp32[B, 6, 8]", frontend="jax").bytes("minimal")
    for size in (5, 16):
        number = trace(program, f"fp32[{size}, 6, 8]", frontend="jax").bytes("minimal")
        assert abs(_at(formula, size) - number) <= 32  # and places as numbers


def _at(formula, size):
    return formula.subs({symbol("B"): size}) if is_symbol(formula) else formula


def _torch_step_of_rows(draw, torch):
    """The same of a tensor [B, …]."""
    first, pad = draw.randrange(3), torch.nn.functional.pad
    return draw.choice(
        [
            lambda x: x[..., first : first + 4],
            lambda x: x[:, :3],
            lambda x: x[:1],
            lambda x: x[-1:],
            lambda x: x[2:],
            lambda x: x[:, ::2],
            lambda x: x[1:] - x[:-1],
            lambda x: torch.cat([x, x * 2], -1)[..., :5],
            lambda x: x.repeat_interleave(2, -1),
            lambda x: x.transpose(-1, -2),
            lambda x: x.softmax(-1),
            lambda x: x.cumsum(-1),
            lambda x: x[..., torch.tensor([0, 0, 1])],
            lambda x: x[torch.tensor([0, 1])],
            lambda x: x.sum(1, keepdim=True),
            lambda x: torch.stack([x, x * 2])[first % 2],
            lambda x: x.flip(-1),
            lambda x: pad(x, (1, 1)),
            lambda x: x.roll(1, -1),
            lambda x: x.flatten(1).unsqueeze(1),
            lambda x: torch.nn.functional.linear(x, torch.ones(4, x.shape[-1])),
        ]
    )


@pytest.mark.parametrize("seed", some(range(20), 4))
def test_a_formula_of_a_torch_program_that_gives_a_part_is_the_number_at_that_size(seed):
    torch = pytest.importorskip("torch")
    draw = random.Random(seed)
    steps = [_torch_step_of_rows(draw, torch) for _ in range(draw.randint(1, 2))]

    def program(x):
        for step in steps:
            x = step(x)
        return x + 1.0

    formulas = trace(program, "fp32[B, 6, 8]")
    for size in (9, 16):
        numbers = trace(program, f"fp32[{size}, 6, 8]")
        for policy in ("each-op", "fused", "minimal"):
            assert _at(formulas.bytes(policy), size) == numbers.bytes(policy)


def _onnx_nodes_of_rows(draw, helper):
    """The same as nodes of a file, with the lists of whole numbers that they read."""
    first, rows = draw.randrange(3), 2**60
    steps = [
        ("Slice", ([first], [first + 3], [1]), {}),
        ("Slice", ([first], [first + 4], [2], [1 + first % 2]), {}),
        ("Slice", ([0], [1], [0]), {}),
        ("Slice", ([-1], [rows], [0]), {}),
        ("Slice", ([2], [rows], [0]), {}),
        ("Slice", ([-1], [-1000], [2], [-1]), {}),
        ("Gather", ([0, 0, 1],), {"axis": 2}),
        ("Relu", (), {}),
        ("Softmax", (), {}),
        ("Transpose", (), {"perm": [0, 2, 1]}),
        ("Tile", ([1, 1, 2],), {}),
        ("Pad", ([0, 1, 0, 0, 0, 1],), {}),
        ("ReduceSum", ([1],), {}),
        ("Reshape", ([0, 1, -1],), {}),
        ("CumSum", ([2],), {}),
    ]
    nodes, lists = [], {}
    for place, (kind, numbers, attributes) in enumerate(draw.choices(steps, k=draw.randint(1, 3))):
        names = [f"c{place}_{at}" for at in range(len(numbers))]
        lists |= dict(zip(names, numbers, strict=True))
        nodes.append(helper.make_node(kind, [f"v{place}", *names], [f"v{place + 1}"], **attributes))
    return [*nodes, helper.make_node("Neg", [f"v{len(nodes)}"], ["y"])], lists


@pytest.mark.parametrize("seed", some(range(20), 2))
def test_a_formula_of_an_onnx_file_that_gives_a_part_is_the_number_at_that_size(seed):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes, lists = _onnx_nodes_of_rows(random.Random(seed), helper)
    constants = [onnx.numpy_helper.from_array(np.array(value, np.int64), name) for name, value in lists.items()]

    def traced(rows):
        values = (("v0", [rows, 6, 8]), ("y", None))
        given, result = ([helper.make_tensor_value_info(name, 1, dims)] for name, dims in values)
        graph = helper.make_graph(nodes, "drawn", given, result, constants)
        return trace(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), frontend="onnx")

    formulas = traced("B")
    for size in (9, 16):
        numbers = traced(size)
        assert _at(formulas.flops("all"), size) == numbers.flops("all")
        for policy in ("each-op", "fused", "minimal"):
            assert _at(formulas.bytes(policy), size) == numbers.bytes(policy)


@pytest.mark.parametrize("name", ["linear", "attention"])
def test_rows_of_an_open_size_that_are_needed_beside_all_do_not_hide_all(name):
    layers = pytest.importorskip("torch").nn.functional

    def program(x):
        made = layers.linear(x, x) if name == "linear" else layers.scaled_dot_product_attention(x, x, x)
        return made[:2] + 1

    found, number = (trace(program, f"fp32[{size}, 6]").bytes("minimal") for size in ("L", 16))
    assert found.subs(dict.fromkeys(found.free_symbols, 16)) == number


def _replacing(x, y, axis):
    x = x * 2
    x.select(axis, 1).copy_(y)
    return x


def test_attention_reads_the_keys_that_its_mask_lets_through_under_each_policy():
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention

    def decode(q, k, v):
        return attend(q, k, v, attn_mask=(torch.arange(4096) >= 3072)[None, :], enable_gqa=True)

    cache = "bf16[2, 8, 4096, 128]"
    traced = trace(decode, "bf16[2, 32, 1, 128]", cache, cache)
    read = 2 * (2 * 2 * 32 * 128 + 2 * 2 * 8 * 1024 * 128)
    assert traced.bytes("minimal") == read
    (op,) = (op for op in traced.ops if op.kind == "attention")
    assert [each.traffic_bytes for each in op.reads[1:3]] == [2 * 2 * 8 * 1024 * 128] * 2


#: Programs of PyTorch, and shapes of what they read: each gives back a part of what an operation makes.
def _written(scores, mask):
    scores[..., ~mask] = -np.inf
    return scores


def _weighed(scores):
    """A softmax that is written out."""
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


TORCH_PARTS = {
    "sums before a product": (lambda t, a, b: t.einsum("ijl,kl->il", a, b)[:3, :2], (8, 5, 3), (4, 3)),
    "windows that cover": (lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 5)[..., 1:3, :2], (1, 2, 12, 13)),
    "channels of groups": (lambda t, x, w: t.nn.functional.group_norm(x, 4, w)[:, 1:3, 0], (2, 8, 3, 3), (8,)),
    "channels of an image": (lambda t, x, w: t.nn.functional.instance_norm(x, weight=w)[:, :3], (2, 8, 3, 3), (8,)),
    "channels of a batch": (
        lambda t, x, w: t.nn.functional.batch_norm(x, None, None, w, training=True)[:1, :3, 0], (2, 8, 3, 3), (8,)
    ),
    "channels by stored statistics": (
        lambda t, x, w: t.batch_norm(x, w, None, w.detach(), w.detach(), False, 0.1, 1e-5, False)[:1, :3, 0],
        (2, 8, 3, 3), (8,),
    ),
    "columns of a norm": (
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (4, 6), w, b)[:2, :3, 1], (3, 4, 6), (4, 6), (4, 6)
    ),
    "rows of a product with a vector": (lambda t, b, a, x: t.addmv(b, a, x)[:3], (8,), (8, 6), (6,)),
    "spectra of rows": (lambda t, x: t.fft.rfft(x).abs()[:2], (4, 8)),
    "some of many matrices": (lambda t, a, b: t.linalg.solve(a, b)[:2], (4, 3, 3), (4, 3, 2)),
    "a matrix for all": (lambda t, a, b: t.linalg.solve(a, b)[:2], (3, 3), (4, 3, 2)),
    "products of vectors": (lambda t, a, b: t.linalg.cross(a, b)[:2], (4, 3), (4, 3)),
    "both halves of a gate": (lambda t, x: t.nn.functional.glu(x)[:2], (4, 6)),
    "keys that a mask lets through": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=t.ones(3, 16, dtype=t.bool).tril(12).triu(10)),
        (1, 2, 3, 4), (1, 2, 16, 4), (1, 2, 16, 4),
    ),
    "keys of two heads": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=t.arange(9) < 2 * t.arange(1, 5)[:, None, None], enable_gqa=True),
        (1, 4, 3, 4), (1, 2, 9, 4), (1, 2, 9, 4),
    ),
    "keys of some queries": (
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, 1:4],
        (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4),
    ),
    **{
        f"attention written out, masked by {how}": (
            lambda t, q, k, v, hide=hide, first=first: (
                hide(t, t.einsum("bhsd,bhtd->bhst", q, k), t.ones(9, 9).tril() > 0).softmax(-1) @ v
            )[:, :, first : first + 3],
            (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4),
        )
        for how, first, hide in (
            ("filling", 0, lambda t, scores, mask: scores.masked_fill_(~mask, -np.inf)),
            ("a choice", 1, lambda t, scores, mask: t.where(mask, scores, -1e9)),
            ("nothing, for all are as low", 1, lambda t, scores, mask: scores - 1e9),
            ("a sum", 1, lambda t, scores, mask: scores + t.zeros(9, 9).masked_fill(~mask, -np.inf)),
            ("writing in place", 1, lambda t, scores, mask: _written(scores, mask)),
            ("a product and a difference", 1, lambda t, scores, mask: scores * mask - 1e10 * (1 - mask.float())),
        )
    },
    "attention written out, a query that sees nothing": (
        lambda t, q, k, v: _weighed(
            (t.einsum("bhsd,bhtd->bhst", q, k)).masked_fill(t.ones(9, 9).tril(-1) == 0, -1e9)
        )[:, :, :1] @ v,
        (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4),
    ),
    "scores times powers that are zero for what follows": (
        lambda t, q, k, v: ((q @ k.mT) * t.tril(0.9 ** (t.arange(9)[:, None] - t.arange(9))) @ v)[:, :, 1:4],
        (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4),
    ),
    "sequences of known lengths": (lambda t, x: (x * (t.arange(6) < 4)[:, None]).sum(1), (2, 6, 4)),
    "elements that a mask takes": (lambda t, x: x.masked_select(t.ones(4, 6).tril() > 0)[2:7] * 2, (4, 6)),
    "elements written where a mask says": (
        lambda t, x, y: x.masked_scatter(t.ones(4, 6).tril() > 0, y)[1:3] * 2, (4, 6), (3, 5)
    ),
    "taps in the padding alone": (
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=(18, 1), dilation=(18, 1)), (1, 2, 4, 5), (3, 2, 3, 3),
    ),
    "taps beside what a transposed convolution keeps": (
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, padding=2, stride=2), (1, 2, 2), (2, 3, 5),
    ),
    "places that a transposed convolution with gaps on both sides meets": (
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, stride=2, padding=1, dilation=3)[..., 7:9],
        (1, 2, 6), (2, 2, 3),
    ),
    "taps that lie behind an image": (
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, dilation=4)[..., 7:10], (1, 2, 6), (2, 2, 4),
    ),
    "a row replaced": (lambda t, x, y: _replacing(x, y, 0), (4, 6), (6,)),
    "a column replaced": (lambda t, x, y: _replacing(x, y, 1), (4, 6), (4,)),
    "rows replaced in a copy": (lambda t, x, y: t.slice_scatter(x, y, 0, 1, 3), (4, 6), (2, 6)),
    "a column replaced in a copy": (lambda t, x, y: t.select_scatter(x, y, 1, -1)[1:3, 4:], (4, 6), (4,)),
    **{
        f"{mode} by {how}": (
            lambda t, x, mode=mode, how=how: t.nn.functional.interpolate(x, mode=mode, **how)[..., 1:6:2, :4],
            (1, 2, 9, 10),
        )
        for mode in ("bilinear", "bicubic")
        for how in ({"scale_factor": 2}, {"scale_factor": 0.7}, {"size": (7, 5), "align_corners": True})
    },
}  # fmt: skip


@pytest.mark.parametrize("name", some(TORCH_PARTS, 2))
def test_a_part_reads_what_a_change_of_it_would_change(name):
    torch = pytest.importorskip("torch")
    program, *shapes = TORCH_PARTS[name]
    given = [torch.rand(shape, generator=torch.Generator().manual_seed(1)) for shape in shapes]
    slopes = torch.autograd.functional.jacobian(lambda *given: program(torch, *given), tuple(given))
    read = sum(int((slope.flatten(0, -x.ndim - 1) != 0).any(0).sum()) for slope, x in zip(slopes, given, strict=True))
    result = program(torch, *given).numel()
    assert trace(lambda *given: program(torch, *given), *given).bytes("minimal") == 4 * (read + result)


@pytest.mark.parametrize("kind", ["bool", "0 and 1", "0 and -inf"])
def test_a_mask_that_a_module_holds_and_crops_hides_scores_whatever_its_format(kind):
    torch = pytest.importorskip("torch")
    seen = torch.ones(1, 1, 8, 8).tril()
    mask = {"bool": seen > 0, "0 and 1": seen, "0 and -inf": torch.zeros_like(seen).masked_fill(seen == 0, -np.inf)}

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", mask[kind])

        def forward(self, q, k, v):
            own, scores = self.mask[:, :, : q.shape[2], : k.shape[2]], q @ k.transpose(2, 3)
            scores = scores + own if kind == "0 and -inf" else scores.masked_fill(own == 0, -np.inf)
            return (scores.softmax(-1) @ v)[:, :, :3]

    shown = 2 + 3  # elements of the mask in rows 1 and 2; row 0 sees one key, whose values are the result
    data = 2 * 4 + 3 * 4 + 3 * 4 + 3 * 4  # q, k, v, result
    assert trace(Attention(), *["fp32[1, 1, 6, 4]"] * 3).bytes("minimal") == 4 * data + mask[kind].itemsize * shown


HIDING = {
    "a sum": lambda jnp, scores, seen: scores + jnp.where(seen > 0, 0.0, -1e9),
    "a difference": lambda jnp, scores, seen: scores - 1e10 * (1 - seen),
    "a product and a difference": lambda jnp, scores, seen: scores * seen - 1e10 * (1 - seen),
    "a choice": lambda jnp, scores, seen: jnp.where(seen > 0, scores, -jnp.inf),
}


@pytest.mark.parametrize("how", HIDING)
def test_keys_that_a_mask_hides_from_rows_of_a_jax_attention_are_not_read_for_the_largest_score_either(how):
    jax = pytest.importorskip("jax")

    def attention(q, k, v):
        scores = HIDING[how](jax.numpy, q @ k.T, jax.numpy.tri(6))
        return (jax.nn.softmax(scores) @ v)[1:3]

    given = [jax.ShapeDtypeStruct((6, 4), "float32")] * 3
    assert trace(attention, *given, frontend="jax").bytes("minimal") == 4 * 4 * (2 + 3 + 3 + 2)


def test_rows_that_each_sequence_of_a_jax_cache_replaces_at_a_place_of_its_own_are_not_read():
    jax = pytest.importorskip("jax")

    def updated(cache, new, place):
        return jax.vmap(lambda c, n, p: jax.lax.dynamic_update_slice(c, n, (p, 0)))(cache, new, place).sum()

    given = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in (((3, 6, 4), "float32"), ((3, 2, 4), "float32"))]
    traced = trace(updated, *given, jax.ShapeDtypeStruct((3,), "int32"), frontend="jax")
    assert traced.bytes("minimal") == 4 * (3 * 4 * 4 + 3 * 2 * 4 + 3 + 1)


def test_elements_of_an_input_that_a_known_mask_fills_in_place_are_written_alone():
    torch = pytest.importorskip("torch")

    def filled(x):
        x[:6].masked_fill_(torch.arange(6) < 2, 0.0)

    def filled_and_doubled(x):
        x.masked_fill_(torch.arange(10)[:, None] < 4, 0.0)
        x.mul_(2.0)

    assert trace(filled, "fp32[10]").bytes("minimal") == 4 * 2
    assert trace(filled_and_doubled, "fp32[10, 3]").bytes("minimal") == 4 * (6 * 3 + 10 * 3)


@pytest.mark.parametrize("inputs", [("fp32[8, 64]", "fp32[64]"), ("fp32[64]", "fp32[8, 64]")])
def test_a_part_of_a_matrix_times_a_vector_needs_its_rows(inputs):
    torch = pytest.importorskip("torch")
    assert trace(lambda x, w: torch.nn.functional.linear(x, w)[:2], *inputs).bytes("minimal") == 4 * (2 * 64 + 64 + 2)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rows_that_are_filled_with_one_value_are_written_whole(axis):
    pytest.importorskip("torch")
    moved = trace(lambda x, places: x.index_fill_(axis, places, 0.5), "fp32[64, 32]", "int64[4]").bytes("each-op")
    assert moved == 4 * 4 * (32 if axis == 0 else 64) + 8 * 4


@pytest.mark.parametrize("how", ["a mask of its own", "a mask that is given", "values where a mask is given"])
def test_elements_that_a_mask_leaves_are_needed_however_many_it_may_take(how):
    torch = pytest.importorskip("torch")
    own = torch.arange(256).reshape(16, 16) * 7 % 5 < 2

    def program(x, w, mask):
        y = x @ w
        if how == "values where a mask is given":
            y.masked_scatter_(mask, torch.ones(2 * 256))
        else:
            y[:, own if how == "a mask of its own" else mask] = 0.5
        return y.relu()

    moved = trace(program, "fp32[2, 16, 8]", "fp32[8, 16]", "bool[16, 16]").bytes("minimal")
    assert moved - 4 * (2 * 16 * 8 + 8 * 16 + 2 * 256) in (256, 0)  # the mask, if it is given


@pytest.mark.parametrize("prompt", [1, 4, 6])
def test_of_a_cache_the_rows_that_are_written_at_places_nobody_knows_are_not_read(prompt):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    e = 2 * 8  # elements of a row of each tensor

    def by_place(q, k, place, cache):
        cache[:, :, place] = k
        return torch.nn.functional.scaled_dot_product_attention(q, cache, cache)

    def by_copy(q, k, place, cache):
        return torch.nn.functional.scaled_dot_product_attention(q, c := cache.index_copy_(2, place, k), c)

    def by_elements(q, k, place, cache):
        cache.scatter_(2, place[None, None, :, None].expand(k.shape), k)
        return torch.nn.functional.scaled_dot_product_attention(q, cache, cache)

    def in_slices(q, k, place, cache):
        cache = jax.lax.dynamic_update_slice(cache, k, (0, 0, place[0], 0))
        return jax.nn.softmax(q @ cache.swapaxes(2, 3)) @ cache, cache

    def by_index(q, k, place, cache):
        cache = cache.at[:, :, place].set(k)
        return jax.nn.softmax(q @ cache.swapaxes(2, 3)) @ cache, cache

    given = [*[f"fp32[1, 2, {prompt}, 8]"] * 2, f"int32[{prompt}]", "fp32[1, 2, 6, 8]"]
    long = [*given[:2], f"int64[{prompt}]", given[3]]
    floats = 4 * e * (2 * prompt + (6 - prompt) + prompt + prompt)  # q and k, the rest of the cache, new rows, result
    for program in (by_place, by_copy, by_elements):
        assert trace(program, *long).bytes("minimal") == floats + 8 * prompt
    for program, indices in ((in_slices, 1), (by_index, prompt)):
        shapes = [jax.ShapeDtypeStruct((1, 2, n, 8), "float32") for n in (prompt, 6)]
        place = jax.ShapeDtypeStruct((prompt,), "int32")
        found = trace(program, shapes[0], shapes[0], place, shapes[1], frontend="jax")
        assert found.bytes("minimal") == floats + 4 * indices


def test_known_rows_of_an_open_number_of_them_that_are_written_twice_count_once():
    torch = pytest.importorskip("torch")

    def written_twice(x, first, second):
        x.index_copy_(0, torch.tensor([0, 1, 2, 3]), first)
        x.index_copy_(0, torch.tensor([2, 3, 4, 5]), second)

    read, indices = 2 * 16 + 4 * 16, 2 + 4
    moved = trace(written_twice, "fp32[N, 16]", *["fp32[4, 16]"] * 2).bytes("minimal")
    assert moved == 4 * (read + 6 * 16) + 8 * indices


def test_bags_read_the_rows_that_go_into_them():
    torch = pytest.importorskip("torch")
    rows, starts = torch.tensor([0, 1, 2, 2, 5, 7]), torch.tensor([0, 2])

    def program(table):
        return torch.nn.functional.embedding_bag(rows, table, starts, padding_idx=5)[1:, :3]

    assert trace(program, "fp32[100, 8]").bytes("minimal") == 4 * (2 * 3 + 3) + 8 * (6 + 2)  # rows 2 and 7; indices
