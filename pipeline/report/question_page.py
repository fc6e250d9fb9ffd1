"""The page of one question: every chain round by round, and why each of them stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from pipeline.answers.answer_rules import OwnRule, apply
from pipeline.core.protocol import Completion, Pool, Stop, StopReason
from pipeline.records.outcome import counted_verdict
from pipeline.records.trajectory import Seen
from pipeline.report import words
from pipeline.report.figure import facts
from pipeline.report.html import Html, h
from pipeline.report.run_data import Cell
from pipeline.report.svg import Size, line, mark, path, picture, plot, text
from pipeline.theory.markov import stationary_accuracy
from pipeline.theory.stopping import STOP_RULES, why_stopped

_VERDICTS = {"right": "✓ right", "wrong": "✗ wrong", "ungraded": "? ungraded"}
_CHAIN = Size(width=340, height=104, narrow=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One chain of a question, as its page shows it."""

    cell: Cell
    outcome: Seen
    completions: Sequence[Seen]
    """From the journal; [] where they are not at hand."""


def question_page(question: Seen, chains: Sequence[Shown]) -> Html:
    """Everything of one question."""
    known: Mapping[str, str | None] = {
        "benchmark": question["benchmark"],
        "question": question["question_id"],
        "level": question["level"],
        "subject": question["subject"],
        "gold answer": question["gold"],
    }
    return h(
        "article",
        facts([(name, _isolated(value)) for name, value in known.items() if value is not None]),
        h("pre", question["text"], cls="text", dir="auto"),
        *map(_chain, chains),
        cls="question",
    )


def why(cell: Cell, row: Seen) -> str:
    """Why a chain stopped, with the numbers that decided it."""
    drawn, path = row["completions"], row["posterior_path"]
    match StopReason(row["stop_reason"]):
        case StopReason.FAILED:
            return f"Failed: {row['error'] or 'a completion could not be had'}."
        case StopReason.GATED:
            if None in (row["p0"], row["a"], row["b"]):
                return f"Gated after {words.plural(drawn, 'completion')}."
            margin = getattr(cell.strategy, "sigma", 0.0)
            limit = stationary_accuracy(row["a"], row["b"])
            return (
                f"Gated after {words.plural(drawn, 'completion')}: p0 = {words.decimal(row['p0'])} "
                f"({row['p0_source']}) is not below L + σ = {words.decimal(limit + margin)}, so "
                f"further rounds are not expected to help (Theorem 1)."
            )
        case StopReason.CONFIDENT:
            told = f"Confident after {words.plural(drawn, 'completion')}"
            return f"{told}: {_rule(cell, row)}." if _has_rule(cell, row) else f"{told}."
        case StopReason.AGREED:
            return f"The samples agreed after {words.plural(drawn, 'completion')}."
        case StopReason.BUDGET:
            ended = f", with a belief of p_MAP = {words.decimal(path[-1])}" if path else ""
            return f"The budget of {words.plural(drawn, 'completion')} was drawn{ended}."
        case StopReason.FINISHED:
            return f"The method's own steps were done, {words.plural(drawn, 'completion')} in all."
        case other:
            assert_never(other)


def _has_rule(cell: Cell, row: Seen) -> bool:
    """Whether it stopped by one of MarkovScale's rules; others are confident in their own way."""
    known = getattr(cell.strategy, "stop_rule", None) in STOP_RULES and row["posterior_path"]
    return bool(known) and None not in (row["a"], row["b"])


def _rule(cell: Cell, row: Seen) -> str:
    return why_stopped(
        cell.strategy, row["posterior_path"], a=row["a"], b=row["b"], number=words.decimal
    )


def _chain(shown: Shown) -> Html:
    cell, row = shown.cell, shown.outcome
    rule = cell.rule.value
    verdict = counted_verdict(row, cell.rule)
    chosen = _chosen(cell, row)
    rounds = len(row["round_answers"])
    texts: Sequence[Seen | None] = (
        shown.completions if len(shown.completions) == rounds else [None] * rounds
    )
    return h(
        "section",
        h("h4", cell.name, " ", _badge(verdict)),
        h("p", why(cell, row), cls="why", dir="auto"),
        h(
            "p",
            f"Answer by {rule}: ",
            _isolated(row[f"answer_{rule}"] or "none"),
            f". {words.count(row['completion_tokens'])} completion tokens.",
        ),
        _beliefs(cell, row) if sum(s is not None for s in row["round_scores"]) > 1 else None,
        h(
            "ol",
            *(_round(cell, row, r, texts[r], chosen=r == chosen) for r in range(rounds)),
            cls="rounds",
            start="0",
        ),
        None
        if len(shown.completions) == rounds
        else h("p", "The text of these completions is not in the journal as they were asked for."),
        cls="chain",
    )


