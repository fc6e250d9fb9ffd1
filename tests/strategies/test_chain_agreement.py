"""Chains that stop on their answers: chain_asc tests votes, agree weighs scores too."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.answers.answer_rules import AnswerRule, apply
from pipeline.config.run import RunConfig
from pipeline.core.prices import Prices
from pipeline.core.protocol import Failure, Priors, StopReason, decisions
from pipeline.replay.exact import replay_each
from pipeline.statistics.agreement import VOTE, AgreementWeights
from pipeline.strategies.chain_agreement import Agree, ChainASC, Settled
from pipeline.strategies.expected_agreement import ChainExpectedAgreement, ExpectedAgreement
from pipeline.strategies.markovscale import MarkovScaleStar, MarkovScaleT
from pipeline.strategies.self_consistency import AdaptiveConsistency
from pipeline.strategies.sequential import MRThinking
from tests.generators import PRIORS, completion, question

SWAYED = AgreementWeights(w=(0.5, 3.0, 1.0), v=(0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0))
answers = st.lists(st.sampled_from(["1", "2", "3", None]), min_size=8, max_size=8)


def played(strategy, told, priors=PRIORS):
    """(stop, rounds told, requests) of a strategy that is told these observations in turn."""
    run = decisions(strategy, question(priors=priors))
    requests = [*next(run)]
    for observation in told:
        try:
            requests += run.send([observation])
        except StopIteration as end:
            return end.value, len(requests), requests
    raise AssertionError("it did not stop")


@given(answers)
def test_chain_asc_stops_where_asc_stops_on_the_same_answers(said):
    """The rounds of a chain are tested as ASC tests samples, round by round."""
    told = [completion(answer=answer) for answer in said]
    chain, drawn, _ = played(ChainASC(n=8), told)
    samples, also, _ = played(AdaptiveConsistency(n=8), told)

    assert (drawn, chain.reason, chain.rounds) == (also, samples.reason, samples.rounds)


def test_chain_asc_needs_no_score_and_asks_for_the_rounds_of_mr_thinking():
    """Requests have MR-Thinking's addresses, prompts and seeds, so one pool replays both."""
    told = [completion(answer=str(n % 3), score=None) for n in range(6)]
    _, _, mine = played(ChainASC(n=6), told)
    _, _, theirs = played(MRThinking(n=6), told)

    assert [request.digest() for request in mine] == [request.digest() for request in theirs]
    assert [request.seed for request in mine] == [request.seed for request in theirs]


RECORDED = [rule for rule in AnswerRule if not rule.needs_logprobs]


