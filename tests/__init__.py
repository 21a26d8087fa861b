"""Tests of roofline."""
