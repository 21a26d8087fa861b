"""Primitives that move bytes and compute nothing: views, copies, lookups, random numbers."""

from __future__ import annotations

from dataclasses import replace

from roofline.programs.jax.registry import Call, Priced, pricing, rule

# The same tensor in another form, or under another name.
rule(
    "reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "broadcast_to", "stop_gradient", "name",
    "copy_p", "pvary", "pbroadcast", "device_put", "bitcast_convert_type", "random_wrap", "random_unwrap",
    "layout_constraint", "random_clone", "preduced", "reduced_vary_cast_p",
    "vary_unreduced_cast_p", "with_memory_space_constraint", "mesh_cast", "to_edtype", "from_edtype",
)(lambda call: call.alias())  # fmt: skip

# A number that the program knows, or nothing.
rule(
    "axis_index", "create_token", "after_all", "platform_index", "dimension_size", "dim_as_value", "shape_assertion",
    "inspect_sharding", "empty", "empty2", "check",
)(lambda call: None)  # fmt: skip

# What goes in is read, what comes out is written, be it several parts or something for the host.
rule(
    "copy", "concatenate", "pad", "rev", "tile", "stack", "split", "unstack", "debug_callback", "debug_print",
)(lambda call: call.move())  # fmt: skip

# A constant is written.
rule("iota")(lambda call: call.move(reads=()))

rule(
    "random_bits", "random_seed", "random_split", "random_fold_in", "threefry2x32", "threefry4x32", "philox2x32",
    "philox4x32", "rng_bit_generator", "rng_uniform", "random_gamma", "iota_2x32_shape",
)(lambda call: call.move(note="the arithmetic of random numbers is not counted"))  # fmt: skip


@rule("optimization_barrier", "tie", "pin", "unpin")
def passed(call: Call) -> Priced:
    """Results that are the operands."""
    for place in range(len(call.outs)):
        call.alias(place, place + len(call.ins) - len(call.outs))
    return None


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
    return call.move(reads=reads)


@rule("dynamic_update_slice")
def updated(call: Call) -> Priced:
    """Write a part in place."""
    if call.operands[0] is None:
        return call.move()
    writes = call.into(0, call.ins[1].size)
    return call.move(reads=call.read(1), writes=writes, note="a buffer that is updated is updated in place")


@rule("gather")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name; where one out of bounds is filled, four checks an index and a choice.

    The checks: not below, not above, both, for every index of a window; then a select for every element.
    """
    size = call.outs[0].size
    checked = str(call.params.get("mode")).endswith("FILL_OR_DROP") or call.params.get("mode") == 1
    flops = 4 * call.ins[1].size + size if checked else 0
    return call.vector("gather", flops, size, one_each=flops, reads=(*call.touch(0, size), *call.read(1)))


@rule("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max", "scatter_add",
      "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")  # fmt: skip
def scattered(call: Call) -> Priced:
    """Write values where indices name, in place; combining reads what was there."""
    size = call.ins[2].size
    program = call.params.get("update_jaxpr")
    combines = program is not None and bool(program.eqns)
    flops = size * call.inner(program) if combines else 0
    reads = (*(call.touch(0, size) if combines else ()), *call.read(1, 2))
    writes = call.writes if call.operands[0] is None else call.into(0, size)
    return call.vector("scatter", flops, size, one_each=flops, reads=reads, writes=writes)


@rule("pure_callback", "io_callback", "ffi_call", "outside_call")
def host(call: Call) -> Priced:
    """A function that JAX cannot see into."""
    name = call.params.get("target_name") or call.name
    return pricing.unknown(str(name), call.reads, call.writes, "runs outside JAX")
