"""Training of the embedded tiny models: their data, their folders, their measured figures."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from actors.training.tiny_data import (
    IGNORED,
    prompt,
    prompt_ids,
    scored_steps_ids,
    verifier_examples,
    worked_batch,
    worked_batches,
)
from actors.training.tiny_measure import (
    auc,
    auc_within_questions,
    correlations,
    measure_verifier,
    reply_scores,
    targets,
    transitions,
)
from actors.training.tiny_models import (
    GENERATOR,
    VERIFIER,
    folder_name,
    load_generator,
    load_verifier,
    step_logits,
)
from actors.training.tiny_sampling import sample_chains, step_scores
from actors.training.tiny_tasks import P_FORGOTTEN, P_FORGOTTEN_AGAIN, P_SLIP
from actors.training.tiny_tokenizer import EOS, PAD, STEP, UNK, VOCABULARY_TOKENS, decode, encode
from actors.training.tiny_training import Recipe, sampled_examples, train_generator
from jobs.train_tiny import main
from pipeline.benchmarks import arithmetic, sums
from pipeline.benchmarks.builtin import NAMES, check_steps, gold

QUESTION = "12*34+5-6?"
REPLY = "12*34=408\n\n408+5=414\n\n414-6=408\n\n\\boxed{408}"


@pytest.fixture(scope="module", params=NAMES)
def task(request: pytest.FixtureRequest) -> str:
    """Each task that there are tiny models of."""
    return str(request.param)


@pytest.fixture(scope="module")
def trained(task: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders that ``python -m jobs.train_tiny --quick`` writes for a task."""
    out = tmp_path_factory.mktemp("models")
    assert main(["--task", task, "--out", str(out), "--device", "cpu", "--quick"]) == 0
    return {model: out / folder_name(task, model) for model in (GENERATOR, VERIFIER)}


def test_the_job_writes_two_loadable_folders_with_cards(
    task: str, trained: dict[str, Path]
) -> None:
    """Both folders hold what transformers and vLLM load, a card, and at most 4 MB each."""
    common = {"README.md", "config.json", "model.safetensors"}
    common |= {"tokenizer.json", "tokenizer_config.json"}
    figures = json.loads((trained[GENERATOR] / "figures.json").read_text())
    priors = json.loads((trained[GENERATOR] / "priors.json").read_text())

    assert {path.name for path in trained[VERIFIER].iterdir()} == common
    assert {path.name for path in trained[GENERATOR].iterdir()} == common | {
        "figures.json",
        "generation_config.json",
        "priors.json",
    }
    for written in trained.values():
        assert sum(path.stat().st_size for path in written.iterdir()) <= 4e6
    assert figures["command"].endswith(f"--task {task} --device cpu --seed 0 --quick")
    assert figures["parameters"] == {GENERATOR: 801_536, VERIFIER: 818_306}
    assert (priors["labels"], priors["benchmark"], priors["split"]) == ("gold", task, "train")
    for folder, architecture in ((GENERATOR, "CausalLM"), (VERIFIER, "ProcessRewardModel")):
        config = json.loads((trained[folder] / "config.json").read_text())
        assert config["architectures"] == [f"Qwen2For{architecture}"]
        assert "license: apache-2.0" in (trained[folder] / "README.md").read_text()


