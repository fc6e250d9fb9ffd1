"""The main result of a run as computed sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.answers.answer_rules import Rule
from pipeline.report import words
from pipeline.report.comparison import accuracy, best_rule
from pipeline.report.run_data import OURS, Cell
from pipeline.results.compare import Comparison
from pipeline.statistics.intervals import mean_interval
from pipeline.statistics.paired import least_discordant


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The main message of one benchmark."""

    benchmark: str
    headline: str
    sentences: tuple[str, ...]
    lead: Comparison | None
    """The comparison that the headline speaks of."""


def message_of(benchmark: str, cells: Sequence[Cell], made: Sequence[Comparison]) -> Message:
    """What the cells of one run say on one benchmark, the strongest statement first.

    Args:
        benchmark: its name.
        cells: of the run and benchmark.
        made: comparisons with MR-Thinking, of this run and of those beside it.

    The headline names MR-Thinking at its best first, then Base, then the MarkovScale variant (any
    strategy, where none was run) with most right answers above MR-Thinking at the same N, of equals
    the one that saves most tokens. The p-value it quotes is corrected for all that was looked at.
    """
    lead = _lead([c for c in made if any(c.first.of.cell is cell for cell in cells)])
    graded = any(accuracy(cell, cell.rule) is not None for cell in cells)
    base = next((cell for cell in cells if cell.kind == "base"), None)
    if graded and not any(any(cell.rights(rule).values()) for cell in cells for rule in cell.rules):
        n = max(len(cell.rows) for cell in cells)
        of_all = f"none of {words.plural(n, 'question')} of {benchmark}"
        headline = f"Nothing was answered right: {of_all}"
        sentences = ["That holds for every strategy and answer rule, so none can be compared."]
        lead = None
    elif lead is not None and lead.accuracy is not None:
        headline = _headline(lead, base)
        sentences = [*_selection(lead), _figures(lead, base), _difference(lead)]
    elif not graded:
        headline = (
            f"No gold answers are known for {benchmark}: tokens are reported, accuracy is not"
        )
        sentences = []
    else:
        best = max(cells, key=lambda cell: _value(cell))
        interval = accuracy(best, best.rule)
        headline = f"{best.name} answers {words.percent(_value(best))} of {benchmark} right"
        sentences = [
            f"Its 95 % interval is {words.percent_range(interval)}. No MR-Thinking run of the same "
            f"N stands beside it, so nothing is said on tokens saved."
        ]
    if graded:
        sentences.append(_worth(benchmark, cells))
    return Message(benchmark=benchmark, headline=headline, sentences=tuple(sentences), lead=lead)


def one_question(n: int) -> str:
    """What a single question weighs, and the least difference that a paired test can call."""
    least = least_discordant()
    if least > n:
        return f"one question is worth {words.magnitude(1 / n)} points"
    return (
        f"one question is worth {words.magnitude(1 / n)} points, and the exact paired test "
        f"calls no difference below {least} questions ({words.magnitude(least / n)} points)"
    )


def most_graded(cells: Sequence[Cell]) -> int:
    """Questions that are graded under the headline rule of the strategy that has most of them."""
    return max(len(cell.rights(cell.rule)) for cell in cells)


def verdict_words(comparison: Comparison) -> str:
    """Whether the accuracies differ, in a few words."""
    if comparison.accuracy is None:
        return "not graded"
    if not comparison.distinguishable:
        return "cannot be told apart"
    return "more accurate" if comparison.accuracy.value > 0 else "less accurate"


def _lead(made: Sequence[Comparison]) -> Comparison | None:
    candidates = [c for c in made if c.first.kind in OURS] or list(made)
    return max(candidates, key=lambda c: (_gain(c), _saving(c)), default=None)


def _saving(comparison: Comparison) -> float:
    return 0.0 if comparison.saved is None else comparison.saved.value


def _gain(comparison: Comparison) -> float:
    return 0.0 if comparison.accuracy is None else comparison.accuracy.value


def _ends(comparison: Comparison) -> tuple[float, float]:
    assert comparison.accuracy is not None  # of every lead
    return comparison.accuracy.low, comparison.accuracy.high


def _value(cell: Cell) -> float:
    interval = accuracy(cell, cell.rule)
    return -1.0 if interval is None else interval.value


