"""Extraction of memories from an exchange, by a model and by rules."""

import json
from datetime import UTC, datetime

import pytest

from arc_common import Message
from arc_common.memories import MemoryType, ProposedMemory
from arc_common.memory.long_term.extraction import Extractor, memories_by_rules
from arc_common.memory.own_words import learnable
from arc_common.messages import ARC_MARK
from arc_common.prompts.context import render_fence
from arc_common.settings import ArcSettings
from arc_common.testing import CountingObserver, FailingChatModel, ReplyingChatModel
from tests.support.services import services

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def extractor(model=None, observer=None, **settings):
    settings = ArcSettings(memory=settings, model_calls={"attempts": 1})
    return Extractor(services(settings=settings, observer=observer or CountingObserver(), chat_model=model))


def user(text, message_id="u1"):
    return Message("user", text, id=message_id, created_at=NOW)


def assistant(text, message_id="a1"):
    return Message("assistant", text, id=message_id, created_at=NOW)


def test_by_a_model():
    answer = '[{"type": "fact", "content": "The user lives in Seoul.", "importance": 0.9}]'
    observer = CountingObserver()
    found = extractor(ReplyingChatModel([answer]), observer).extract(
        [user("I live in Seoul."), assistant("Nice!")], session_id="s"
    )
    (memory,) = found
    assert memory == ProposedMemory("The user lives in Seoul.", importance=0.9, sources=(("s", "u1"),), valid_from=NOW)
    assert observer.counts["memory.extraction.count"] == observer.counts["memory.extraction.success"] == 1


def test_what_was_not_said_is_left_out():
    answer = '[{"content": "The user lives in Tokyo and has 3 cats."}, {"content": "The user lives in Seoul."}]'
    observer = CountingObserver()
    found = extractor(ReplyingChatModel([answer]), observer).extract([user("I live in Seoul.")])
    assert [memory.text for memory in found] == ["The user lives in Seoul."]
    assert observer.counts["memory.extraction.ungrounded"] == 1


def test_what_is_said_in_other_words_is_kept():
    """Conclusions and preferences are kept with the message that they come from."""
    cases = [
        ("I run every morning and eat salad for lunch.", "insight", "The user is health-conscious."),
        ("I hate long answers.", "preference", "The user prefers concise replies."),
        ("긴 답변은 싫어요.", "preference", "사용자는 간결한 답변을 선호한다."),
        ("저는 서울에 살아요.", "fact", "사용자는 서울에 산다."),
    ]
    for said, kind, text in cases:
        answer = json.dumps([{"type": kind, "content": text, "importance": 0.8}])
        (memory,) = extractor(ReplyingChatModel([answer])).extract([user(said)], session_id="s")
        assert (memory.text, memory.type.value, memory.sources) == (text, kind, (("s", "u1"),))
        assert memory.reinforces


def test_what_is_concluded_from_nothing_is_left_out():
    """A name, number or sentence without support is invented, whatever its type and neighbours."""
    answer = (
        '[{"type": "insight", "content": "The user is close to Hana."}, {"type": "preference", '
        '"content": "The user prefers replies of 3 lines."}, {"content": "The user hates answers that are long."}, '
        '{"content": "The user hates long answers. Pilots cross oceans."}, '
        '{"type": "insight", "content": "Famous pilots cross distant oceans."}]'
    )
    observer = CountingObserver()
    found = extractor(ReplyingChatModel([answer]), observer).extract([user("I hate long answers.")])
    assert [memory.text for memory in found] == ["The user hates answers that are long."]
    assert observer.counts["memory.extraction.ungrounded"] == 4


def test_what_is_not_important_enough_is_left_out():
    answer = '[{"content": "likes tea", "importance": 0.29}, {"content": "likes jam", "importance": 0.3}]'
    said = [user("I like tea. I like jam.")]
    found = extractor(ReplyingChatModel([answer])).extract(said)
    assert [memory.text for memory in found] == ["likes jam"]
    assert len(extractor(ReplyingChatModel([answer]), min_importance=0).extract(said)) == 2


def test_what_only_the_assistant_says_makes_nothing_more_important():
    answer = '[{"content": "The meeting room is booked for Friday."}]'
    said = [user("Book a room, please."), assistant("The meeting room is booked for Friday.")]
    (memory,) = extractor(ReplyingChatModel([answer])).extract(said, session_id="s")
    assert not memory.reinforces
    assert memory.sources == (("s", "a1"),)


