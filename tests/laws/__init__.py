"""The laws of an answer, each on random questions: ``make laws N=100000``."""
