"""Implementations of ``Layout``, ``Problem`` and ``Gradient``, one per kind of machine.

``cpu`` is one machine with its cores and its memory; ``cuda`` is one GPU of it; ``shards`` is a
problem made of problems.
"""
