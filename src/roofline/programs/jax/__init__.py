"""JAX programs: every primitive of a traced function, on shapes alone."""
