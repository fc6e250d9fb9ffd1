"""*JudgeWire*: asks a generative verifier behind an OpenAI-compatible API for verdicts.

A call is one request, so that it suits profiles whose verdict comes in one: P(right) as the first
word of the reply, or the share of right among several replies. What continues a reply (`begin`,
`conclude`) or takes a request a step needs engines of our own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from actors.engines.chat_wire import Found, text_of, usage_of
from actors.engines.prompting import check_text
from actors.routing.calls import ScoreCall, Scored
from pipeline.config.endpoint import EndpointConfig
from pipeline.config.models import VerifierModel
from pipeline.core import prm
from pipeline.core.confidence import LEAST, TOP_LOGPROBS
from pipeline.core.errors import ConfigError, ErrorKind, VerifierError
from pipeline.core.judging import Judge, probability_of_right, question_turns, share_of_right
from pipeline.core.protocol import Failure
from pipeline.core.step_format import MARK

_TURN_MARKS = re.compile(
    r"<[|\uff5c][^<>|\uff5c\s]{1,40}[|\uff5c]>|</?s>|\[/?INST\]|<(?:start|end)_of_turn>"
)
"""Marks of turns in the families of models: their tokenizers are not at hand here."""


class JudgeWire:
    """A `Wire` (`actors.engines.endpoint_transport`) for verdicts of a judge.

    Raises:
        ConfigError: where the profile takes more than one request.
    """

    def __init__(
        self, model: Mapping[str, Any], endpoint: EndpointConfig, found: Mapping[str, Any]
    ) -> None:
        self._model = VerifierModel.model_validate(model)
        self._endpoint, self._found = endpoint, Found(**found)
        if self._model.kind != "generative":
            raise ConfigError(
                "science.verifier.kind must be generative where runtime.verifier.endpoint is set, "
                f"got {self._model.kind}"
            )
        self._judge = judge = self._model.judge
        more = {
            "per": judge.per != "solution",
            "begin": bool(judge.begin),
            "conclude": bool(judge.conclude),
            "think": judge.think and judge.read == "probability",
            "until": bool(judge.until),
        }
        if unfit := [name for name, is_more in more.items() if is_more]:
            raise ConfigError(
                "science.verifier.profile must need one request a solution where "
                "runtime.verifier.endpoint is set, such as judge or judge_votes: its "
                f"{', '.join(unfit)} takes engines of our own"
            )

    def known(self, call: ScoreCall) -> Scored | None:
        """See `Wire.known`: a reply without text to judge."""
        if self._steps(call):
            return None
        score = prm.aggregate((), self._model.aggregation)
        return Scored(step_scores=(), score=score, tokens=0, truncated=False)

    def body(self, call: ScoreCall) -> dict[str, Any]:
        """See `Wire.body`; fields that the servers refuse are left out."""
        check_text(call.question, "question")
        check_text(call.reply, "reply")
        judge = self._judge
        turns = question_turns(judge, _unforged(call.question), self._steps(call))
        fields: dict[str, Any] = {"temperature": judge.temperature, "top_p": judge.top_p}
        if judge.read == "probability":
            fields |= {self._found.limit: 1, "logprobs": True, "top_logprobs": TOP_LOGPROBS}
        else:
            fields |= {self._found.limit: judge.max_tokens, "seed": 0}
        if judge.samples > 1:
            fields["n"] = judge.samples
        if judge.chat_template_kwargs:
            fields["chat_template_kwargs"] = judge.chat_template_kwargs
        fields |= self._endpoint.extra_body
        kept = {name: value for name, value in fields.items() if name not in self._found.refused}
        messages = [turn._asdict() for turn in turns]
        return {"model": self._endpoint.model or self._model.model, "messages": messages, **kept}

    def answer(self, call: ScoreCall, reply: Mapping[str, Any]) -> Scored | Failure:
        """See `Wire.answer`."""
        judge = self._judge
        each = 1 if judge.read == "probability" else judge.max_tokens
        usage = usage_of(reply, allowed=each * judge.samples)
        choices = reply["choices"]
        if len(choices) != self._judge.samples:
            raise ValueError(f"choices must be {self._judge.samples}, got {len(choices)}")
        try:
            score = self._score(choices)
        except VerifierError as error:
            return Failure.of(ErrorKind.VERIFIER, error)
        scores = (score,)
        return Scored(
            step_scores=scores,
            score=prm.aggregate(scores, self._model.aggregation),
            tokens=usage.read + usage.made,
            truncated=False,
        )

    def _score(self, choices: list[Mapping[str, Any]]) -> float:
        judge = self._judge
        if judge.read == "verdicts":
            return share_of_right(judge, [text_of(each["message"])[1] for each in choices])
        told = (choices[0].get("logprobs") or {}).get("content") or []
        tops = (told[0].get("top_logprobs") if told else None) or []
        if not tops:
            raise VerifierError("empty: the reply must tell log-probabilities of its first word")
        return probability_of_right(judge, logprobs_of_words(judge, tops))

    def _steps(self, call: ScoreCall) -> tuple[str, ...]:
        steps = prm.split_steps(call.reply, separator=MARK, text=self._model.text)
        return tuple(clean for step in steps if (clean := _unforged(step).strip()))


def logprobs_of_words(judge: Judge, tops: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Log-probabilities of the words of right and wrong among the likeliest tokens.

    Servers differ in how they write the blank before a token, and models in the case in which they
    answer: what means the same word counts together, unless the judge tells words apart by case.
    """
    words = (*judge.right, *judge.wrong)
    cased = len({_bare(word).casefold() for word in words}) < len({_bare(word) for word in words})
    of = {_bare(word) if cased else _bare(word).casefold(): word for word in reversed(words)}
    told = dict.fromkeys(words, -math.inf)
    for top in tops:
        token = _bare(top["token"])
        word = of.get(token if cased else token.casefold())
        if word is not None and top["logprob"] > LEAST:
            high, low = sorted((told[word], top["logprob"]), reverse=True)
            told[word] = high + math.log1p(math.exp(low - high))
    return told


def _unforged(text: str) -> str:
    """Text that cannot end the user's turn and speak in the judge's place."""
    while (cut := _TURN_MARKS.sub("", text)) != text:
        text = cut
    return text


def _bare(token: str) -> str:
    return token.strip(" \t\n\u2581\u0120\u010a")  # and what stands for them in vocabularies
