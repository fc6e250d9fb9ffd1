"""How a cap on tokens is kept by several controllers that each know only their own spending.

Each controller is allotted a number of tokens, counted from its start, and begins a completion only
while it has spent less. Allotments that are not spent never add up to more than what is left, so
the cap is passed by no more than each controller had in flight when it had spent its own. What it
does not need it gives back with its next word.
"""

from __future__ import annotations

import math


class Allotment:
    """Divides what is left under a cap among controllers.

    Args:
        controllers: how many there are at a time, >= 1.
        cap: tokens of all controllers together; inf is no cap. It may be moved.
    """

    def __init__(self, controllers: int = 1, cap: float = math.inf) -> None:
        self.controllers, self.cap = controllers, cap
        self._spent: dict[str, float] = {}
        self._held: dict[str, float] = {}

    @property
    def spent(self) -> float:
        """Tokens that all controllers have spent, as far as they said."""
        return sum(self._spent.values())

    @property
    def left(self) -> float:
        """What is left under the cap, >= 0."""
        return max(0.0, self.cap - self.spent)

    def ask(self, controller: str, spent: float, held: float, *, wanting: bool) -> float:
        """What a controller may have spent in all before it must not begin a completion.

        Args:
            controller: its name.
            spent: tokens that it has spent.
            held: its allotment as it knows it, after it has given back what it does not need.
            wanting: whether it has completions to begin, or chains that may want some.
        """
        if math.isinf(self.cap):
            return math.inf
        self._spent[controller], self._held[controller] = spent, max(held, spent)
        if wanting:
            free = self.cap - sum(self._held.values())
            share = spent + self.left / self.controllers
            self._held[controller] += max(0.0, min(share - self._held[controller], free))
        return self._held[controller]

    def end(self, controller: str, spent: float) -> None:
        """A controller is gone: what it held beyond `spent`, which is all that will ever be counted
        of it, is free."""
        self._spent[controller] = self._held[controller] = spent
