"""The rules of scripted engines."""

import pytest

from actors.engines.scripted import gold, reply, rows
from pipeline.benchmarks.generated import questions
from pipeline.config.runtime import Script
from tools.problems import TINY_PROMPTS


@pytest.mark.parametrize("benchmark", ["arithmetic", "sums", "steps-2", "steps-12"])
def test_the_gold_of_a_generated_question_is_its_value(benchmark: str) -> None:
    """So scripted runs over the built-in benchmarks have real accuracies."""
    drawn = questions(benchmark, 20, split="test", seed=0)

    assert [gold(q.text) for q in drawn] == [q.gold for q in drawn]
    assert gold("What is love?") == gold("What is love?\nPlease reason step by step.")


def test_replies_follow_the_chain() -> None:
    """First answers are right with p0, right ones stay with 1 - a, wrong ones mend with b."""
    script, n = Script(p0=0.6, a=0.1, b=0.3), 4_000
    question = questions("arithmetic", 1, split="test", seed=0)[0]

    def share(prompt: str) -> float:
        right = f"\\boxed{{{question.gold}}}"
        return sum(right in reply(prompt, seed, script)[0] for seed in range(n)) / n

    first = share(question.text)
    kept = share(TINY_PROMPTS.ask_again(question.text, question.gold)[0].content)
    mended = share(TINY_PROMPTS.ask_again(question.text, "1")[0].content)

    tolerance = 4 * (0.25 / n) ** 0.5
    assert abs(first - 0.6) < tolerance
    assert abs(kept - 0.9) < tolerance
    assert abs(mended - 0.3) < tolerance


def test_scripted_rows_are_probabilities() -> None:
    """One row a step; each sums to one."""
    scored = rows("what?", "one\n\ntwo \\boxed{1}", None)

    assert len(scored) == 2
    assert all(abs(sum(row) - 1) < 1e-12 and min(row) >= 0 for row in scored)
