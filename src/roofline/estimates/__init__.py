"""Estimates: how long operations will really take, with an interval and the error of their kind."""
