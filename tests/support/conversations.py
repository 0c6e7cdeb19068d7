"""Random conversations of sound and broken agents, fast and reproducible by seed."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from random import Random

from arc_common.messages import ContentPart, Message, Role, ToolCall
from tests.support.writing_systems import HOSTILE, WRITING_SYSTEMS

_SYSTEMS = tuple(WRITING_SYSTEMS.values())
_TOOLS = ("look_up", "weather", "run-shell", "search_web", "f" * 64)
_BLANK = ("", None, " ", "\n\t", (), "\u00a0")
_IMAGES = (
    ContentPart("image", url="https://example.org/a.png", mime_type="image/png"),
    ContentPart("image", data="aGVsbG8=", mime_type="image/jpeg", extra={"detail": "low"}),
    ContentPart("file", data="aGVsbG8=", mime_type="application/pdf", name="manual.pdf"),
    ContentPart("audio", data="aGVsbG8=", mime_type="audio/wav"),
)
_THOUGHT = ContentPart("thinking", text="Let me think.", extra={"signature": "c2lnbmVk"})
_FOREIGN = ContentPart("opaque", name="widget", extra={"state": [1, 2, 3]})
_LONGEST = 60


def random_conversation(seed: int) -> list[Message]:
    """Return the conversation of a seed: messages with unique ids, oldest first, 15 on average and up to hundreds.

    - Turns have parallel calls and loops of calls, with results in another order or later.
    - Some conversations have missing results, results without a call, repeated or missing call ids, interleaved
      writers, runs of one role, swapped neighbours, system messages anywhere, or empty, blank or `None` content.
    - A few have a message of up to 30,000 characters or a turn of up to 120 exchanges.
    - Texts are in twelve writing systems; there are images, files, audio, thinking, foreign blocks and hostile text.
    - Every provider accepts the ids and tool names. Arguments of calls are an object or broken JSON.
    - A seed gives the same messages in every process.
    """
    rng = Random(seed)
    writers = 1 if rng.random() < 0.8 else 2 + int(rng.random() * 2)
    sequence = count()
    written = [_Writer(rng, number if writers > 1 else None, sequence).messages() for number in range(writers)]
    messages = written[0] if writers == 1 else _interleaved(written, rng)
    if rng.random() < 0.15:
        _disorder(messages, rng)
    return [replace(message, id=f"m{place}") for place, message in enumerate(messages)]


def random_text(rng: Random, *, most_words: int = 24, words: Sequence[str] | None = None) -> str:
    """Return a text of 1 to `most_words` words, in one random writing system unless `words` are given."""
    if rng.random() < 0.02:
        return HOSTILE[int(rng.random() * len(HOSTILE))]
    known = words or _SYSTEMS[int(rng.random() * len(_SYSTEMS))]
    return " ".join(rng.choices(known, k=1 + int(rng.random() ** 2 * most_words)))


def running_turn(rng: Random) -> list[Message]:
    """Return an unfinished turn: a user message, rounds of answered calls, and perhaps open calls at the end."""
    writer = _Writer(rng, None, count(10**6), is_sound=True)
    turn = writer.exchanges(int(rng.random() ** 3 * 12))
    if rng.random() < 0.2:
        newest = writer.exchanges(1)
        turn += newest[: 1 + int(rng.random() * (len(newest) - 1))]
    said = Message(Role.USER, random_text(rng))
    return [replace(message, id=f"r{place}") for place, message in enumerate([said, *turn])]


class _Writer:
    """A program that writes to a conversation, with its own habits."""

    def __init__(
        self, rng: Random, number: int | None, sequence: "count[int]", *, is_sound: bool | None = None
    ) -> None:
        self._rng = rng
        self._number = number
        self._sequence = sequence
        self._words = _SYSTEMS[int(rng.random() * len(_SYSTEMS))]
        sound = rng.random() < 0.4 if is_sound is None else is_sound
        self._uses_tools = 0.0 if rng.random() < 0.3 else rng.random()
        self._loses_results = 0.0 if sound else rng.random() * 0.3
        self._orphans = 0.0 if sound else rng.random() * 0.1
        self._is_blank = 0.0 if sound else rng.random() * 0.2
        self._repeats_role = 0.0 if sound else rng.random() * 0.4
        self._instructs = 0.0 if rng.random() < 0.5 else rng.random() * 0.15
        self._reuses_ids = not sound and rng.random() < 0.2
        self._gives_ids = sound or rng.random() < 0.9
        self._is_multimodal = rng.random() < 0.15

    def messages(self) -> list[Message]:
        rng = self._rng
        written: list[Message] = []
        if rng.random() < 0.3:
            written.append(Message(Role.SYSTEM, random_text(rng, words=self._words)))
        if rng.random() < 0.1:
            written.append(self._said(Role.ASSISTANT))
        for _ in range(min(int(rng.paretovariate(1.3)), _LONGEST)):
            written += self._turn()
        return written

    def exchanges(self, rounds: int) -> list[Message]:
        return [message for _ in range(rounds) for message in self._exchange()]

    def _turn(self) -> list[Message]:
        rng = self._rng
        turn = [self._said(Role.USER)]
        if rng.random() < self._repeats_role:
            turn += [
                self._said(Role.USER if rng.random() < 0.5 else Role.ASSISTANT) for _ in range(int(rng.random() * 4))
            ]
        if rng.random() < self._uses_tools:
            rounds = 20 + int(rng.random() * 100) if rng.random() < 0.003 else 1 + int(rng.random() ** 3 * 6)
            turn += self.exchanges(rounds)
        if rng.random() < self._orphans:
            stated = f"call_{10**9 + int(rng.random() * 99)}" if rng.random() < 0.7 else None
            turn.insert(int(rng.random() * (len(turn) + 1)), Message(Role.TOOL, "unasked", tool_call_id=stated))
        if rng.random() < self._instructs:
            turn.insert(int(rng.random() * (len(turn) + 1)), Message(Role.SYSTEM, random_text(rng, words=self._words)))
        if rng.random() < 0.9:
            turn.append(self._said(Role.ASSISTANT))
        return turn

    def _said(self, role: Role) -> Message:
        rng = self._rng
        chance = rng.random()
        if chance < self._is_blank:
            return Message(role, _BLANK[int(rng.random() * len(_BLANK))])
        text = random_text(rng, words=self._words)
        if rng.random() < 0.003:
            text = (text + " ") * (1 + int(rng.random() * 30_000) // (len(text) + 1))
        name = None if self._number is None else f"writer_{self._number}"
        if self._is_multimodal and rng.random() < 0.5:
            return Message(role, self._parts(role, text), name=name)
        return Message(role, text, name=name)

    def _parts(self, role: Role, text: str) -> tuple[ContentPart, ...]:
        rng = self._rng
        parts = [ContentPart("text", text=text)]
        if role is Role.USER:
            parts.insert(int(rng.random() * 2), _IMAGES[int(rng.random() * len(_IMAGES))])
        elif rng.random() < 0.6:
            parts.insert(0, _THOUGHT)
        if rng.random() < 0.3:
            parts.append(_FOREIGN)
        return tuple(parts)

    def _exchange(self) -> list[Message]:
        rng = self._rng
        calls = tuple(self._call() for _ in range(1 if rng.random() < 0.6 else 2 + int(rng.random() * 3)))
        text = None if rng.random() < 0.5 else random_text(rng, words=self._words) if rng.random() < 0.5 else ""
        results = [self._result(call) for call in calls if rng.random() >= self._loses_results]
        if self._gives_ids and len(results) > 1 and rng.random() < 0.3:
            rng.shuffle(results)
        if results and rng.random() < self._repeats_role * 0.2:  # an impatient user
            results.insert(int(rng.random() * len(results)), self._said(Role.USER))
        return [Message(Role.ASSISTANT, text, tool_calls=calls), *results]

    def _call(self) -> ToolCall:
        rng = self._rng
        number = int(rng.random() * 4) if self._reuses_ids else next(self._sequence)
        arguments = {"query": random_text(rng, most_words=6, words=self._words)} if rng.random() < 0.9 else {}
        return ToolCall(
            _TOOLS[int(rng.random() * len(_TOOLS))],
            arguments if rng.random() < 0.97 else '{"query": "unfinished',
            id=f"call_{number}" if self._gives_ids else None,
        )

    def _result(self, call: ToolCall) -> Message:
        rng = self._rng
        chance = rng.random()
        content = None if chance < 0.02 else "" if chance < 0.06 else random_text(rng, most_words=60, words=self._words)
        return Message(Role.TOOL, content, tool_call_id=call.id, name=call.name if rng.random() < 0.5 else None)


def _interleaved(written: list[list[Message]], rng: Random) -> list[Message]:
    """Interleave several writers' messages, keeping each writer's order."""
    turns = [number for number, messages in enumerate(written) for _ in messages]
    rng.shuffle(turns)
    streams = [iter(messages) for messages in written]
    return [next(streams[number]) for number in turns]


def _disorder(messages: list[Message], rng: Random) -> None:
    """Swap neighbours, drop messages, or move one."""
    for _ in range(1 + int(rng.random() * 3)):
        place = int(rng.random() * (len(messages) - 1))
        chance = rng.random()
        if chance < 0.4 and len(messages) > 1:
            messages[place], messages[place + 1] = messages[place + 1], messages[place]
        elif chance < 0.7 and len(messages) > 1:
            del messages[place]
        else:
            messages.insert(int(rng.random() * (len(messages) + 1)), messages.pop(place))
