"""The seeds' and the book's questions as tests."""
