"""Every question of the tests and the docs with its answer, to compare one state of the code with another."""
