"""Chat models that answer, fail and hang on demand, for tests."""

from collections.abc import Iterable, Sequence
from threading import Event, Lock

from arc_common.messages import Message


class ReplyingChatModel:
    """Returns the replies in order and then repeats the last one; an exception among them is raised.

    - `requests` holds the messages of each call, in order.
    - Safe to share between threads.

    Args:
        replies: Texts, or exceptions.
    """

    def __init__(self, replies: Iterable[str | Exception]) -> None:
        self._replies = list(replies)
        self._lock = Lock()
        self.requests: list[tuple[Message, ...]] = []

    def complete(self, messages: Sequence[Message]) -> str:
        """Return or raise the next reply."""
        with self._lock:
            reply = self._replies[min(len(self.requests), len(self._replies) - 1)]
            self.requests.append(tuple(messages))
        if isinstance(reply, Exception):
            raise reply
        return reply


class FailingChatModel(ReplyingChatModel):
    """Raises the same error each time; `requests` holds the messages of each call.

    Args:
        error: The error to raise.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__([error])


class SlowChatModel:
    """Returns another model's answer, but only once it is allowed to.

    - Each call sets `asked`, then waits for `may_answer`; afterwards it sets `answered`.

    Args:
        model: Provides the answers.
    """

    def __init__(self, model: ReplyingChatModel) -> None:
        self._model = model
        self.asked = Event()
        self.may_answer = Event()
        self.answered = Event()

    def complete(self, messages: Sequence[Message]) -> str:
        """Return the other model's answer, once `may_answer` is set."""
        self.asked.set()
        self.may_answer.wait()
        try:
            return self._model.complete(messages)
        finally:
            self.answered.set()