def _headline(lead: Comparison, base: Cell | None) -> str:
    cell, rival = lead.first.of.cell, lead.second.of.cell
    best = best_rule(rival)
    told = (
        f"{rival.method} answers {_percent(rival, best)} of {rival.benchmark} right at its best "
        f"({best.value})"
    )
    if base is not None and base is not cell:
        told += f", {base.method} {_percent(base, base.rule)}"
    first = f"{cell.name}, with {_percent(cell, lead.first.of.rule)}"
    if lead.first.rule != best.value:
        first += f" ({lead.first.rule})"
    cost, saves = _cost(lead)
    gain, low, high = _gain(lead), *_ends(lead)
    questions = words.plural(lead.n_questions, "question")
    if not lead.distinguishable:
        joined = "and" if saves and not high < 0 else "but"
        if gain and (low > 0 or high < 0):  # the interval says more than the corrected test
            return (
                f"{told}; {first}, lies {words.magnitude(gain)} points "
                f"{'above' if gain > 0 else 'below'} {rival.method}, which {questions} do not "
                f"settle, {joined} {cost}"
            )
        return (
            f"{told}; {first}, cannot be told from {rival.method} in accuracy on {questions}, "
            f"{joined} {cost}"
        )
    joined = "and" if saves == (gain > 0) else "but"
    more = "more" if gain > 0 else "fewer"
    return (
        f"{told}; {first}, answers {more} questions right than {rival.method} "
        f"({words.points(gain)} points), {joined} {cost}"
    )


def _percent(cell: Cell, rule: Rule) -> str:
    interval = accuracy(cell, rule)
    return words.percent(None if interval is None else interval.value)


def _cost(lead: Comparison) -> tuple[str, bool]:
    saved = lead.saved
    if saved is None or saved.low <= 0 <= saved.high:
        return "spends about as many tokens", False
    if saved.value > 0:
        return f"spends {words.percent(saved.value, 0)} fewer tokens", True
    return f"spends {words.percent(-saved.value, 0)} more tokens", False


def _figures(lead: Comparison, base: Cell | None) -> str:
    parts = []
    read = [lead.first.of, lead.second.of]
    told = [(one.cell, one.rule) for one in read]
    if base is not None and base is not lead.first.of.cell:
        told.append((base, base.rule))
    for cell, rule in told:
        tokens = mean_interval(cell.tokens)
        parts.append(
            f"{cell.method} {words.percent_with(accuracy(cell, rule))} by {rule.value} with "
            f"{words.count(tokens.value)} tokens a question"
        )
    saved = (
        ""
        if lead.saved is None
        else (f" Tokens saved: {words.percent_with(lead.saved)} (95 % interval).")
    )
    return f"Accuracy at N = {lead.second.n}, each by its answer rule: {'; '.join(parts)}.{saved}"


def _difference(lead: Comparison) -> str:
    assert lead.accuracy is not None
    assert lead.p_adjusted is not None
    corrected = f", corrected for {lead.tests} comparisons" if lead.tests > 1 else ""
    sentence = (
        f"The difference in accuracy is {words.points(lead.accuracy.value)} points "
        f"{words.points_range(*_ends(lead))}: "
        f"{words.plural(lead.only_first, 'question')} only {lead.first.method} has right, "
        f"{lead.only_second} only {lead.second.method} (exact McNemar test, "
        f"{words.p_value(lead.p_adjusted)}{corrected})."
    )
    if lead.distinguishable:
        return sentence
    low, high = _ends(lead)
    if low > 0 or high < 0:
        return (
            f"{sentence} The interval of this one comparison leaves out zero, but the corrected "
            f"test does not reject: that is no proof of equal accuracy, nor of a difference."
        )
    return (
        f"{sentence} That is no proof of equal accuracy: the data agree with anything within the "
        f"interval."
    )


def _selection(lead: Comparison) -> list[str]:
    """What the lead's answer rule alone makes of the rival's completions, whatever the stopping."""
    rival, rule = lead.second.of.cell, lead.first.of.rule
    if rule is rival.rule:
        return []
    own, same = accuracy(rival, rival.rule), accuracy(rival, rule)
    if own is None or same is None:
        return []
    return [
        f"Choosing among all completions of {rival.method} by {rule.value}, as "
        f"{lead.first.method} does, gives {words.percent(same.value)}; by {rival.rule.value}, as "
        f"{rival.method} does, {words.percent(own.value)} "
        f"({words.points(same.value - own.value)} points, without any stopping)."
    ]


def _worth(benchmark: str, cells: Sequence[Cell]) -> str:
    n = most_graded(cells)
    half = max(
        (i.half_width for cell in cells if (i := accuracy(cell, cell.rule)) is not None),
        default=0.0,
    )
    return (
        f"{benchmark} has {words.plural(n, 'graded question')} here: {one_question(n)}; the widest "
        f"interval of an accuracy here is ±{words.magnitude(half)} points."
    )