def _round(cell: Cell, row: Seen, r: int, recorded: Seen | None, *, chosen: bool) -> Html:
    score, path = row["round_scores"][r], row["posterior_path"]
    last = r == len(row["round_answers"]) - 1
    sampled = recorded is not None and recorded["pool"] == Pool.PARALLEL
    which = f"sample {r}" if sampled else f"round {r}"
    told = [h("span", which, cls="which")]
    told.append(h("span", "answer ", _isolated(row["round_answers"][r] or "none"), cls="answer"))
    told.append(_badge(row["round_verdicts"][r]))
    if score is not None:
        told.append(h("span", f"score {words.decimal(score)}"))
    if r < len(path):
        told.append(h("span", f"p_MAP {words.decimal(path[r])}"))
    told.append(h("span", f"{words.count(row['round_tokens'][r])} tokens"))
    if chosen:
        told.append(h("span", "the answer", cls="chosen"))
    told.append(h("span", row["stop_reason"] if last else "went on", cls="decision"))
    return h("li", h("div", *told, cls="told"), _text(recorded))


def _text(recorded: Seen | None) -> Html | None:
    if recorded is None:
        return None
    if recorded["error"] is not None:
        return h("pre", recorded["error"], cls="text", dir="auto")
    notes = [recorded["finish_reason"]] if recorded["finish_reason"] != "stop" else []
    notes += ["leading steps dropped for the verifier"] if recorded["prm_truncated"] else []
    return h(
        "details",
        h("summary", "text", f" ({', '.join(map(str, notes))})" if notes else None),
        h("pre", recorded["text"] or "", cls="text", dir="auto"),
    )


def _badge(verdict: str | None) -> Html:
    return h("span", _VERDICTS.get(verdict or "", "not graded"), cls=f"verdict {verdict or 'none'}")


def _isolated(content: str | None) -> Html:
    """Text of unknown direction that must not turn its neighbours around."""
    return h("bdi", content)


def _chosen(cell: Cell, row: Seen) -> int | None:
    """Position of the answer under the headline rule; None where it cannot be told: the code of a
    user's own rule is not asked, it may not be installed here."""
    if isinstance(cell.rule, OwnRule):
        answer = row[f"answer_{cell.rule}"]
        same = [i for i in row["stop_rounds"] if row["round_answers"][i] == answer]
        return same[0] if len(same) == 1 else None
    drawn = [
        Completion(text="", answer=answer, score=score)
        for answer, score in zip(row["round_answers"], row["round_scores"], strict=True)
    ]
    stop = Stop(reason=StopReason(row["stop_reason"]), rounds=tuple(row["stop_rounds"]))
    found = apply(cell.rule, drawn, stop)
    if found is None or found.answer != row[f"answer_{cell.rule.value}"]:
        return None
    return found.position


def _beliefs(cell: Cell, row: Seen) -> Html:
    """Scores as points, the posterior mode as a line, tau as a rule."""
    scores = [(r, s) for r, s in enumerate(row["round_scores"]) if s is not None]
    path_, tau = row["posterior_path"], getattr(cell.strategy, "tau", None)
    area = plot(_CHAIN, (-0.4, len(row["round_scores"]) - 0.6), (0.0, 1.0), left=26, bottom=16,
                top=8, right=26)  # fmt: skip
    x, y = area.x, area.y
    drawn = [line((x.start, y(v)), (x.end, y(v)), "grid") for v in (0.0, 0.5, 1.0)]
    drawn += [text(x.start - 4, y(v) + 4, f"{v:g}", "tick", anchor="end") for v in (0.0, 1.0)]
    if tau is not None and path_:
        drawn.append(line((x.start, y(tau)), (x.end, y(tau)), "limit"))
        drawn.append(text(x.end + 4, y(tau) + 4, "τ", "tick"))
    if path_:
        drawn.append(path([(x(r), y(p)) for r, p in enumerate(path_)], "s1"))
    for r, score in scores:
        drawn.append(mark(0, x(r), y(score), "s0 small", f"round {r}: score {score:.3f}"))
    said = f"Scores by round: {', '.join(words.decimal(s, 2) for _, s in scores)}"
    if path_:
        said += f"; posterior mode: {', '.join(words.decimal(p, 2) for p in path_)}"
    return h(
        "div",
        picture(_CHAIN, drawn, label=said),
        h("p", "points: verifier score" + ("; line: p_MAP" if path_ else ""), cls="hint"),
        cls="beliefs",
    )
