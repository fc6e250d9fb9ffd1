"""How questions are put into batches, asked about, and their ranking read."""

from collections import Counter

import pytest

from pipeline.strategies.dsc import batches, parse_ranking, ranking_prompt
from tests.generators import question


def test_batches_hold_every_question_once_a_ranking() -> None:
    """Batches of a ranking differ by at most one in size and are other ones in every ranking."""
    questions = [question(number) for number in range(19)]

    facts = batches(questions, 8, 4)

    found = [batch for known in facts.values() for batch in known["batches"]]
    assert sorted(len(batch) for batch in found) == [6] * 8 + [7] * 4
    assert Counter(member for batch in found for member in batch) == Counter(
        dict.fromkeys(facts, 4)
    )
    assert len({tuple(sorted(batch)) for batch in found}) == 12
    assert all(batch[0] == leader for leader in facts for batch in facts[leader]["batches"])
    assert facts == batches(questions[::-1], 8, 4)


@pytest.mark.parametrize(
    ("text", "size", "order"),
    [
        ("Ranking: Q2, Q1, Q3", 3, (1, 0, 2)),
        ("<think>Q1, Q2</think>\nQ2,Q1", 2, (1, 0)),
        ("Q1 is harder than Q2.\nRanking: [Q2, Q1]", 2, (1, 0)),
        ("Ranking:\n1. Q2\n2. Q1", 2, (1, 0)),
        ("Ranking: Q2, Q1\n\nQ2 is a sum, Q1 a product.", 2, (1, 0)),
        ("Q1: The answer is 7.\n\nQ2: The answer is 3.", 2, None),  # it answers
        ("Ranking: Q1, Q2", 3, None),  # one is missing
        ("Ranking: Q1, Q1, Q2", 2, None),  # one is there twice
        ("Ranking: Q0, Q1", 2, None),
        ("Ranking: Q1, Q99999999999999", 2, None),
        ("no idea", 2, None),
        ("", 2, None),
    ],
)
def test_rankings_are_read_strictly(text: str, size: int, order: tuple[int, ...] | None) -> None:
    """Each question exactly once, or the reply does not count."""
    assert parse_ranking(text, size) == order


def test_ranking_prompt_shows_all_questions() -> None:
    """Numbered from 1, in a single user turn."""
    (message,) = ranking_prompt(["1 + 1?", "2 * 3?"])

    assert message.role == "user"
    assert "Q1: 1 + 1?\n\nQ2: 2 * 3?" in message.content
