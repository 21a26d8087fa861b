"""Closed forms as values: their terms, compiled for arrays, printed in other languages, laid out as tables."""