@given(answers, st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_every_rule_returns_the_answer_that_agree_leads_with(said, scores):
    """The stop rests on rounds of one answer, or on all where none has an answer."""
    told = [completion(answer=a, score=s) for a, s in zip(said, scores, strict=True)]
    stop, drawn, _ = played(Agree(n=8, tau=0.8, weights=SWAYED), told)
    chosen = {apply(rule, told[:drawn], stop).answer for rule in RECORDED}

    assert len(chosen) == 1
    assert stop.reason in (StopReason.CONFIDENT, StopReason.AGREED, StopReason.BUDGET)
    assert drawn == 8 or stop.reason is not StopReason.BUDGET


def test_a_verifier_sways_agree_only_where_its_weights_say_so():
    """Two votes against one well scored answer: `VOTE` follows the votes."""
    told = [completion(answer=a, score=s) for a, s in (("1", 0.99), ("2", 0.1), ("2", 0.1))]
    by_votes, _, _ = played(Agree(n=3, tau=1.0, vote_threshold=1.0, weights=VOTE), told)
    swayed, _, _ = played(Agree(n=3, tau=1.0, vote_threshold=1.0, weights=SWAYED), told)

    assert by_votes.rounds == (1, 2)
    assert swayed.rounds == (0,)


@given(answers)
def test_agree_without_weights_is_chain_asc_at_its_vote_threshold(said):
    """It stops at the same round for the same reason and gives the same answer."""
    told = [completion(answer=answer) for answer in said]
    agree, drawn, _ = played(Agree(n=8, tau=0.0, vote_threshold=0.9), told)
    chain, also, _ = played(ChainASC(n=8, threshold=0.9), told)

    assert (drawn, agree.reason) == (also, chain.reason)
    assert apply(AnswerRule.VOTE, told, agree) == apply(AnswerRule.VOTE, told, chain)


def test_without_an_answer_nothing_is_agreed():
    """Rounds without an answer cost budget and never stop a chain early."""
    told = [completion(answer=None, score=0.9)] * 4

    assert played(ChainASC(n=4, threshold=0.0), told)[0].reason is StopReason.BUDGET
    assert (
        played(Agree(n=4, tau=0.0, vote_threshold=0.0, weights=VOTE), told)[0].reason
        is StopReason.BUDGET
    )


@pytest.mark.parametrize("strategy", [ChainASC(n=8), Agree(n=8)])
def test_a_failure_keeps_what_was_drawn(strategy):
    """A failed round ends the chain on the rounds before it."""
    told = [completion(answer="1", score=0.5), completion(answer="1", score=0.5)]
    stop, _, _ = played(strategy, [*told, Failure(error="deadline: x")])

    assert (stop.reason, stop.rounds) == (StopReason.FAILED, (0, 1))


def test_weights_given_as_a_file_are_read_into_the_configuration(tmp_path):
    """The resolved configuration holds the numbers, so its digest changes with them."""
    file = tmp_path / "weights.json"
    numbers = {"w": [1, 2, 3], "v": [0] * 8}
    digest = AgreementWeights.parse(numbers).digest()
    file.write_text(json.dumps({**numbers, "digest": digest}))
    base = {
        "name": "r",
        "science": {
            "benchmarks": [{"name": "arithmetic"}],
            "generator": {"model": "m"},
            "verifier": {"model": "v"},
        },
    }

    def config(weights):
        entry = {"kind": "agree", "weights": weights}
        return RunConfig.parse({**base, "science": {**base["science"], "strategies": [entry]}})

    read = config(str(file))

    assert read.science.strategies[0].fields["weights"] == {"w": [1.0, 2.0, 3.0], "v": [0.0] * 8}
    assert read.science_digest() != config({"w": [2, 2, 3], "v": [0] * 8}).science_digest()
    with pytest.raises(Exception, match="weights must be a readable JSON file"):
        config(str(tmp_path / "none.json"))


def drawn_and_answer(strategy, text, score=0.5):
    """Completions told and the answer by vote; - is a completion without an answer."""
    told = [completion(answer=None if c == "-" else c, score=score) for c in text]
    stop, drawn, _ = played(strategy, told)
    return drawn, apply(AnswerRule.VOTE, told[:drawn], stop).answer


@pytest.mark.parametrize(
    ("settings", "text", "expected"),
    [
        ({}, "AAAAAAAA", (3, "A")),
        ({}, "ABBBAAAA", (4, "B")),
        ({}, "ABABBBBB", (6, "B")),
        ({}, "AABBBBBB", (5, "B")),
        ({}, "ABCDEFGH", (8, "H")),
        ({"discount": 1.0}, "ABCDEFGH", (8, "A")),
        ({"repeat": 2}, "ABBBAAAA", (3, "B")),
        ({"repeat": 2}, "ABABBBBB", (5, "B")),
        ({"repeat": 2}, "AABBBBBB", (2, "A")),
        ({"n": 4}, "ABBC", (4, "B")),
        ({"n": 6}, "ABCABC", (6, "C")),
        ({"n": 6, "discount": 1.0}, "ABCABC", (6, "A")),
        ({}, "AB-BBBBB", (6, "B")),
        ({"repeat": 2}, "AB-BBBBB", (5, "B")),
        ({}, "A-AAAAAA", (5, "A")),
        ({"repeat": 2}, "A-AAAAAA", (4, "A")),
        ({"min_rounds": 5}, "AAAAAAAA", (5, "A")),
        ({"repeat": None}, "AAAAAAAA", (8, "A")),
        ({"repeat": None, "score_at_least": 0.5, "discount": 0.0}, "-ABAAAAA", (2, "A")),
    ],
)
def test_settled_stops_on_equal_answers_and_reads_recent_ones(settings, text, expected):
    """Rounds drawn and the answer of known sequences."""
    assert drawn_and_answer(Settled(**settings), text) == expected


@pytest.mark.parametrize(
    ("flags", "settings", "drawn"),
    [
        ([False, True, True, True], {}, 2),
        ([False] * 4, {}, 4),
        ([True] * 4, {"min_rounds": 3}, 3),
        ([True] * 4, {"stop_flag": False}, 4),
    ],
)
def test_settled_stops_where_the_model_asks_for_no_further_revision(flags, settings, drawn):
    """By the recorded flag of the round, once `min_rounds` are drawn and where asked to."""
    told = [completion(str(n), says_stop=flag) for n, flag in enumerate(flags)]
    fields = {"n": 4, "repeat": None, "discount": 0.0, "stop_flag": True, **settings}
    stop, count, _ = played(Settled(**fields), told)

    assert (count, stop.rounds) == (drawn, (drawn - 1,))
    assert stop.reason is (StopReason.CONFIDENT if drawn < 4 else StopReason.BUDGET)


@pytest.mark.parametrize("kind", [ExpectedAgreement, ChainExpectedAgreement])
@pytest.mark.parametrize(
    ("price", "text", "expected"),
    [
        (0.001, "AAAAAAAA", (3, "A")),
        (0.001, "ABBBAAAA", (7, "A")),
        (0.001, "ABABBBBB", (6, "B")),
        (0.001, "AABBBBBB", (6, "B")),
        (0.001, "AB-BBBBB", (6, "B")),
        (0.001, "A-AAAAAA", (5, "A")),
        (0.001, "--------", (8, None)),
        (0.01, "AAAAAAAA", (2, "A")),
        (0.01, "ABBBAAAA", (4, "B")),
        (0.01, "AABBBBBB", (2, "A")),
        (0.05, "AAAAAAAA", (1, "A")),
    ],
)
def test_expected_agreement_stops_where_an_answer_is_not_worth_its_price(
    kind, price, text, expected
):
    """Over samples and over rounds: completions drawn and the answer of known sequences."""
    assert drawn_and_answer(kind(n=8, price=price), text) == expected


def test_a_budget_is_spent_in_waves_on_the_questions_of_the_greatest_index():
    """Of 16 questions with a budget of 2 each, unanimous ones get no more than they need, divided
    ones the rest, and no more than 32 samples are drawn in all."""
    questions = [replace(question(n), benchmark="s") for n in range(16)]
    asked = []

    def answer(of, request):
        asked.append((of.question_id, request.address))
        divided = int(of.question_id[1:]) % 2
        return completion(answer=str(request.sample % 3) if divided else "1")

    strategy = ExpectedAgreement(n=8, budget=2.0)
    found = {name: stop for _, name, stop in replay_each(strategy, questions, answer)}
    sizes = {name: len(replayed.stop.rounds) for name, replayed in found.items()}

    assert sum(sizes.values()) == len(set(asked)) == 32
    assert min(sizes.values()) >= 1
    halves = [sum(sizes[f"q{n}"] for n in range(first, 16, 2)) for first in (0, 1)]
    assert halves[1] > halves[0]


@pytest.mark.parametrize(
    ("said", "settings", "reason", "drawn"),
    [
        ("AAAAAAAA", {}, StopReason.CONFIDENT, 5),
        ("ABABABAB", {}, StopReason.BUDGET, 8),
        ("AAAAAAAA", {"price": 0.5}, StopReason.CONFIDENT, 1),
        ("AAAAAAAA", {"chain": "homogeneous"}, StopReason.BUDGET, 8),
    ],
)
def test_a_settling_markovscale_stops_where_a_round_is_not_worth_its_price(
    said, settings, reason, drawn
):
    """a .2, b .4, q .5 and a belief of .4 held there: gain .16 q^(u-1), so a price of .0101 ends
    five equal answers; answers that change keep it going, and the printed rule never stops."""
    fields = {"chain": "settling", "kept": 0.5, "price": 0.0101, "gate": False, "gamma": 1e6}
    told = [completion(answer=letter, score=0.4) for letter in said]
    priors = Priors(p0=0.4, p0_source="predictor", a=0.2, b=0.4)
    stop, rounds, _ = played(MarkovScaleStar(**{**fields, **settings}), told, priors)

    assert (stop.reason, rounds) == (reason, drawn)


@pytest.mark.parametrize(
    ("chain", "value", "reason", "drawn"),
    [
        ("homogeneous", 0.005, StopReason.CONFIDENT, 1),
        ("homogeneous", 0.01, StopReason.BUDGET, 8),
        ("settling", 0.02, StopReason.CONFIDENT, 3),
        ("settling", 5.0, StopReason.BUDGET, 8),
    ],
)
def test_a_round_must_be_worth_its_dollars(chain, value, reason, drawn):
    """A round costs $.001 (10 tokens) and brings .16 of a right answer, with `settling` (q .5) half
    as much after each equal answer: it is drawn while value times gain is above its cost."""
    told = [completion(answer="A", score=0.4)] * 8
    priors = Priors(p0=0.4, p0_source="predictor", a=0.2, b=0.4)
    strategy = MarkovScaleStar(
        chain=chain,
        kept=0.5,
        price=0.0,
        gate=False,
        gamma=1e6,
        value_of_right_usd=value,
        usd_per_million=Prices(prompt=0.0, completion=100.0),
    )
    stop, rounds, _ = played(strategy, told, priors)

    assert (stop.reason, rounds) == (reason, drawn)


def test_a_value_without_prices_is_refused():
    """Both are needed, and a value above 0."""
    prices = Prices(prompt=0.0, completion=1.0)
    for fields, said in (
        ({"value_of_right_usd": 1.0}, "must be given together"),
        ({"value_of_right_usd": 0.0, "usd_per_million": prices}, "must be > 0"),
    ):
        with pytest.raises(ValueError, match=said):
            MarkovScaleStar(**fields)
    with pytest.raises(ValueError, match="prompt must be >= 0"):
        Prices(prompt=-1.0, completion=1.0)


def test_a_settling_gate_compares_p0_with_where_the_chain_freezes():
    """For p0 .7 L_U is .73 where L is .67: the paper's gate stops a chain that this one lets on."""
    priors = Priors(p0=0.7, p0_source="predictor", a=0.2, b=0.4)
    told = [completion(answer="A")] * 2
    reasons = [
        played(MarkovScaleT(n=2, chain=chain, kept=0.5), told, priors)[0].reason
        for chain in ("homogeneous", "settling")
    ]

    assert reasons == [StopReason.GATED, StopReason.BUDGET]
