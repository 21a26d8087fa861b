"""Collectives: what moving an array between the chips of mesh axes costs.

``cost`` counts one by an algorithm, ``choice`` picks the algorithm, ``registry`` holds them and says what links a
collective goes over. The algorithms themselves stand in ``algorithms``: rings, lines, tori, limiting forms; direct
exchange, trees, switches that reduce. ``routing`` counts rows that go to several chips each, as tokens go to their
experts.
"""
