"""*StepReader*: scores all steps of a prompt in one forward pass, by the logits at its tags.

`qwen_prm`, `token_pair` and `one_column` differ in the head that makes the rows and in how a row
becomes a score; the rest is here. vLLM's pooling runner returns the rows of all tokens, and those
at the tags' places are taken: by place and not by token, so that nothing in a text can pass for a
tag.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from actors.engines import vllm_engine, vllm_setup
from actors.engines.prompting import rendered
from actors.engines.verifiers.kind import (
    LANGUAGE_MODELS,
    ModelShape,
    Running,
    Scores,
    Solution,
    described,
    refused,
    shape_of,
    special_tokens,
    token_of,
    tokens_of,
    unforged,
)
from pipeline.config.models import VerifierModel
from pipeline.config.runtime import PoolConfig
from pipeline.core import prm
from pipeline.core.errors import ConfigError
from pipeline.core.prm import Fitted
from pipeline.core.protocol import Failure
from pipeline.core.step_format import MARK, StepFormat, clean, cut_at_tags, text_of, turns_of


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids, and the places whose rows are the scores of steps."""

    ids: list[int]
    places: list[int]


class StepReader(ABC):
    """A `Kind`; subclasses say which head they need and how its rows are read."""

    activation: ClassVar[bool] = False
    """Whether vLLM turns logits into probabilities."""

    def __init__(self, model: VerifierModel, tokenizer: Any) -> None:
        self.model, self.form, self.tokenizer = model, model.form, tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise refused(
                model, f"{type(tokenizer).__name__}, without", "a fast tokenizer, with offsets,"
            )
        self.marks = special_tokens(tokenizer)
        self.tag_id: int | None = None
        if self.form.read == "at" or self.form.pieces:
            self.tag_id = token_of(model, tokenizer, self.form.tag, "step_separator")
        self.check(shape_of(model))
        some = tokenizer.encode(self.form.tag, add_special_tokens=False)[:1]
        self.probe = Solution("", ("",), False, [Prompt(some, [0])])

    @abstractmethod
    def check(self, has: ModelShape) -> None:
        """Refuse a model without the head that the kind reads."""

    @abstractmethod
    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """Scores of steps from the rows at their tags."""

    def overrides(self) -> dict[str, Any]:
        """Fields of the model's config.json that vLLM shall read otherwise."""
        return {}

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        overrides = self.overrides()
        return {
            **vllm_setup.token_rows(activation=self.activation),
            **({"hf_overrides": overrides} if overrides else {}),
            # every place of a prompt is needed, in one forward pass
            "enable_prefix_caching": False,
            "enable_chunked_prefill": False,
        }

    def check_pool(self, pool: PoolConfig, context: int | None) -> None:
        """See `Kind.check_pool`: a prompt is read in one piece, so a step must hold a context."""
        step = pool.engine.max_num_batched_tokens
        if context is not None and step < context:
            raise ConfigError(
                f"max_num_batched_tokens of the verifier must be at least its context of "
                f"{context:,} tokens, got {step:,}"
            )

    def split(self, reply: str) -> tuple[str, ...]:
        """See `Kind.split`."""
        separator = self.form.tag if clean(self.form, self.form.tag) == "" else MARK
        steps = prm.split_steps(
            reply, separator=separator, text=self.model.text, at=self.form.split
        )
        return unforged(steps, self.marks)

    def clean(self, text: str) -> str:
        """See `Kind.clean`."""
        return clean(self.form, prm.without(text, *self.marks))

    def length(self, problem: str, steps: Sequence[str]) -> int:
        """See `Kind.length`."""
        text = self._marked(problem, steps)
        if self.form.pieces:
            return len(self._encoded(text.split(MARK)).ids)
        return len(self._ids(text.replace(MARK, self.form.tag)))

    def solution(self, problem: str, fitted: Fitted) -> Solution:
        """See `Kind.solution`."""
        steps = fitted.steps
        groups = [steps[:count] for count in range(1, len(steps) + 1)]
        if not self.form.one_by_one:
            groups = [steps]
        prompts = [self._prompt(problem, group) for group in groups]
        return Solution(problem, steps, fitted.truncated, prompts)

    async def run(self, running: Running, solution: Solution, request_id: str) -> Scores | Failure:
        """See `Kind.run`."""
        prompts: list[Prompt] = solution.prompts
        answers = await asyncio.gather(
            *(
                vllm_engine.token_rows(running.llm, prompt.ids, prompt.places, f"{request_id}-{n}")
                for n, prompt in enumerate(prompts)
            )
        )
        rows: list[list[float]] = []
        for answer in answers:
            if isinstance(answer, Failure):
                return answer
            rows += answer
        scores = self.scores(rows, len(solution.steps))
        return Scores(scores, read=sum(len(prompt.ids) for prompt in prompts))

    def _prompt(self, problem: str, steps: Sequence[str]) -> Prompt:
        tags = 1 if self.form.one_by_one else len(steps)
        prompt = self._encoded(cut_at_tags(self.form, self._marked(problem, steps), tags))
        if self.form.read == "at" and any(prompt.ids[i] != self.tag_id for i in prompt.places):
            raise ValueError(
                f"step_separator {self.form.tag!r} must stay one token after every step, got "
                f"{self.tokenizer.convert_ids_to_tokens([prompt.ids[i] for i in prompt.places])}"
            )
        if len({*prompt.places}) != tags or min(prompt.places) < 0:
            raise ValueError(
                f"each of {tags} tags must be read at a token of its own, got {prompt.places}"
            )
        return prompt

    def _marked(self, problem: str, steps: Sequence[str]) -> str:
        """The prompt's text, with a mark where tags stand."""
        if self.form.layout == "text":
            return text_of(self.form, problem, steps)
        turns = [turn._asdict() for turn in turns_of(self.form, problem, steps)]
        return rendered(self.tokenizer, turns)

    def _ids(self, text: str) -> list[int]:
        is_text = self.form.layout == "text"
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=is_text)
        return [*self._bos(ids), *ids]

    def _bos(self, ids: Sequence[int]) -> list[int]:
        bos = self.tokenizer.bos_token_id if self.form.bos else None
        return [] if bos is None or list(ids[:1]) == [bos] else [bos]

    def _encoded(self, pieces: Sequence[str]) -> Prompt:
        """Tokens of the pieces with tags between them, and where the tags are read."""
        if self.form.pieces:
            return self._encoded_apart(pieces)
        tag, text, spans = self.form.tag, pieces[0], []
        for piece in pieces[1:]:
            spans.append((len(text), len(text) + len(tag)))
            text += tag + piece
        encoded = self.tokenizer(
            text,
            add_special_tokens=self.form.layout == "text",
            return_offsets_mapping=True,
        )
        ids = list(encoded["input_ids"])
        places = _read_places(self.form, encoded["offset_mapping"], spans)
        head = self._bos(ids)
        return Prompt([*head, *ids], [place + len(head) for place in places])

    def _encoded_apart(self, pieces: Sequence[str]) -> Prompt:
        assert self.tag_id is not None  # made where pieces are
        ids, places = self._ids(pieces[0]), []
        for piece in pieces[1:]:
            places.append(len(ids) - (self.form.read == "before"))
            ids.append(self.tag_id)
            ids += self.tokenizer.encode(piece, add_special_tokens=False)
        return Prompt(ids, places)


