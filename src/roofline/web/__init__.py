"""Answers as pages: a report that moves with its sizes and rates, in one file."""
