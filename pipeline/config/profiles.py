"""Known verifiers by name: how each is asked and where its score is read.

The prompts are those that the models were trained with, as their pages and published code give
them; docs/verifiers.md says what was run here. A profile is expanded into its fields before the
digest is made, so a name and the same fields are the same science, and a change here is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from pipeline.config.schema import check_numbers
from pipeline.core.judging import Judge
from pipeline.core.plugins import load_object
from pipeline.core.step_format import StepFormat

GROUP = "markovscale.verifier_profiles"
"""The group of entry points in which a package names its profiles."""

VerifierKind = Literal["qwen_prm", "token_pair", "one_column", "generative"]

_QWEN_SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
_LINE = {"layout": "text", "tag": "\n", "split": "lines", "pieces": True, "bos": True}

PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "qwen_prm": {
        # Qwen2.5-Math-PRM-7B and 72B, Qwen2.5-Math-7B-PRM800K
        "qwen2.5_math_prm": {"tag": "<extra_0>", "system": _QWEN_SYSTEM},
        # TRL's PRMTrainer with its default separator
        "trl": {"layout": "text", "tag": "\n", "pieces": True, "bos": True},
    },
    "token_pair": {
        # peiyi9979/math-shepherd-mistral-7b-prm
        "math_shepherd": {
            "layout": "text",
            "tag": "ки",
            "question": "{question} ",
            "step": "Step {number}: {step} {tag}\n",
            "good": "+",
            "bad": "-",
        },
        # RLHFlow/Llama3.1-8B-PRM-Deepseek-Data, -Mistral-Data
        "rlhflow": {
            "layout": "turns",
            "tag": "+",
            "read": "before",
            "question": "{question} ",
            "step": "{step}",
            "good": "+",
            "bad": "-",
        },
    },
    "one_column": {
        # Skywork-o1-Open-PRM-Qwen-2.5-1.5B and -7B
        "skywork_o1_prm": {**_LINE, "question": "{question}\n"},
        # infly/Universal-PRM-7B: each prefix of the steps is a prompt of its own, read at its end
        "universal_prm": {
            "tag": "<|im_end|>",
            "system": "You are a helpful assistant.",
            "question": "{question}\n\n###\n\nThe reference answer is: There is no reference "
            "answer for this question.",
            "step": "{step}\n\n{tag}",
            "one_by_one": True,
        },
        # reward models of whole answers with Qwen's chat marks: one score, at the reply's end
        "outcome_qwen": {"tag": "<|im_end|>", "split": "whole"},
    },
    "generative": {
        # GenPRM-1.5B, -7B, -32B, without running code
        "genprm": {
            "system": "You are a math teacher. Your task is to review and critique the paragraphs "
            "in solution step by step.",
            "ask": "Question: {question}\n\n{step}",
            "ask_next": "{step}",
            "per": "step",
            "begin": "<analyze>\nLet's analyze the Paragraph {number} step by step: ",
            "until": ["</analyze>"],
            "conclude": "</analyze>\n<output>\n**Judgement**: $\\boxed{",
            "close": "}$\n</output>\n",
            "right": ["Yes"],
            "wrong": ["No"],
            "temperature": 0.6,
            "top_p": 0.95,
        },
        # ThinkPRM-1.5B, -7B, -14B
        "thinkprm": {
            "ask": "You are given a math problem and a proposed step-by-step solution:\n\n"
            "[Math Problem]\n\n{question}\n\n[Solution]\n\n{solution}\n\n"
            "Review and critique each step in the proposed solution to determine whether each step "
            "is correct. If the solution is incomplete, only verify the provided steps.",
            "numbered": True,
            "begin": "\nLet's verify step by step:",
            "until": ["Is the solution correct?", "</think>"],
            "conclude": "\nIs the solution correct?",
            "right": [" Yes"],
            "wrong": [" No"],
            "max_tokens": 8192,
            "temperature": 0.7,
        },
        # any instruction-tuned model, asked for one word
        "judge": {
            "ask": "Question:\n{question}\n\nSolution:\n{solution}\n\n"
            "Is the final answer of this solution right? Answer with Yes or No only.",
            "think": False,
            "right": ["Yes"],
            "wrong": ["No"],
        },
        # any model that reasons: the share of Yes among its verdicts
        "judge_votes": {
            "ask": "Question:\n{question}\n\nSolution:\n{solution}\n\n"
            "Check this solution. End with a line that says only Yes if its final answer is right, "
            "or only No.",
            "read": "verdicts",
            "samples": 4,
            "temperature": 0.7,
        },
    },
}
"""Fields of the profile, by kind and name."""


def profile_of(kind: VerifierKind, value: Any) -> StepFormat | Judge | None:
    """The profile that a configuration names or gives.

    Raises:
        ValueError: naming the field, what must hold and what came.
    """
    if value is None or isinstance(value, StepFormat | Judge):
        return value
    if isinstance(value, str):
        value = {"like": value}
    if not isinstance(value, dict):
        raise ValueError(f"must be a profile's name or its fields, got {value!r}")
    fields = dict(value)
    if (name := fields.pop("like", None)) is not None:
        fields = {**_named(kind, name), **fields}
    shape: type[Any] = Judge if kind == "generative" else StepFormat
    check_numbers(shape, fields)
    try:
        made: StepFormat | Judge = TypeAdapter(shape).validate_python(fields)
    except ValidationError as error:
        raise ValueError(_told(error)) from error
    if kind == "token_pair" and isinstance(made, StepFormat) and not (made.good and made.bad):
        raise ValueError("good and bad must be given for token_pair: the two tokens, got none")
    return made


def _named(kind: VerifierKind, name: Any) -> dict[str, Any]:
    if not isinstance(name, str):
        raise ValueError(f"like must be the name of a profile, got {name!r}")
    if name not in PROFILES[kind]:
        own = load_object(name, GROUP)
        if isinstance(own, Mapping):
            return dict(own)
        if own is not None:
            raise ValueError(f"{name} must be a mapping of a profile's fields, got {own!r}")
        others = [other for other, known in PROFILES.items() if name in known]
        of_another = f", which is one of the kind {others[0]}" if others else ""
        raise ValueError(
            f"must be a profile of the kind {kind}: {', '.join(PROFILES[kind])}, "
            f"got {name!r}{of_another}"
        )
    return PROFILES[kind][name]


def _told(error: ValidationError) -> str:
    """The errors of a profile's fields, one after the other."""
    from pipeline.config.errors import described

    return "; ".join(line.removeprefix(": ") for line in described(error).splitlines())