def _read_places(
    form: StepFormat, offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]
) -> list[int]:
    """The token of each span of the text where it is read.

    Raises:
        ValueError: where no token stands there.
    """
    places, token = [], 0
    for start, end in spans:
        while token < len(offsets) and offsets[token][1] <= start:
            token += 1
        first = last = token
        while last + 1 < len(offsets) and offsets[last + 1][0] < end:
            last += 1
        if first >= len(offsets):
            raise ValueError(f"a token must stand at the tag at character {start}, got none")
        places.append(last if form.read == "at" else first - 1)
        token = last
    return places


_ONE = ("ForRewardModel", "ForPrmModel")  # always of one column, whatever their labels say
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")


class OneColumn(StepReader):
    """See the module."""

    def check(self, has: ModelShape) -> None:
        """A head that has the column."""
        self._columns = 1 if has.ends_with(*_ONE) else has.labels
        classifies = has.ends_with(*_ONE, *_CLASSIFIERS)
        if not classifies or self.form.column >= self._columns:
            raise refused(
                self.model,
                described(has),
                f"a head with a column {self.form.column} (...ForRewardModel, ...ForPrmModel, "
                "...ForSequenceClassification, ...ForTokenClassification)",
            )
        self._value_head = has.ends_with("ForPrmModel")

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        return {**super().arguments(), **(vllm_setup.value_head() if self._value_head else {})}

    def overrides(self) -> dict[str, Any]:
        """A value head has one label, which its config.json does not say."""
        return {"num_labels": 1} if self._value_head else {}

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """Of the column."""
        return prm.column_scores(
            rows,
            n_steps,
            columns=self._columns,
            column=self.form.column,
            temperature=self.form.temperature,
        )


class TokenPair(StepReader):
    """See the module."""

    def check(self, has: ModelShape) -> None:
        """A language model that has both tokens."""
        if not has.ends_with(*LANGUAGE_MODELS):
            raise refused(self.model, described(has), "a language model head (...ForCausalLM)")
        pair = (self.form.bad or "", self.form.good or "")
        self._pair = list(tokens_of(self.model, self.tokenizer, pair, "bad or good").values())

    def overrides(self) -> dict[str, Any]:
        """The classifier that vLLM makes of the head."""
        return {
            "classifier_from_token": self.tokenizer.convert_ids_to_tokens(self._pair),
            "method": "no_post_processing",
            "num_labels": 2,
        }

    def arguments(self) -> dict[str, Any]:
        """See `Kind.arguments`."""
        return {**super().arguments(), "convert": "classify"}

    def check_pool(self, pool: PoolConfig, context: int | None) -> None:
        """See `Kind.check_pool`: a head that is spread over GPUs has no GPU with both rows."""
        super().check_pool(pool, context)
        if (gpus := pool.engine.tensor_parallel_size) != 1:
            raise ConfigError(
                "tensor_parallel_size of the verifier must be 1 for kind token_pair, whose two "
                f"tokens vLLM looks for on each GPU, got {gpus}"
            )

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """P(good) among the two."""
        return prm.pair_scores(rows, n_steps, temperature=self.form.temperature)


class QwenPrm(StepReader):
    """See the module."""

    activation = True

    def check(self, has: ModelShape) -> None:
        """A head of two labels."""
        if has.ends_with(*LANGUAGE_MODELS) or has.labels != 2:
            needed = "a head of 2 labels, such as Qwen2ForProcessRewardModel,"
            raise refused(self.model, described(has), needed)

    def scores(self, rows: Sequence[Sequence[float]], n_steps: int) -> tuple[float, ...]:
        """P(right)."""
        return prm.step_scores(rows, n_steps)
