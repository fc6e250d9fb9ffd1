"""*Checker*: what is asked of an answer while its chain goes on: a judge's verdict, and feedback.

Both are journaled with the completion, so that a resume and every replay read them there. The
verdict is for the record alone; no strategy is shown it. Feedback is made without the gold answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from actors.controllers.chain_types import Checked, Work
from actors.controllers.grading import GradingPool
from actors.engines.chat_wire import unforged
from actors.routing.calls import JUDGE, EnginePool, GenerateCall
from pipeline.answers.graders import verdict_of
from pipeline.answers.verdict import Verdict
from pipeline.config.models import JudgeModel
from pipeline.core.protocol import Completion, Failure
from pipeline.core.thinking import after_thinking

logger = logging.getLogger(__name__)

_REMEMBERED = 8_192
_FIELD = re.compile(r"\{(question|gold|answer)\}")
_REMARK_CHARS = 2_000


class Checker:
    """Checks the answers of one controller.

    Args:
        pools: of engines, by role; a judge among them where a benchmark is graded by one.
        model: of the judge; None where there is none.
        grading: runs the commands that give feedback.
    """

    def __init__(
        self, pools: Mapping[str, EnginePool], model: JudgeModel | None, grading: GradingPool
    ) -> None:
        pool = pools.get(JUDGE)
        self._judge = None if pool is None or model is None else (pool, model)
        self._grading = grading
        self._known: dict[str, str] = {}
        """Replies of the judge, by its prompt."""

    async def __call__(self, work: Work, completion: Completion, *, feedback: bool) -> Checked:
        """What there is to say of an answer. Never raises for the judge's sake: without its reply
        the verdict is UNGRADED, and there is no remark."""
        answer = completion.answer
        verdict, remark, tokens = None, None, 0
        if work.grader.kind == "judge" and work.gold is not None:
            verdict, tokens = await self._verdict(work, work.gold, answer)
        if feedback and answer is not None:
            remark, more = await self._feedback(work, answer)
            tokens += more
        return Checked(verdict, remark, tokens)

    async def _verdict(self, work: Work, gold: str, answer: str | None) -> tuple[Verdict, int]:
        settled = work.grader.settled(gold, answer)
        if settled is not None or answer is None:
            return settled or Verdict.WRONG, 0
        if self._judge is None:
            return Verdict.UNGRADED, 0
        pool, model = self._judge
        reply, tokens = await self._ask(pool, model, work, model.prompt, gold=gold, answer=answer)
        return verdict_of(reply), tokens

    async def _feedback(self, work: Work, answer: str) -> tuple[str | None, int]:
        if work.grader.check or work.grader.runs_public_tests:
            asked = self._grading.feedback(work.grader, work.question.text, answer)
            return await asyncio.wrap_future(asked), 0
        if work.grader.kind != "judge" or self._judge is None:
            return None, 0
        pool, model = self._judge
        reply, tokens = await self._ask(pool, model, work, model.remark, answer=answer)
        return after_thinking(reply).strip()[:_REMARK_CHARS] or None, tokens

    async def _ask(
        self, pool: EnginePool, model: JudgeModel, work: Work, template: str, **fields: str
    ) -> tuple[str, int]:
        """The judge's reply and its tokens; one that is known costs nothing."""
        values = {"question": work.question.whole, **fields}
        prompt = _FIELD.sub(lambda field: unforged(values.get(field[1], field[0])), template)
        if prompt in self._known:
            return self._known[prompt], 0
        call = GenerateCall(model.request(prompt), session=work.session)
        made = await pool.call(call)
        if isinstance(made, Failure):
            logger.warning("the judge gave no reply: %s", made.error)
            return "", made.completion_tokens or 0
        while len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        self._known[prompt] = made.text
        return made.text, made.prompt_tokens + made.completion_tokens
