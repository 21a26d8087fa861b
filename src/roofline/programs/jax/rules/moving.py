"""Primitives that move bytes and compute nothing: views, copies, lookups, random numbers."""

from __future__ import annotations

from dataclasses import replace

from roofline.programs.jax.registry import Call, Priced, pricing, rule


@rule(
    "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "broadcast_to", "stop_gradient", "name",
    "copy_p", "pvary", "pbroadcast", "device_put", "bitcast_convert_type", "random_wrap", "random_unwrap",
    "layout_constraint", "random_clone", "preduced", "reduced_vary_cast_p",
    "vary_unreduced_cast_p", "with_memory_space_constraint", "mesh_cast", "to_edtype", "from_edtype",
)  # fmt: skip
def seen_otherwise(call: Call) -> Priced:
    """The same tensor in another form, or under another name."""
    return call.alias()


@rule("optimization_barrier", "tie", "pin", "unpin")
def passed(call: Call) -> Priced:
    """Results that are the operands."""
    for place in range(len(call.outs)):
        call.alias(place, place + len(call.ins) - len(call.outs))
    return None


@rule("axis_index", "create_token", "after_all", "platform_index", "dimension_size", "dim_as_value", "shape_assertion",
      "inspect_sharding", "empty", "empty2", "check")  # fmt: skip
def nothing(call: Call) -> Priced:
    """A number that the program knows, or nothing."""
    return None


@rule("copy", "concatenate", "pad", "rev", "tile", "stack")
def copied(call: Call) -> Priced:
    """Read what goes in, write what comes out."""
    return pricing.move(call.name, call.reads, call.writes)


@rule("split", "unstack")
def split(call: Call) -> Priced:
    """Copy every part."""
    return pricing.move(call.name, call.reads, call.writes)


@rule("iota")
def filled(call: Call) -> Priced:
    """Write a constant."""
    return pricing.move(call.name, (), call.writes)


@rule("slice", "dynamic_slice")
def sliced(call: Call) -> Priced:
    """Read and write the part that is taken."""
    if call.operands[0] is None:
        return call.alias()
    reads = call.touch(0, call.outs[0].size)
    if "limit_indices" in call.params:
        first, last = call.params["start_indices"], call.params["limit_indices"]
        edges = zip(first, last, call.params.get("strides") or (1,) * len(first), strict=True)
        taken = ",".join(":".join(map(str, edge)) for edge in edges)
        reads = tuple(replace(tensor, ident=f"{tensor.ident}[{taken}]") for tensor in reads)
    return pricing.move(call.name, reads, call.writes)


@rule("dynamic_update_slice")
def updated(call: Call) -> Priced:
    """Write a part in place."""
    if call.operands[0] is None:
        return pricing.move(call.name, call.reads, call.writes)
    writes = call.into(0, call.ins[1].size)
    note = "a buffer that is updated is updated in place"
    return pricing.move(call.name, call.read(1), writes, note=note)


@rule("gather")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name; where one out of bounds is filled, four checks an index and a choice.

    The checks: not below, not above, both, for every index of a window; then a select for every element.
    """
    size = call.outs[0].size
    checked = str(call.params.get("mode")).endswith("FILL_OR_DROP") or call.params.get("mode") == 1
    flops = 4 * call.ins[1].size + size if checked else 0
    reads = (*call.touch(0, size), *call.read(1))
    return pricing.vector(call.name, "gather", reads, call.writes, flops=flops, elements=size, one_each=flops)


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter_add",
      "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")  # fmt: skip
def scattered(call: Call) -> Priced:
    """Write values where indices name, in place; combining reads what was there."""
    size = call.ins[2].size
    program = call.params.get("update_jaxpr")
    combines = program is not None and bool(program.eqns)
    flops = size * call.inner(program) if combines else 0
    before = call.touch(0, size) if combines else ()
    reads = (*before, *call.read(1, 2))
    writes = call.writes if call.operands[0] is None else call.into(0, size)
    return pricing.vector(call.name, "scatter", reads, writes, flops=flops, elements=size, one_each=flops)


@rule("random_bits", "random_seed", "random_split", "random_fold_in", "threefry2x32", "threefry4x32", "philox2x32",
      "philox4x32", "rng_bit_generator", "rng_uniform", "random_gamma", "iota_2x32_shape")  # fmt: skip
def drawn(call: Call) -> Priced:
    """Draw random numbers."""
    return pricing.move(call.name, call.reads, call.writes, note="the arithmetic of random numbers is not counted")


@rule("debug_callback", "debug_print")
def printed(call: Call) -> Priced:
    """Bring something to the host."""
    return pricing.move(call.name, call.reads, call.writes)


@rule("pure_callback", "io_callback", "ffi_call", "outside_call")
def host(call: Call) -> Priced:
    """A function that JAX cannot see into."""
    name = call.params.get("target_name") or call.name
    return pricing.unknown(str(name), call.reads, call.writes, "runs outside JAX")
