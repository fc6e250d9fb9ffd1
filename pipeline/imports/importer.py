"""*import_log*: extracts and grades the answers of a log and writes its pool."""

from __future__ import annotations

import json
import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pydantic import ValidationError

from pipeline.answers.verdict import Verdict
from pipeline.benchmarks import Item
from pipeline.benchmarks.rows import gold_text
from pipeline.config.collection import collection_strategies
from pipeline.config.errors import described
from pipeline.config.science import PriorsConfig, ScienceConfig
from pipeline.core.errors import ConfigError, DataError
from pipeline.core.protocol import Completion, Failure, Observation, Pool, Question, Request
from pipeline.core.text import NOT_RECORDED, encodable
from pipeline.imports.arranging import (
    Arranged,
    Drawn,
    Ragged,
    arrange,
    of_one_model,
    with_golds,
)
from pipeline.imports.entries import Entry, Log, answer_of, verdict_of
from pipeline.records.questions import QUESTIONS_FILE, question_of, questions_table
from pipeline.records.trajectory import SCHEMA, row_of, table_of
from pipeline.replay.exact import drive
from pipeline.replay.pool_export import CARD, imported_card
from pipeline.replay.pool_rows import POOL_TABLE, Digests, without_texts
from pipeline.replay.pools import POOL_VERSION, Origin, Tokens, pool_sources
from pipeline.store.log_files import LogFile
from pipeline.store.storage import Folder, sha256
from pipeline.store.streams import write_tables

Labels = Literal["both", "grade", "trust"]
Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
ScoreMap = Literal["identity", "sigmoid", "percent", "exp"]

DISAGREEMENTS = "disagreements.jsonl"
MOST_DISAGREEMENTS = 0.02
"""Of labels that were graded anew, how many may differ before an import is to be looked at."""

_MAPS: dict[str, Callable[[float], float]] = {
    "identity": lambda score: score,
    "sigmoid": lambda score: 1 / (1 + math.exp(-score)) if score > -700 else 0.0,
    "percent": lambda score: score / 100,
    "exp": lambda score: math.exp(min(score, 700)),
}
_CHARACTERS_PER_TOKEN = 4
_MOST_BARE = 0.05
_ROWS = 20_000  # a row group
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What a user says about a log."""

    format: str
    model: str | None = None
    benchmark: str | None = None
    rounds: int | None = None
    samples: int | None = None
    ragged: Ragged = "best"
    labels: Labels = "both"
    score_map: ScoreMap | None = None
    scores: str | None = None
    """What gave the scores."""
    estimate_tokens: bool = False
    texts: bool = True
    licence: str = ""
    golds: tuple[Item, ...] = ()
    """Reference answers for questions whose log has none."""


@dataclass(slots=True, kw_only=True)
class ImportReport:
    """What came of an import."""

    questions: int = 0
    completions: int = 0
    failures: int = 0
    rounds: int = 0
    chains: int = 0
    samples: int = 0
    origin: Origin | None = None
    refused: list[str] = field(default_factory=list)
    bad_files: list[str] = field(default_factory=list)
    table: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Completions by (label, verdict), as far as both are known."""
    disagreements: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def drawn(self) -> str:
        """Chains and samples in words."""
        parts = []
        if self.rounds:
            chains = f"{self.chains} chains" if self.chains > 1 else "a chain"
            parts.append(f"{chains} of {self.rounds} rounds a question")
        if self.samples:
            parts.append(f"{self.samples} samples a question")
        return ", ".join(parts)

    @property
    def share_disagreeing(self) -> float:
        """Of labels that the grader could judge."""
        judged = sum(n for (_, verdict), n in self.table.items() if verdict != "ungraded")
        return len(self.disagreements) / judged if judged else 0.0


def import_log(
    log: Log,
    files: Sequence[LogFile],
    options: ImportOptions,
    address: str,
    each: Each = map,
) -> ImportReport:
    """Write the pool of a log to a new folder.

    Args:
        log: as a format's reader gives it.
        files: that it was read from.
        options: of the user.
        address: of the folder.
        each: applies a function to a sequence, in order; one that has processes is faster.

    Raises:
        ConfigError: where the folder holds a pool, or an option does not fit the log.
        DataError: where no pool can be made of the log.
    """
    folder = Folder(address.rstrip("/"))
    if folder.has("pool.json"):
        raise ConfigError(f"--out must be a new folder, {address} holds a pool")
    made = _Import(log, files, options, each)
    made.write(folder)
    return made.report


