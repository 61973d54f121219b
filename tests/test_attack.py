"""A dose of each attack of tests/attack.py; docs/reliability.md has the counts of longer ones."""

import pytest

import attack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(attack.os, "fork"), reason="needs POSIX processes"),
]


@pytest.mark.parametrize("name", attack.ATTACKS)
def test_promises_hold_under_attack(name):
    run, count = attack.ATTACKS[name]
    assert run(count, seed=0)
