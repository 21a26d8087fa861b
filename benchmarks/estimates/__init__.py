"""Constants of estimates, fitted to measured kernels and served steps, and the page that says how accurate they are."""
