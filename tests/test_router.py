"""The routing policy: sticky, least loaded, with a way out."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.routing.transport import StickyLeastLoaded


def policy(margin: int = 8, seed: int = 0) -> StickyLeastLoaded:
    """A policy whose ties are decided by `seed`."""
    return StickyLeastLoaded(margin, random.Random(seed))


def send(router: StickyLeastLoaded, session: str, replicas: list[str]) -> str:
    """Choose and send, as a transport does."""
    replica = router.choose(session, replicas)
    assert replica is not None
    router.sent(session, replica)
    return replica


def test_a_session_stays_with_its_replica() -> None:
    """Rounds of a chain find their prefix in the cache."""
    router = policy()
    homes = {}
    for session in "abcdef":
        homes[session] = send(router, session, ["x", "y", "z"])
        router.done(homes[session])

    assert {s: send(router, s, ["x", "y", "z"]) for s in "abcdef"} == homes


def test_a_session_leaves_a_replica_that_has_more_than_the_margin_to_do() -> None:
    """At the margin it stays, one above it goes to the least loaded and stays there."""
    router = policy(margin=2)
    home = send(router, "s", ["x", "y"])
    other = "y" if home == "x" else "x"
    router.done(home)
    for i in range(2):
        router.sent(f"load{i}", home)

    assert router.choose("s", ["x", "y"]) == home

    router.sent("load2", home)

    assert send(router, "s", ["x", "y"]) == other
    assert router.choose("s", ["x", "y"]) == other


def test_a_session_of_a_dead_replica_moves() -> None:
    """A replica that is not among the living is never chosen."""
    router = policy()
    home = send(router, "s", ["x", "y"])
    other = "y" if home == "x" else "x"

    assert router.choose("s", [other]) == other
    assert router.choose("s", []) is None


def test_a_replica_to_avoid_is_taken_only_when_no_other_lives() -> None:
    """A retry goes elsewhere where there is an elsewhere."""
    router = policy()

    assert {router.choose(f"s{i}", ["x", "y"], {"x"}) for i in range(20)} == {"y"}
    assert router.choose("s", ["x"], {"x"}) == "x"


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60),
    st.integers(0, 5),
    st.integers(0, 99),
)
def test_no_choice_is_more_than_the_margin_above_the_least(
    events: list[tuple[int, bool]], margin: int, seed: int
) -> None:
    """Whatever was sent and ended before."""
    router = policy(margin, seed)
    open_requests: list[str] = []
    for session, ends in events:
        if ends and open_requests:
            router.done(open_requests.pop())
        loads = {name: open_requests.count(name) for name in "xyz"}
        chosen = router.choose(str(session), ["x", "y", "z"])

        assert chosen is not None
        assert loads[chosen] <= min(loads.values()) + margin

        router.sent(str(session), chosen)
        open_requests.append(chosen)
