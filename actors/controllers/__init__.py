"""Controllers: Ray actors that hold one coroutine a question, with journal writer and grading."""
