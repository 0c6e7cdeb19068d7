"""Chat models that answer, fail and hang as a test wants it."""

from collections.abc import Iterable, Sequence
from threading import Event, Lock

from arc_common.messages import Message


class ReplyingChatModel:
    """Gives the replies in their order, the last one for ever; an exception among them is raised.

    - `requests` has what it was asked, in order.
    - Safe to share between threads.

    Args:
        replies: Texts, or exceptions.
    """

    def __init__(self, replies: Iterable[str | Exception]) -> None:
        self._replies = list(replies)
        self._lock = Lock()
        self.requests: list[tuple[Message, ...]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """The next reply."""
        with self._lock:
            reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
            self.requests.append(tuple(messages))
        if isinstance(reply, Exception):
            raise reply
        return reply


class FailingChatModel(ReplyingChatModel):
    """Raises the same error each time; `requests` has what it was asked.

    Args:
        error: What it raises.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__([error])


class SlowChatModel:
    """Answers with another model's words, but not before it may.

    - Each call sets `asked`, then waits for `may_answer`; afterwards it sets `answered`.

    Args:
        model: Says what is answered.
    """

    def __init__(self, model: ReplyingChatModel) -> None:
        self._model = model
        self.asked = Event()
        self.may_answer = Event()
        self.answered = Event()

    def complete(self, messages: Sequence[Message]) -> str:
        """The other model's answer, once it may be given."""
        self.asked.set()
        self.may_answer.wait()
        try:
            return self._model.complete(messages)
        finally:
            self.answered.set()
