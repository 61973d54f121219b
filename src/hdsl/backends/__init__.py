"""Implementations of ``Layout``, ``Problem`` and ``Gradient``, one per kind of machine.

``cpu`` is one machine with its cores and its memory; ``shards`` is a problem made of problems.
"""