class _Import:
    def __init__(
        self, log: Log, files: Sequence[LogFile], options: ImportOptions, each: Each
    ) -> None:
        self._log, self._options = log, options
        self.report = ImportReport(refused=log.refused, bad_files=log.bad_files)
        if not log.entries:
            problems = log.bad_files + log.refused
            why = f": {problems[0]}" if problems else ""
            raise DataError(f"a log must hold completions, got none{why}")
        entries, model = of_one_model(log.entries, options.model)
        if model is None:
            self._note("the log does not name its model: it is called unknown (--model NAME)")
        self._model = model or "unknown"
        if options.benchmark is not None:
            named = {entry.benchmark for entry in entries if entry.benchmark is not None}
            if len(named) > 1 and options.benchmark in named:
                entries = [entry for entry in entries if entry.benchmark == options.benchmark]
        entries = self._with_answers(entries)
        if golds := [item for item in options.golds if item.gold is not None]:
            by_id = {item.question_id: item.gold or "" for item in golds}
            by_text = {" ".join(item.text.split()): item.gold or "" for item in golds}
            entries = with_golds(entries, by_id, by_text)
        self._digests = Digests()
        answered = [entry for entry in entries if entry.error is None]
        recorded = [(entry.text, entry.answer, options.labels == "trust") for entry in answered]
        answers = list(each(answer_of, recorded))
        self._answers = {id(entry): answer for entry, answer in zip(answered, answers, strict=True)}
        pairs = list(
            dict.fromkeys(
                (_reference(gold), answer)
                for entry, answer in zip(answered, answers, strict=True)
                if answer is not None and (options.labels != "trust" or entry.right is None)
                for gold in entry.gold
            )
        )
        verdicts = each(verdict_of, pairs)
        self._graded: dict[tuple[str, str], str] = dict(zip(pairs, verdicts, strict=True))
        arranged = arrange(
            entries,
            benchmark=options.benchmark or "imported",
            rounds=options.rounds,
            samples=options.samples,
            ragged=options.ragged,
            is_right=self._is_right,
        )
        if log.bad_files:
            arranged.dropped["files that cannot be read"] = len(log.bad_files)
        self._arranged = arranged
        self._questions = self._with_references(arranged)
        self._tokens = self._tokens_of()
        self._mapped, self._scores = self._scores_of()
        self._origin = Origin(
            format=options.format,
            sources=tuple(
                {"name": posixpath.basename(file.path), "sha256": file.digest} for file in files
            ),
            licence=options.licence,
            prompts="known" if self._prompts_known else "not recorded",
            context=log.context if arranged.rounds else "none",
            labels=options.labels,
            tokens=self._tokens,
            scores=self._scores,
            dropped=dict(arranged.dropped),
        )
        self.report.origin = self._origin
        self.report.rounds, self.report.samples = arranged.rounds, arranged.samples
        self.report.chains = arranged.chains

    def write(self, folder: Folder) -> None:
        """Write the pool's files; ``pool.json`` last, without which there is none."""
        science = self._science()
        items = [
            Item(
                benchmark=self._name(one.benchmark),
                question_id=one.question_id,
                text=encodable(one.facts.question or NOT_RECORDED),
                gold=encodable(_gold(one) or NOT_RECORDED),
                level=one.facts.level,
            )
            for one in self._questions
        ]
        questions = questions_table(items, science.seed, PriorsConfig())
        folder.write_table(QUESTIONS_FILE, questions)
        write_tables(folder, POOL_TABLE, SCHEMA, self._tables(science, questions))
        if self.report.disagreements:
            lines = [_line(one) for one in self.report.disagreements]
            folder.write(DISAGREEMENTS, "".join(lines).encode())
        names = (POOL_TABLE, QUESTIONS_FILE)
        self.report.questions = len(items)
        count, drawn = self.report.completions, self.report.drawn
        card = imported_card(science, self._origin, len(items), count, drawn)
        folder.write(CARD, card.encode())
        folder.write_json(
            "pool.json",
            {
                "version": POOL_VERSION,
                "run": folder.address.rpartition("/")[2],
                "synthetic": False,
                "texts": self._options.texts,
                "science": science.model_dump(mode="json", exclude={"answer_rules"}),
                "imported": self._origin.as_json(),
                "sha256": {name: sha256(folder.read(name)) for name in names},
            },
        )

    def _note(self, text: str) -> None:
        self.report.notes.append(text)

    def _with_answers(self, entries: list[Entry]) -> list[Entry]:
        """Right completions whose answer the log left out have given the reference answer.

        Raises:
            DataError: where that is more than a few: votes cannot be made of labels.
        """
        right = [entry for entry in entries if entry.right and entry.error is None]
        bare = {id(entry) for entry in right if entry.text is None and entry.answer is None}
        if not bare:
            return entries
        if len(bare) > _MOST_BARE * len(right) or any(not e.gold for e in right if id(e) in bare):
            example = next(entry for entry in right if id(entry) in bare)
            raise DataError(
                f"completions must have a text or an answer, of which votes are made; "
                f"{len(bare):,} of {len(right):,} that are labelled right have neither, such as "
                f"{example.where}"
            )
        self._note(
            f"{len(bare):,} completions that are labelled right have no answer recorded: they "
            "count as the reference answer"
        )
        return [replace(e, answer=e.gold[0]) if id(e) in bare else e for e in entries]

    def _with_references(self, arranged: Arranged) -> list[Drawn]:
        """Questions that can be judged: by a reference answer, or by labels."""
        questions = arranged.questions
        kept = [one for one in questions if one.facts.gold or _is_labelled(one)]
        if not kept:
            raise DataError(
                "a question must have a reference answer or labels, none has: give them with "
                "--gold FILE (a benchmark file; rows are found by id, else by the question's text)"
            )
        if len(kept) < len(questions):
            what = "questions without reference answer and labels"
            arranged.dropped[what] = len(questions) - len(kept)
        return kept

    def _entries(self) -> Iterator[Entry]:
        for one in self._questions:
            for chain in one.chains:
                yield from chain
            yield from one.samples

    def _tokens_of(self) -> Tokens:
        had = [entry for entry in self._entries() if entry.error is None]
        lacking = [entry for entry in had if entry.tokens is None]
        if lacking and self._options.estimate_tokens:
            if any(entry.text is None for entry in lacking):
                raise ConfigError(
                    "--tokens estimate must come with texts, which are measured; "
                    f"{lacking[0].where} has none"
                )
            self._note(f"tokens of {len(lacking):,} completions are estimated from their length")
            return "estimated"
        if lacking:
            if len(lacking) < len(had):
                self._note(
                    f"{len(lacking):,} of {len(had):,} completions have no tokens: none are used "
                    "(--tokens estimate)"
                )
            return "none"
        return "estimated" if any(entry.tokens_estimated for entry in had) else "recorded"

    def _scores_of(self) -> tuple[str, str]:
        """How scores are mapped and what gave them; "" twice where there are none."""
        had = [entry for entry in self._entries() if entry.error is None]
        known = [entry for entry in had if entry.score is not None]
        if not known:
            return "", ""
        if len(known) < len(had):
            self._note(f"{len(known):,} of {len(had):,} completions have a score: none are used")
            return "", ""
        how = self._options.score_map or self._log.score_map or "identity"
        for entry in known:
            assert entry.score is not None
            mapped = _MAPS[how](entry.score)
            if not 0 <= mapped <= 1:
                values = [other.score for other in known if other.score is not None]
                raise DataError(
                    f"scores must be in [0, 1] after --score-map {how}, got {entry.score:g} in "
                    f"{entry.where} (all lie in {min(values):g} ... {max(values):g}): sigmoid is "
                    "for raw values of reward models, percent for 0 to 100, exp for mean "
                    "log-probabilities"
                )
        name = self._options.scores or self._log.scores or "score"
        return how, name if how == "identity" else f"{name} ({how})"

    @property
    def _prompts_known(self) -> bool:
        return self._log.prompts is not None and self._options.texts

    def _science(self) -> ScienceConfig:
        """The configuration of the collection that would have drawn this pool."""
        arranged = self._arranged
        names = dict.fromkeys(self._name(one.benchmark) for one in self._questions)
        values: dict[str, Any] = {
            "benchmarks": [{"name": name, "path": f"{name}.jsonl"} for name in names],
            "strategies": collection_strategies(arranged.rounds, arranged.samples, arranged.chains),
            "decoding": self._log.decoding,
            "generator": {"model": self._model, "stop_flag": self._stop_flag()},
        }
        if self._prompts_known:
            values["prompts"] = self._log.prompts
        if self._scores:
            values["verifier"] = {"model": self._scores}
        try:
            return ScienceConfig.model_validate(values)
        except ValidationError as error:
            raise DataError(f"{described(error)} (from the log)") from error

    def _stop_flag(self) -> str | None:
        """What stands for a pattern where every completion has the log's own flag."""
        had = [entry for entry in self._entries() if entry.error is None]
        return "(recorded)" if all(entry.says_stop is not None for entry in had) else None

    def _name(self, benchmark: str) -> str:
        named = self._options.benchmark if len(self._benchmarks) == 1 else None
        name = _NOT_IN_NAMES.sub("-", named or benchmark).strip("-._")[:64]
        return name or "imported"

    @property
    def _benchmarks(self) -> set[str]:
        return {one.benchmark for one in self._arranged.questions}

    def _tables(self, science: ScienceConfig, questions: pa.Table) -> Iterator[pa.Table]:
        rows: list[dict[str, Any]] = []
        strategies = pool_sources(science)
        for facts, one in zip(questions.to_pylist(), self._questions, strict=True):
            question = question_of(facts)
            for source in strategies:
                held = one.samples if source.pool is Pool.PARALLEL else one.chains[source.chain]
                answer = partial(self._recorded, rows, one, held, source.label, question)
                drive(source.strategy, question, answer)
            if len(rows) >= _ROWS:
                yield self._table(rows)
                rows.clear()
        if rows:
            yield self._table(rows)

    def _recorded(
        self,
        rows: list[dict[str, Any]],
        one: Drawn,
        held: Sequence[Entry],
        label: str,
        question: Question,
        request: Request,
    ) -> Observation:
        """What answers a request, noted as a row of the pool."""
        entry = held[request.round if request.pool is Pool.SEQUENTIAL else request.sample]
        seen = self._observation(entry)
        row = row_of(
            run=self._options.format,
            attempt=1,
            strategy=label,
            question=question,
            request=request,
            observation=seen,
            generator=self._model,
            verifier=self._scores or None,
            digest=self._digests.of(request),
        )
        if self._tokens == "none":
            row["completion_tokens"] = None
        row["verdict"] = self._verdict(one, entry, seen)
        rows.append(row)
        return seen

    def _table(self, rows: Sequence[dict[str, Any]]) -> pa.Table:
        self.report.completions += sum(row["error"] is None for row in rows)
        self.report.failures += sum(row["error"] is not None for row in rows)
        table = table_of(rows)
        return table if self._options.texts else without_texts(table)

    def _observation(self, entry: Entry) -> Observation:
        if entry.error is not None:
            first = encodable(entry.error.strip().partition("\n")[0][:300])
            return Failure(error=f"imported: {first}", completion_tokens=entry.tokens)
        text = encodable(entry.text if entry.text is not None else entry.answer or "")
        tokens = entry.tokens
        if tokens is None:
            tokens = math.ceil(len(text) / _CHARACTERS_PER_TOKEN)
        score = None
        if self._scores and entry.score is not None:
            score = float(_MAPS[self._mapped](entry.score))
        return Completion(
            text=text,
            answer=self._answers[id(entry)],
            finish_reason=entry.finish_reason,
            prompt_tokens=entry.prompt_tokens or 0,
            completion_tokens=tokens,
            thinking_tokens=min(entry.thinking_tokens or 0, tokens),
            score=score,
            step_scores=None if score is None else (score,),
            says_stop=entry.says_stop,
        )

    def _verdict(self, one: Drawn, entry: Entry, seen: Observation) -> str | None:
        if not isinstance(seen, Completion):
            return None
        label = None if entry.right is None else ("right" if entry.right else "wrong")
        if self._options.labels == "trust" and label is not None:
            return label
        verdict = self._grade(one.facts.gold, seen.answer)
        if label is None or verdict is None:
            return verdict or label
        if self._options.labels == "both":
            self._compare(one, entry, seen.answer, label, verdict)
        return label if verdict == Verdict.UNGRADED.value else verdict

    def _grade(self, golds: Sequence[str], answer: str | None) -> str | None:
        if not golds:
            return None
        if answer is None:
            return Verdict.WRONG.value
        found = [self._graded_once(_reference(gold), answer) for gold in golds]
        order = (Verdict.RIGHT.value, Verdict.UNGRADED.value, Verdict.WRONG.value)
        return min(found, key=order.index)

    def _graded_once(self, gold: str, answer: str) -> str:
        key = (gold, answer)
        if key not in self._graded:  # the reference of another completion of the question
            self._graded[key] = verdict_of(key)
        return self._graded[key]

    def _compare(
        self, one: Drawn, entry: Entry, answer: str | None, label: str, verdict: str
    ) -> None:
        self.report.table[label, verdict] += 1
        if verdict not in (label, Verdict.UNGRADED.value):
            self.report.disagreements.append(
                {
                    "question_id": one.question_id,
                    "where": entry.where,
                    "gold": one.facts.gold[0],
                    "answer": answer,
                    "recorded": entry.answer,
                    "label": label,
                    "verdict": verdict,
                }
            )

    def _is_right(self, entry: Entry) -> bool | None:
        """By the log's own label, by which an oracle would have stopped; else graded."""
        if entry.right is not None or entry.error is not None:
            return entry.right
        verdict = self._grade(entry.gold, self._answers[id(entry)])
        return None if verdict is None else verdict == Verdict.RIGHT.value


def _is_labelled(one: Drawn) -> bool:
    drawn = [*one.samples, *(entry for chain in one.chains for entry in chain)]
    return all(entry.right is not None for entry in drawn if entry.error is None)


def _gold(one: Drawn) -> str | None:
    return _reference(one.facts.gold[0]) if one.facts.gold else None


def _reference(gold: str) -> str:
    try:
        return gold_text(gold)
    except DataError:
        return gold


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True) + "\n"