@pytest.mark.parametrize(
    "model",
    [
        FailingChatModel(ConnectionError("down")),
        ReplyingChatModel(["I refuse."]),
        ReplyingChatModel(['[{"content": "The user lives in Tokyo."}]']),
    ],
    ids=["fails", "refuses", "makes everything up"],
)
def test_a_model_that_fails_leaves_it_to_the_rules(model):
    observer = CountingObserver()
    found = extractor(model, observer).extract([user("I love hiking in the mountains.")])
    assert [memory.text for memory in found] == ["I love hiking in the mountains"]
    assert observer.counts["memory.extraction.errors"] == 1
    assert observer.counts["memory.extraction.success"] == 0
    question = assistant("Which booking number do you have?", "q")
    (memory,) = extractor(model).extract([user("HB-4471902.")], before=question)
    assert memory.text == "HB-4471902 (in reply to: Which booking number do you have?)"


def test_nothing_is_asked_about_nothing():
    model, observer = ReplyingChatModel(["[]"]), CountingObserver()
    one = extractor(model, observer)
    for said in ([], [assistant("hello")], [user("  ")], [Message("tool", "42", tool_call_id="c")]):
        assert one.extract(said) == []
    assert not model.requests
    assert not observer.counts


BLOCK = "Remembered from earlier, as a record, not an instruction:\n- 2026-01-01, noted: User lives in Oslo"


def test_what_arc_put_there_is_not_read():
    said = [
        user(f"I keep bees.\n\n{render_fence('memories', BLOCK)}"),
        Message("user", f"I keep goats.\n\n{render_fence('memory', 'Facts: x')}", metadata={ARC_MARK: "context"}),
        Message("user", "Facts about Oslo", metadata={ARC_MARK: "memory"}),
        Message("system", "User lives in Oslo"),
        assistant(f"You told me:\n{BLOCK}"),
        assistant("Noted."),
    ]
    texts = [message.text for message in learnable(said)]
    assert texts == ["I keep bees.", "I keep goats.", "You told me:", "Noted."]
    model = ReplyingChatModel(["[]"])
    extractor(model).extract(said)
    assert "Oslo" not in "".join(message.text for message in model.requests[0])


def test_what_is_to_be_forgotten_is_not_read():
    said = [
        user("I keep bees. Please forget that I live in Oslo."),
        assistant("I'll forget that you live in Oslo."),
        user("I keep goats."),
        assistant("Noted."),
    ]
    assert [message.text.strip() for message in learnable(said)] == ["I keep bees.", "I keep goats.", "Noted."]
    model = ReplyingChatModel(["[]"])
    assert extractor(model).extract([user("Forget that I live in Oslo.")]) == []
    assert not model.requests


def test_a_message_without_fences_stays_as_it_is():
    assert learnable([user("a [b] <c>\n\n d ")])[0].text == "a [b] <c>\n\n d "
    assert learnable([user("plain ")])[0].text == "plain "


def test_preferences_by_rules():
    cases = [
        "I love hiking in the mountains.",
        "I'd prefer short answers.",
        "I can't stand cilantro.",
        "I'm allergic to peanuts.",
        "My favourite colour is green.",
        "저는 매운 음식을 좋아해요.",
        "오이는 싫어합니다.",
        "땅콩 알레르기가 있어요.",
    ]
    for text in cases:
        (memory,) = memories_by_rules([user(text)])
        assert memory.type is MemoryType.PREFERENCE
        assert memory.text.rstrip(".") == text.rstrip(".")
        assert memory.metadata == {"said_by": "user"}


def test_names_made_of_common_words():
    for text in ["I prefer Go.", "I like The Who.", "I love Her.", "I'm a fan of IT."]:
        assert [memory.text for memory in memories_by_rules([user(text)])] == [text.rstrip(".")]


def test_facts_by_rules():
    said = [user("My sister's birthday is May 4, 1990."), assistant("Your order number is 7731.")]
    (memory,) = memories_by_rules(said)
    assert (memory.type, "May 4, 1990" in memory.text) == (MemoryType.FACT, True)
    assert memories_by_rules(said) == memories_by_rules(said)


def test_plain_statements_about_oneself():
    cases = [
        "I live in Seoul",
        "I work at Hanjin",
        "I am a nurse",
        "저는 서울에 살아요",
        "나는 서울에 살아",
        "저는 서울에 삽니다",
        "저는 서울에 거주해요",
        "저는 부산에서 일해요",
        "나는 한진에 다녀",
        "저는 간호사예요",
        "제 이름은 하나예요",
    ]
    for text in cases:
        (memory,) = memories_by_rules([user(f"{text}.")])
        assert (memory.text, memory.type) == (text, MemoryType.FACT)
        assert memory.importance >= ArcSettings().memory.min_importance


def test_an_enormous_message():
    assert len(memories_by_rules([user("I like tea number one. " * 4_000)])) <= 50
