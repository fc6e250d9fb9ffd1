"""Configuration of models: the part of the engines that results depend on."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pipeline.config.endpoint import SET_ELSEWHERE
from pipeline.config.profiles import VerifierKind, profile_of
from pipeline.config.schema import Section
from pipeline.config.secrets import without_secrets_within
from pipeline.core.judging import Judge
from pipeline.core.prompts import Message
from pipeline.core.protocol import Request
from pipeline.core.step_format import StepFormat
from pipeline.core.thinking import Reasoning


class ModelShape(Section):
    """How large a model is: what `pipeline.planning.sizing` counts with, without a GPU or a hub.

    The engines hold it against the model's own configuration when they start
    (`pipeline.planning.sizing.check_shape`). Names in parentheses are those of a Hugging Face
    config.json.
    """

    of: str | None = None
    """The model that has these sizes: a plan for another model is refused. None is not checked."""
    layers: int = Field(ge=1)
    """Transformer blocks (``num_hidden_layers``)."""
    hidden: int = Field(ge=1)
    """Width of the residual stream (``hidden_size``)."""
    heads: int = Field(ge=1)
    """Query heads (``num_attention_heads``)."""
    kv_heads: int = Field(ge=1)
    """Key and value heads (``num_key_value_heads``)."""
    head_dim: int | None = Field(None, ge=1)
    """Width of one head (``head_dim``); None takes `hidden` / `heads`."""
    vocab: int = Field(ge=1)
    """Tokens (``vocab_size``)."""
    positions: int = Field(ge=1)
    """Longest context that the model was made for (``max_position_embeddings``)."""
    parameters: int = Field(ge=1)
    """All weights, embeddings included."""
    dtype: Literal["float32", "float16", "bfloat16"] = "bfloat16"
    """Type of the published weights (``dtype``, formerly ``torch_dtype``)."""
    weight_bytes: int | None = Field(None, ge=1)
    """Size of the loaded weights; None takes `parameters` times the size of the type. Must be given
    for a quantised model."""


class ModelConfig(Section):
    """A Hugging Face model and what of vLLM's loading changes its answers."""

    model: str = Field(min_length=1)
    """Hugging Face id, or a folder."""
    revision: str | None = None
    """Branch, tag or commit of a Hugging Face id."""
    tokenizer: str | None = None
    """Another tokenizer than the model's own: id or folder."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    quantization: str | None = None
    """vLLM's name of the quantisation; None takes what the model's config says."""
    max_model_len: int | None = Field(None, ge=16)
    """Context in tokens, prompt and completion together; None takes the model's own."""
    load_format: str = "auto"
    """vLLM's load format; ``dummy`` makes random weights for scale tests."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may run."""
    shape: ModelShape | None = None
    """Sizes of the model, for ``--dry-run``; checked against the model when an engine starts."""


