"""Expected agreement: exact indices, stops, and arrays against the definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.theory.expected_agreement import (
    agreement_table,
    counts_of,
    walk,
)

EXACT_INDICES = [
    (3, 1, (1,), "1/36"),
    (3, 1, (1, 1), "1/12"),
    (3, 1, (2,), "0"),
    (3, 2, (1,), "1/50"),
    (3, 2, (1, 1), "1/20"),
    (4, 1, (1,), "7/200"),
    (4, 1, (1, 1), "7/80"),
    (4, 1, (1, 1, 1), "1/10"),
    (4, 1, (2, 1), "0"),
    (5, 1, (1,), "3/82"),
    (5, 1, (2,), "1/255"),
    (5, 1, (2, 1), "1/75"),
    (5, 1, (1, 1), "3/34"),
    (5, 1, (2, 2), "1/15"),
    (8, 1, (1,), "7673/207840"),
    (8, 1, (2,), "259/39771"),
    (8, 1, (3,), "13/14124"),
    (8, 1, (4,), "0"),
    (8, 1, (2, 1), "1/63"),
    (8, 1, (3, 1), "11/3324"),
    (8, 1, (3, 2), "5/348"),
    (8, 1, (2, 2), "1/15"),
    (8, 1, (1,) * 7, "1/12"),
]


def forms(text):
    """Numbers of the letters of a chain in order of appearance; - has none."""
    seen = {}
    return [-1 if letter == "-" else seen.setdefault(letter, len(seen)) for letter in text]


@pytest.mark.parametrize(("n", "alpha", "counts", "index"), EXACT_INDICES)
def test_indices_are_exact(n, alpha, counts, index):
    """The index of a state equals its value in fractions."""
    table = agreement_table(n, float(alpha))

    assert table.index(table.number(counts)) == pytest.approx(float(Fraction(index)), abs=1e-14)


@given(n=st.integers(2, 10), alpha=st.floats(0.2, 4), price=st.floats(0, 0.2))
def test_a_state_stops_where_its_index_is_at_most_the_price(n, alpha, price):
    """The recursion at one price and the exact index decide alike."""
    table = agreement_table(n, alpha)
    index_S = table.indices(np.arange(1, len(table.states)))
    clear = np.abs(index_S - price) > 1e-9

    assert (table.stops(price)[1:] == (index_S <= price))[clear].all()


@given(
    st.lists(st.lists(st.integers(-1, 4), min_size=9, max_size=9), min_size=1, max_size=20),
    st.sampled_from([9, 16]),
)
def test_the_automaton_walks_through_the_states_of_the_counts(rows, n):
    """A gather a round gives the state that the counts of all answers so far have."""
    rows = [forms([" -ABCDE"[form + 2] if form >= 0 else "-" for form in row]) for row in rows]
    table = agreement_table(n, 1.0)
    state_QT = walk(np.array(rows), table)

    for row, state_T in zip(rows, state_QT, strict=True):
        for t, state in enumerate(state_T):
            assert state == table.number(counts_of(row[: t + 1]))
