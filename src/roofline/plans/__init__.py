"""Plans: which chips, how many, how split and in which formats for a load within limits; and why not the others."""