class GeneratorModel(ModelConfig):
    """The model whose answers are scaled."""

    chat_template: str | None = None
    """File of a Jinja chat template that replaces the tokenizer's."""
    open_thinking: str | None = None
    """Text that the chat template already puts at the start of the reply (such as ``<think>``); it
    is put back in front of the stored text. None detects the usual tags at the prompt's end."""
    reasoning: Reasoning | None = None
    """``{open, close}``: the marks between which the model thinks, where they are none of the usual
    ones (`pipeline.core.thinking.TAGS`). Replies are stored with ``<think>`` and ``</think>`` in
    their place; vLLM also ends a thinking budget with them."""
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Variables that the chat template knows, such as ``enable_thinking: false`` (Qwen3) or
    ``reasoning_effort: high`` (gpt-oss)."""
    logprobs: bool = False
    """Whether to ask for the log-probabilities of the 20 most likely tokens at each place: mean and
    least confidence and mean entropy of each completion then stand in the journal
    (`pipeline.core.confidence`), and the answer rules that weigh by them can be applied."""
    stop_flag: str | None = None
    """A regular expression that is found in replies which say that no further revision is needed,
    such as ``"stop": ?(1|true)``; the journal records it, and `settled` can stop on it. In imported
    pools it is the log's own field."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request to an endpoint that change what is answered, such as
    ``reasoning_effort`` of a hosted model (docs/endpoints.md)."""

    @field_validator("stop_flag")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"stop_flag must be a regular expression: {error}") from error
        return pattern

    @field_validator("chat_template_kwargs")
    @classmethod
    def _are_of_the_template(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        reserved = {"messages", "tokenize", "add_generation_prompt", "chat_template", "tools"}
        if decided := sorted(kwargs.keys() & reserved):
            raise ValueError(f"chat_template_kwargs must not hold {', '.join(decided)}")
        return kwargs

    @field_validator("extra_body")
    @classmethod
    def _is_not_set_elsewhere(cls, fields: dict[str, Any]) -> dict[str, Any]:
        without_secrets_within(fields)
        if decided := sorted(fields.keys() & SET_ELSEWHERE):
            raise ValueError(f"extra_body must not hold {', '.join(decided)}: they have fields")
        return fields


class JudgeModel(GeneratorModel):
    """The model that grades answers against gold answers in words (``grader: {kind: judge}``)."""

    prompt: str = (
        "Question:\n{question}\n\nReference answer:\n{gold}\n\nAnswer to grade:\n{answer}\n\n"
        "Does the answer to grade say the same as the reference answer? Wording, order and format "
        "do not matter. It must leave out nothing that the question asks for, contradict nothing "
        "in the reference, and not hedge between several answers. Think briefly, then end with one "
        "line that is CORRECT, INCORRECT or UNSURE."
    )
    """Asks for a verdict: the last line of the reply, with one of those words (also right and
    wrong, yes and no). Anything else is UNGRADED."""
    remark: str = (
        "Question:\n{question}\n\nAnswer:\n{answer}\n\nCheck the answer. Say in at most three "
        "sentences what is wrong with it, if anything, without giving an answer of your own."
    )
    """Asks for what a revision is shown as ``{feedback}``; the gold answer is not in it."""
    max_tokens: int = Field(1024, ge=1)
    """New tokens of a reply."""

    @model_validator(mode="after")
    def _templates_have_their_fields(self) -> JudgeModel:
        for name, fields in (("prompt", ("gold", "answer")), ("remark", ("answer",))):
            if missing := [f for f in fields if f"{{{f}}}" not in getattr(self, name)]:
                raise ValueError(f"{name} must contain {{{missing[0]}}}, it does not")
        if "{gold}" in self.remark:
            raise ValueError("remark must not contain {gold}: the generator is shown the remark")
        return self

    def request(self, prompt: str) -> Request:
        """What it is asked; greedily, so that it says the same of the same answer."""
        return Request(
            messages=(Message("user", prompt),),
            max_tokens=self.max_tokens,
            temperature=0.0,
            top_p=1.0,
            score=False,
        )


class VerifierModel(ModelConfig):
    """The model that scores answers, how it is asked, and how its step scores become one score."""

    kind: VerifierKind = "qwen_prm"
    """``qwen_prm``: a head of two classes. ``token_pair``: the logits of two tokens of a language
    model. ``one_column``: the sigmoid of a head's single column. ``generative``: a language model
    that is asked (docs/verifiers.md)."""
    profile: StepFormat | Judge | None = None
    """How the model is asked and read: the name of a profile of `pipeline.config.profiles`, or
    ``package.module:NAME`` of one's own, or its
    fields; ``like: NAME`` among them takes what they leave out from that profile. None is for
    ``qwen_prm``, whose prompt the two fields below make."""
    step_separator: str = "<extra_0>"
    """Token put after every step; the model scores each of them."""
    system: str | None = "Please reason step by step, and put your final answer within \\boxed{}."
    """System message of the verifier's prompt; None for none."""
    text: Literal["after_thinking", "whole"] = "after_thinking"
    """What is scored: the reply without its thinking, or all of it (the paper)."""
    aggregation: Literal["mean", "min", "product", "last"] = "mean"
    """How step scores become the score of an answer."""

    @field_validator("profile", mode="before")
    @classmethod
    def _from_name(cls, value: Any, info: ValidationInfo) -> Any:
        return profile_of(info.data.get("kind", "qwen_prm"), value)

    @model_validator(mode="after")
    def _profile_fits(self) -> VerifierModel:
        fields = type(self).model_fields
        if self.profile is None and self.kind != "qwen_prm":
            raise ValueError(f"profile must be given for the kind {self.kind}, got none")
        for name in ("step_separator", "system"):
            if self.profile is not None and getattr(self, name) != fields[name].default:
                raise ValueError(
                    f"{name} must be set in the profile where there is one, "
                    f"got {getattr(self, name)!r} outside it"
                )
        return self

    @property
    def form(self) -> StepFormat:
        """The prompt of a verifier that reads steps."""
        assert not isinstance(self.profile, Judge)  # `profile_of` made it for the kind
        return self.profile or StepFormat(tag=self.step_separator, system=self.system)

    @property
    def judge(self) -> Judge:
        """What a generative verifier is asked."""
        assert isinstance(self.profile, Judge)
        return self.profile