def test_measuring_anew_keeps_what_was_trained(task: str, trained: dict[str, Path]) -> None:
    """``--measure`` leaves weights and training figures, and says how it was measured."""
    before = (trained[GENERATOR] / "model.safetensors").read_bytes()
    figures = json.loads((trained[GENERATOR] / "figures.json").read_text())
    out = str(trained[GENERATOR].parent)
    assert main(["--task", task, "--out", out, "--device", "cpu", "--quick", "--measure"]) == 0
    again = json.loads((trained[GENERATOR] / "figures.json").read_text())

    assert (trained[GENERATOR] / "model.safetensors").read_bytes() == before
    assert (
        again.pop("measured_by")
        == f"python -m jobs.train_tiny --task {task} --device cpu --measure --quick"
    )
    assert figures.pop("measured_by") == figures["command"]
    assert again == figures


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--out", "/proc/nobody"], "/proc/nobody"),
        (["--out", "{tmp}", "--measure"], "figures.json"),
        (["--out", "{tmp}", "--minutes-budget", "1e-9"], "time for at least one batch"),
        (["--out", "{tmp}", "--device", "cuda"], "must find a GPU"),
    ],
)
def test_what_cannot_be_trained_ends_in_one_line(
    arguments: list[str],
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder that cannot be written is told before the training, and so is a GPU that is none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    arguments = [word.format(tmp=tmp_path) for word in arguments]

    assert main(["--quick", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert why in said
    assert said.count("\n") == 1


def test_verifier_weights_have_the_names_that_vllm_loads(trained: dict[str, Path]) -> None:
    """Backbone under ``model.``, head as ``score.0`` and ``score.2``, two outputs."""
    weights = load_file(trained[VERIFIER] / "model.safetensors")
    head = {name: tuple(value.shape) for name, value in weights.items() if "score" in name}

    assert head == {
        "score.0.weight": (128, 128),
        "score.0.bias": (128,),
        "score.2.weight": (2, 128),
        "score.2.bias": (2,),
    }
    assert {name.split(".")[0] for name in weights} == {"model", "score"}


def test_the_tokenizer_and_templates_write_what_was_trained_on(trained: dict[str, Path]) -> None:
    """Chat templates give the ids of training, text survives, anything else is ``<unk>``."""
    generator = AutoTokenizer.from_pretrained(trained[GENERATOR])
    verifier = AutoTokenizer.from_pretrained(trained[VERIFIER])
    user = {"role": "user", "content": QUESTION}
    asked = generator.apply_chat_template([user], add_generation_prompt=True)["input_ids"]
    steps = "".join(f"{step}<extra_0>" for step in REPLY.split("\n\n"))
    turns = [{"role": "system", "content": "Be right."}, user]
    turns.append({"role": "assistant", "content": steps})
    scored = verifier.apply_chat_template(turns)["input_ids"]
    every = "".join(map(chr, range(32, 127))) + "\n  \n\n"

    assert asked == prompt_ids(QUESTION).tolist()
    assert scored == scored_steps_ids(QUESTION, REPLY)[0].tolist()
    assert scored.count(STEP) == 4
    for tokenizer in (generator, verifier):
        assert tokenizer(every).input_ids == encode(every).tolist()
        assert tokenizer.decode(encode(every)) == decode(encode(every).tolist()) == every
        assert tokenizer("é日\t").input_ids == [UNK] * 6
        assert tokenizer("é日").input_ids == encode("é日").tolist()
        assert max(tokenizer.get_vocab().values()) == VOCABULARY_TOKENS - 1


def test_saved_models_generate_and_score(trained: dict[str, Path]) -> None:
    """A loaded pair samples chains and scores every step with a probability."""
    generator, verifier = load_generator(trained[GENERATOR]), load_verifier(trained[VERIFIER])
    chains = sample_chains(generator, [QUESTION, "99*99+1+1?"], rounds=2, seed=0)
    scores = step_scores(verifier, [QUESTION] * 2, [REPLY, ""])

    assert [len(replies) for replies in chains] == [2, 2]
    assert chains == sample_chains(generator, [QUESTION, "99*99+1+1?"], rounds=2, seed=0)
    assert [len(each) for each in scores] == [4, 0]
    assert all(0 < score < 1 for score in scores[0])


def test_padding_changes_no_step_score(trained: dict[str, Path]) -> None:
    """A reply scores the same alone and beside a longer one."""
    verifier = load_verifier(trained[VERIFIER])
    ids = torch.from_numpy(scored_steps_ids(QUESTION, REPLY)[0]).long()
    padded = torch.nn.functional.pad(ids, (0, 40), value=PAD)

    with torch.inference_mode():
        alone, beside = step_logits(verifier, ids[None]), step_logits(verifier, padded[None])
    assert torch.allclose(alone[0], beside[0, : len(ids)], atol=1e-5)


def test_a_short_training_learns() -> None:
    """40 small batches bring the loss from that of guessing, ln 101, to below 0.6 of it."""
    recipe = Recipe(batch=8, worked_batches=40, own_batches=0)
    _, fit = train_generator(recipe, seed=0, device="cpu", workers=0)

    assert fit.batches == 40
    assert fit.loss < 0.6 * math.log(VOCABULARY_TOKENS)


def test_training_keeps_to_its_time() -> None:
    """A recipe of any length ends when its seconds are gone, on a whole learning-rate cycle."""
    recipe = Recipe(batch=4, worked_batches=10**6, own_batches=10**6, own_answers=4)
    _, fit = train_generator(recipe, seed=0, device="cpu", workers=0, seconds=1.0)

    assert 1 <= fit.batches < 10**5
    assert fit.seconds < 20


@pytest.mark.parametrize(
    "arguments", [["--minutes-budget", "0"], ["--minutes-budget", "nan"], ["--seed", "-1"]]
)
def test_impossible_arguments_end_before_training(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad arguments exit with 2 and name the argument; nothing is written."""
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--out", str(tmp_path / "models")])

    assert arguments[0].lstrip("-") in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


@pytest.mark.parametrize("name", NAMES)
def test_batches_are_the_same_from_any_number_of_workers(name: str) -> None:
    """Batch k depends on task, seed and k alone."""
    with worked_batches(name, 5, 3, 4, 2) as made:
        for index, batch in enumerate(made):
            again = worked_batch(name, 5, index, 4)

            assert np.array_equal(batch.ids, again.ids)
            assert np.array_equal(batch.prompt_tokens, again.prompt_tokens)


@pytest.mark.parametrize(
    ("name", "wrong_drafts", "wrong_shown", "wrong_revisions"),
    [
        ("arithmetic", P_SLIP, 0.4, 0.0),
        ("sums", *(1 - (1 - p) ** 2 for p in (P_FORGOTTEN, P_FORGOTTEN, P_FORGOTTEN_AGAIN))),
    ],
)
def test_worked_batches_follow_the_recipe(
    name: str, wrong_drafts: float, wrong_shown: float, wrong_revisions: float
) -> None:
    """Drafts, answers shown and revisions are wrong as often as stated; all of the train split."""
    module = {"arithmetic": arithmetic, "sums": sums}[name]
    batch = worked_batch(name, 0, 0, 600)
    drafts, revisions = [], []
    for ids, prompt_tokens in zip(batch.ids, batch.prompt_tokens, strict=True):
        asked = decode(ids[:prompt_tokens].tolist()).rstrip("\n")
        question, _, previous = asked.partition(" was ")
        right = all(check_steps(question, decode(ids[prompt_tokens:].tolist())))
        assert module.split_of(module.parse(question)) == "train"
        if previous:
            revisions.append((right, previous == gold(question)))
        else:
            drafts.append(right)
    clean, shown_right = np.array(revisions).mean(axis=0)

    def within(p: float, n: int) -> float:
        return 4 * float((p * (1 - p) / n) ** 0.5)

    assert 1 - clean == pytest.approx(wrong_revisions, abs=within(wrong_revisions, len(revisions)))
    assert 1 - shown_right == pytest.approx(wrong_shown, abs=within(wrong_shown, len(revisions)))
    assert 1 - np.mean(drafts) == pytest.approx(wrong_drafts, abs=within(wrong_drafts, len(drafts)))
    assert len(drafts) / 600 == pytest.approx(0.5, abs=within(0.5, 600))


def test_an_unknown_task_is_refused() -> None:
    """The error names the tasks that there are."""
    with pytest.raises(ValueError, match="task must be one of arithmetic, sums, got 'chess'"):
        worked_batch("chess", 0, 0, 1)


def test_verifier_labels_stand_at_the_step_ends() -> None:
    """One label a step, at its ``<extra_0>``, as arithmetic judges it; stepless replies are out."""
    examples = verifier_examples([QUESTION] * 2, ["", REPLY])
    labels, ids = examples.labels[0], examples.ids[0]

    assert len(examples.ids) == 1
    assert labels[ids == STEP].tolist() == [1, 0, 0, 0]
    assert set(labels[ids != STEP].tolist()) == {IGNORED}
    assert ids[-1] == EOS
    with pytest.raises(ValueError, match="at least one reply must have a step, got 1 without"):
        verifier_examples([QUESTION], [""])


def test_sampled_examples_are_first_answers_and_revisions(
    task: str, trained: dict[str, Path]
) -> None:
    """As many of one as of the other, at least as many as asked unless without a step."""
    examples = sampled_examples(load_generator(trained[GENERATOR]), task, 10, seed=0)

    assert 1 <= len(examples.ids) <= 10
    assert examples.ids.shape == examples.labels.shape


def test_prompts_of_rounds() -> None:
    """Round 0 asks the question, later rounds show the previous answer, if there is one."""
    assert prompt(QUESTION) == QUESTION
    assert prompt(QUESTION, "408") == "12*34+5-6? was 408"


def test_transitions_count_neighbouring_rounds() -> None:
    """Two questions over three rounds: RWR and WWR."""
    right_RQ = np.array([[1, 0], [0, 0], [1, 1]], dtype=bool)

    assert transitions(right_RQ) == {
        "a": 1.0,
        "b": 2 / 3,
        "stationary_accuracy": pytest.approx(0.4),
        "right_to_wrong": [1, 1, 1],
        "wrong_to_right": [2, 3, 2],
    }
    assert transitions(np.ones((3, 2), dtype=bool))["b"] is None


def test_auc_is_the_share_of_pairs_in_order() -> None:
    """Rank formula against counting pairs, ties as a half."""
    rng = np.random.default_rng(0)
    scores, right = rng.integers(6, size=60) / 5, rng.random(60) < 0.6
    pairs = [(s > t) + (s == t) / 2 for s in scores[right] for t in scores[~right]]

    assert auc(scores, right) == pytest.approx(np.mean(pairs))
    assert auc(scores, np.ones(60, dtype=bool)) is None


def test_reply_scores_by_every_aggregation() -> None:
    """Mean, least, product and last of the step scores; no steps score 0."""
    steps = [np.array([0.5, 1.0, 0.25]), np.array([])]

    assert reply_scores(steps, "mean").tolist() == [pytest.approx(1.75 / 3), 0]
    assert reply_scores(steps, "min").tolist() == [0.25, 0]
    assert reply_scores(steps, "product").tolist() == [0.125, 0]
    assert reply_scores(steps, "last").tolist() == [0.25, 0]


def test_verifier_figures_of_an_untrained_pair(trained: dict[str, Path]) -> None:
    """Counts and shares fit the replies that were scored."""
    verifier = load_verifier(trained[VERIFIER])
    right = REPLY.replace("414", "413").replace("408\n\n\\boxed{408}", "407\n\n\\boxed{407}")
    figures = measure_verifier(
        verifier, [QUESTION] * 2, [[right, REPLY], [right, right]], np.array([[1, 0], [1, 1]]) > 0
    )

    assert figures["first_answers_right_wrong"] == [1, 1]
    assert 0 <= figures["auc_all_rounds"]["mean"] <= 1
    assert figures["accuracy_of_best_scored"] in (0.5, 1.0)


def test_auc_within_questions_compares_answers_of_one_question_only() -> None:
    """A verifier that knows the question but not the answer has 1/2, whatever its pooled AUC."""
    right_RQ = np.array([[1, 0, 1], [1, 0, 0], [1, 1, 0]], dtype=bool)
    of_question = np.tile([0.9, 0.1, 0.2], (3, 1))

    assert auc(of_question.ravel(), right_RQ.ravel()) == 0.8
    assert auc_within_questions(of_question, right_RQ) == 0.5
    assert auc_within_questions(right_RQ.astype(float), right_RQ) == 1.0
    assert auc_within_questions(of_question[:, :1], right_RQ[:, :1]) is None


def test_correlations_are_those_with_round_0() -> None:
    """At the lags that were measured; none where a round is all right or all wrong."""
    rng = np.random.default_rng(0)
    right_RQ = rng.random((5, 200)) < 0.6
    right_RQ[2] = right_RQ[0]
    right_RQ[4] = True

    assert correlations(right_RQ) == {
        "1": pytest.approx(np.corrcoef(right_RQ[0], right_RQ[1])[0, 1]),
        "2": pytest.approx(1.0),
        "4": None,
    }


def test_targets_are_judged_from_the_figures() -> None:
    """Each target is met or not; what could not be measured is not met."""
    chains = {
        "p0": 0.7,
        "a": 0.1,
        "stationary_accuracy": 0.74,
        "accuracy_at_budget": 0.8,
        "correlation_with_round_0": {"8": None},
    }
    verifier = {
        "auc_first_answers": {"mean": None},
        "auc_within_questions": {"mean": 0.9},
        "accuracy_of_best_scored": 0.7,
    }

    assert targets("arithmetic", chains, verifier) == {
        "0.4 <= p0 <= 0.8": True,
        "a <= 0.15": True,
        "L >= p0 + 0.05": False,
        "AUC >= 0.85": False,
    }
    assert targets("sums", chains, verifier) == {
        "0.6 <= p0 <= 0.8": True,
        "rightness of rounds 0 and 8 correlated below 0.2": False,
        "last answer of 8 >= p0 + 0.08": True,
        "best scored answer of 8 >= p0 + 0.08": False,
        "AUC within a question >= 0.85": True,
    }
