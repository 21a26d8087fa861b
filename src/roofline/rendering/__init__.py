"""Renderers: sections to text for a terminal, to HTML. They know sections, and no answer."""
