"""Summaries by a model and by rules."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_common import ArcError, ArcSettings
from arc_common.exceptions import InvalidInputError, ModelCallError, SummaryFailedError
from arc_common.facts import FactCategory, ProposedFact
from arc_common.memory.summaries.summarizers import ModelSummarizer, RuleBasedSummarizer, cut_to_tokens, sources_in
from arc_common.messages import ContentPart, Message, Role
from arc_common.prompts.summary import SummaryFormatError
from arc_common.testing import CountingObserver
from arc_common.testing.fakes import FailingChatModel, ReplyingChatModel
from arc_common.text.sentences import sentences_of
from arc_common.tokens.counters import HeuristicTokenCounter
from tests.support.planted_facts import FACT_SETS, build_conversation, load_facts
from tests.support.services import services

CHAT = [
    Message("user", "My order is ORD-7731, ship it to Porto.", id="m0"),
    Message("assistant", "ORD-7731 will go to Porto on Friday.", id="m1"),
    Message("user", "And never leave it with the neighbours, 이름은 보리예요.", id="m2"),
    Message("assistant", "Understood, thank you!", id="m3"),
]
GOOD = json.dumps(
    {
        "facts": [{"key": "order", "value": "ORD-7731 to Porto", "category": "NUMERIC"}],
        "removed": ["old address"],
        "narrative": "The user sends an order to Porto. The tone is friendly.",
    }
)


def summarizer(model, *, observer=None, calls=None, **summary):
    settings = ArcSettings(model_calls={"attempts": 1, **(calls or {})}, summary=summary)
    parts = {} if observer is None else {"observer": observer}
    return ModelSummarizer(services(settings=settings, **parts), model, pause_seconds=0)


def test_a_leaf_has_facts_with_sources_and_a_narrative():
    observer, model = CountingObserver(), ReplyingChatModel([GOOD])
    summary = summarizer(model, observer=observer).leaf(CHAT)
    assert [(fact.key, fact.value, fact.category) for fact in summary.facts] == [
        ("order", "ORD-7731 to Porto", FactCategory.NUMERIC)
    ]
    assert summary.facts[0].sources == ("m0",)
    assert summary.removed_keys == ("old address",)
    assert summary.narrative == "The user sends an order to Porto. The tone is friendly."
    assert observer.counts == {"summary.calls": 1}


@pytest.mark.parametrize(("level", "most"), [("leaf", 60), ("era", 120)])
def test_narratives_keep_to_their_ceilings(level, most):
    long = " ".join(f"They talked about matter number {i} for a while." for i in range(60))
    model = ReplyingChatModel([json.dumps({"facts": [], "narrative": long})])
    one = summarizer(model)
    narrative = one.era([message.text for message in CHAT]) if level == "era" else one.leaf(CHAT).narrative
    assert 0 < HeuristicTokenCounter().count(narrative) <= most
    assert narrative.endswith("while.")
    assert f"{most} tokens" in model.requests[0][0].text


def test_an_answer_without_a_summary_is_sent_back_once():
    cases = ["", "I can't help with that.", '{"facts": [], "narrative": ""}', '[{"key": "a", "value": "b"}]', "{"]
    for bad in cases:
        observer, model = CountingObserver(), ReplyingChatModel([bad, GOOD])
        summary = summarizer(model, observer=observer).leaf(CHAT)
        assert summary.narrative.startswith("The user sends")
        assert observer.counts == {"summary.calls": 2, "summary.reasks": 1}
        assert "That answer can't be used" in model.requests[1][1].text
        assert model.requests[1][1].text.startswith(model.requests[0][1].text)


@pytest.mark.parametrize("level", ["leaf", "era"])
def test_a_second_answer_without_a_summary_is_a_failure(level):
    model = ReplyingChatModel(["nonsense"])
    with pytest.raises(SummaryFailedError) as caught:
        getattr(summarizer(model), level)(["x"] if level == "era" else CHAT)
    assert isinstance(caught.value.__cause__, SummaryFormatError)
    assert isinstance(caught.value, ArcError)
    assert len(model.requests) == 2


def test_a_model_that_fails_is_a_failure_of_the_same_kind():
    model = FailingChatModel(OSError("no route"))
    with pytest.raises(SummaryFailedError, match="no route") as caught:
        summarizer(model, calls={"attempts": 3}).leaf(CHAT)
    assert isinstance(caught.value.__cause__, ModelCallError)
    assert len(model.requests) == 3


def test_sessions_share_one_breaker():
    """One summariser serves all sessions; none calls the model while it is down."""
    model = FailingChatModel(OSError("down"))
    shared = summarizer(model, calls={"breaker_failures": 2})
    for call in (lambda: shared.leaf(CHAT), lambda: shared.era(["x"]), lambda: shared.era(["y"])):
        with pytest.raises(SummaryFailedError):
            call()
    assert len(model.requests) == 2


def test_a_huge_message_is_cut_for_the_model():
    model = ReplyingChatModel([GOOD])
    pasted = Message("user", "begin " + "log line\n" * 100_000 + " end", id="m9")
    summarizer(model).leaf([*CHAT, pasted])
    text = model.requests[0][1].text
    assert len(text) < 40_000
    for part in ("begin", " end", "characters left out", *(message.text for message in CHAT)):
        assert part in text


def proposed(value, key="k"):
    return ProposedFact(key, value, FactCategory.GENERAL)


@pytest.mark.parametrize(
    ("fact", "sources"),
    [
        (proposed("ORD 7731"), ("m0",)),
        (proposed("neighbours"), ("m2",)),
        (proposed("Friday"), ("m1",)),
        (proposed("보리"), ("m2",)),
        (proposed("Porto, not with neighbours, on Friday"), ("m1", "m2")),
        (proposed("quokka", key="neighbours"), ("m2",)),
        (proposed("quokka"), ("m0", "m2")),
    ],
    ids=["user-first", "one", "assistant", "korean", "several", "by-key", "nowhere"],
)
def test_a_fact_points_at_the_messages_that_say_it(fact, sources):
    """The best messages are chosen, the user's first; if none says it, all of the user's are."""
    assert sources_in(CHAT)(fact.value, fact.key) == sources


def test_of_messages_with_the_same_words_the_one_that_says_it_is_pointed_at():
    """Removing a message must remove its facts and no others."""
    apart = "My sister flew to Porto. My uncle works in a bank."
    chat = [Message("user", apart, id="apart"), Message("user", "My sister works in a bank in Porto.", id="says")]
    assert sources_in(chat)("My sister works in a bank in Porto") == ("says",)


@given(st.lists(st.sampled_from([*CHAT, Message("assistant", "no id"), Message("tool", "7731", id="t")]), max_size=8))
def test_sources_are_ids_of_the_messages_given(messages):
    """There is at least one if any message has an id."""
    found = sources_in(messages)("ORD-7731 in Porto with the quokka")
    ids = {message.id for message in messages if message.id}
    assert set(found) <= ids
    assert bool(found) == bool(ids)


@given(st.text(st.sampled_from("ab .!?\n가。"), max_size=200), st.integers(1, 40))
def test_a_cut_text_fits_and_says_nothing_new(text, most):
    """It has whole sentences if one fits, otherwise a prefix and an ellipsis."""
    count = HeuristicTokenCounter().count
    cut = cut_to_tokens(text, most, count)
    assert count(cut) <= most
    if count(text) <= most:
        assert cut == text
    assert set(cut) <= set(text) | {" ", "…"}


COUNTER = HeuristicTokenCounter()
RULES = RuleBasedSummarizer(COUNTER)


def said(*texts: str, role: Role = Role.USER) -> list[Message]:
    return [Message(role, text, id=f"m{i}") for i, text in enumerate(texts)]


def test_a_narrative_has_whole_sentences_in_their_order() -> None:
    """It consists of whole sentences of the messages in their order."""
    messages = build_conversation(load_facts(FACT_SETS[0]), seed=4)[:16]
    narrative = RULES.narrative(messages, max_tokens=80)
    assert 0 < COUNTER.count(narrative) <= 80
    whole = "\n".join(message.text for message in messages)
    told = [sentence for line in narrative.splitlines() for sentence in sentences_of(line.partition(": ")[2])]
    places = [whole.index(sentence) for sentence in told]
    assert places == sorted(places)


def test_central_sentences_come_first() -> None:
    """Subjects that other sentences share are preferred to isolated ones, however informative."""
    messages = said(
        "Giraffes, lanterns, kettles, pianos, velvet, amber, walnuts, herons.",
        "Boilers, cellars, plumbers, valves, gaskets, copper, thermostats, radiators.",
        "Boilers, cellars, plumbers, valves, insurers, invoices, landlords, mould.",
    )
    assert "Boilers" in RULES.narrative(messages, max_tokens=24)


def test_what_was_said_first_is_told_first() -> None:
    """Sentences keep the conversation's order, even if the most central one came last."""
    lines = [
        "The landlord inspected the mould and the invoices.",
        "The plumbers replaced valves and boilers.",
        "Boilers, plumbers, valves: the landlord pays the invoices.",
    ]
    central = f"- user: {lines[-1]}"
    assert RULES.narrative(said(*lines), max_tokens=COUNTER.count(central)) == central
    assert RULES.narrative(said(*lines), max_tokens=60) == "\n".join(f"- user: {line}" for line in lines)


@pytest.mark.parametrize("courtesy", ["Thanks for", "Hang in there with"])
def test_courtesies_come_last(courtesy: str) -> None:
    """A courtesy is included only if there is space, even if it is longer and comes first."""
    longer = f"{courtesy} those marvellous lanterns, kettles, pianos, walnuts, herons!"
    messages = said(longer, "Boilers, cellars and plumbers leak.")
    assert "Boilers" in RULES.narrative(messages, max_tokens=24)


def test_a_page_says_no_more_than_a_message() -> None:
    """A long reply on one subject would otherwise fill the summary, since its sentences are similar."""
    page = " ".join(
        f"A boiler of {maker} needs a valve, a thermostat and a plumber." for maker in ("Alm", "Bor", "Cid")
    )
    messages = [
        *said("I compare boilers for the old mill.", "The mill needs new boilers."),
        *said(page, role=Role.ASSISTANT),
    ]
    told = RULES.narrative(messages, max_tokens=24)
    assert "mill" in told
    assert "thermostat" not in told


def test_names_of_the_speakers_are_no_topic() -> None:
    """Sentences addressed to Ben contain his name, which made them similar and central."""
    texts = ["Ben, those lanterns glow at dusk.", "Ben, herons nest near rivers.", "Ben, kettles whistle at dawn."]
    texts += ["Boilers leak in winter and insurers charge.", "Plumbers inspect old boilers."]
    messages = [Message(Role.USER, text, name="Ann") for text in texts] + [Message(Role.USER, "Fine.", name="Ben")]
    told = RULES.narrative(messages, max_tokens=14)
    assert "Ben," not in told
    assert "oilers" in told


def test_what_is_told_is_specific() -> None:
    """Encouragement and platitudes are central, as they repeat a conversation's words, and say nothing."""
    messages = [
        *said("I open the dance studio in Porto on 4 June.", "Great dance studios need passion for dance."),
        *said("Dance studios bring people together.", role=Role.ASSISTANT),
        *said("I hired Rosa, who teaches tango, for the studio."),
    ]
    told = RULES.narrative(messages, max_tokens=200)
    assert "4 June" in told
    assert "Rosa" in told
    assert "passion" not in told
    assert "together" not in told


def test_agreements_come_before_remarks() -> None:
    messages = said("Our boiler in the cellar smells of old metal.", "We agreed to replace the boiler in the cellar.")
    assert RULES.narrative(messages, max_tokens=18) == "- user: We agreed to replace the boiler in the cellar."


def test_room_that_is_left_is_not_filled_with_what_is_hardly_central() -> None:
    texts = [f"I booked the ferry from Leith to hall {n} for the choir." for n in range(4)]
    assert "kettles" not in RULES.narrative(said(*texts, "Some old kettles whistle."), max_tokens=400)


def test_a_reply_that_confirms_values_is_not_told() -> None:
    """Its last sentence is, for its value is new; so is a reply to another message."""
    asked = said("Tell Ann to come at 9:30.")
    texts = "Ann is expected at 9:30. The bus to the mill leaves at 8:45."
    reply = said(texts, role=Role.ASSISTANT)
    told = RULES.narrative([*asked, *reply], max_tokens=200)
    assert "8:45" in told
    assert "expected" not in told
    assert "expected" in RULES.narrative(reply, max_tokens=200)


def test_a_reply_to_a_pasted_book_is_read_in_time_linear_in_both() -> None:
    pasted = " ".join(f"Rack {n % 40} of hall {n} reported {n % 90} degrees yesterday." for n in range(5_000))
    reply = " ".join(f"Hall {n} reported {n % 90} degrees." for n in range(200))
    start = time.process_time()
    RULES.narrative([*said(pasted), *said(reply, role=Role.ASSISTANT)], max_tokens=200)
    assert time.process_time() - start < 4  # 0.3 on a common machine


def test_nothing_is_told_twice() -> None:
    line = "The boiler in the cellar leaks every night."
    assert RULES.narrative(said(line, line, line), max_tokens=200).count("boiler") == 1


def test_excerpts_have_day_and_speaker() -> None:
    """Each message has a line of whole sentences with "…" between them; a second pass leaves it unchanged."""
    at = datetime(2026, 11, 20, 9, tzinfo=UTC)
    said = "The boiler in the cellar leaks. Thanks! It drips on every shelf of the cellar."
    messages = [
        Message(Role.USER, said, created_at=at),
        Message(Role.ASSISTANT, "A plumber should inspect the boiler on Friday.", name="Ben"),
    ]
    first = RULES.narrative(messages, max_tokens=60)
    assert first == (
        "- 2026-11-20, user: The boiler in the cellar leaks. … It drips on every shelf of the cellar.\n"
        "- Ben: A plumber should inspect the boiler on Friday."
    )
    assert RULES.retold([first.replace(" …", "")], max_tokens=60) == first.replace(" …", "")
    both = RULES.retold([first, "They spoke about the roof."], max_tokens=200)
    assert both.endswith("- Ben: A plumber should inspect the boiler on Friday.\nThey spoke about the roof.")


def test_excerpts_name_images_and_files() -> None:
    """Also when they are told again."""
    said = ContentPart("text", text="The boiler in the cellar leaks. It drips on every shelf of the cellar.")
    image, file = ContentPart("image", url="x:y", name="boiler.png"), ContentPart("file", url="x:z")
    first = RULES.narrative([Message(Role.USER, (said, image, file))], max_tokens=60)
    assert first == f"- user: {said.text} (image: boiler.png) (file)"
    assert RULES.retold([first], max_tokens=60) == first


def test_excerpts_tell_facts_last_and_no_remarks_in_brackets() -> None:
    """The list of facts may have no space for this one; bracketed remarks at the end of a line were not said."""
    messages = said(
        "Our flight to Lisbon is TP 1234. The seats are by the window.",
        "Nobody agreed where to eat on Friday. [shares a photo of the seats]",
    )
    facts = ["Our flight to Lisbon is TP 1234"]
    shown = RULES.narrative(messages, max_tokens=15, facts=facts)
    assert shown == "- user: Nobody agreed where to eat on Friday."
    assert facts[0] in RULES.narrative(messages, max_tokens=80, facts=facts)
    messages = said("Our flight to Lisbon is TP 1234 on 3 May.", "The hotel in Lisbon has a roof over the harbour.")
    for facts, told in (((), "flight"), (["Our flight to Lisbon is TP 1234 on 3 May"], "hotel")):
        assert told in RULES.narrative(messages, max_tokens=19, facts=facts)


def test_answers_are_told_before_questions_and_single_words() -> None:
    """A question without its answer says little, and "yes" nothing."""
    messages = said(
        "Which address does the new hotel in Porto have?",
        "The new hotel in Porto is at Rua das Flores 90.",
        "Yes.",
    )
    assert RULES.narrative(messages, max_tokens=20) == "- user: The new hotel in Porto is at Rua das Flores 90."
    assert "Yes" not in RULES.narrative(messages, max_tokens=80)


def chat(*texts: str) -> list[Message]:
    """Return messages of a user and an assistant in turns."""
    return [Message(("user", "assistant")[i % 2], text, id=f"m{i}") for i, text in enumerate(texts)]


OPEN = {
    "nobody-answers": ("Can the tent stand on gravel, or does it need grass?",),
    "asked-back": ("Which tent do you mean?", "Do you know a good baker in Leith?"),
    "unknown": ("Can the tent stand on gravel?", "I'm not sure, I'll ask our fitters."),
    "unknown-german": ("Kann das Zelt auch auf Kies stehen?", "Das weiß ich nicht, ich frage unseren Monteur."),
    "unknown-korean": ("텐트를 자갈 위에 세워도 되나요?", "잘 모르겠어요, 확인하고 말씀드릴게요."),
    "unknown-chinese": ("帐篷可以搭在碎石上吗？", "这个我不清楚，我问一下师傅。"),
    "undecided": ("We still have to decide between the red tent and the green one.", "No rush at all!"),
    "undecided-german": ("Welches Zelt wir nehmen, ist noch nicht entschieden.", "Kein Problem!"),
    "undecided-korean": ("텐트를 빨간색으로 할지는 아직 못 정했어요.", "천천히 생각해 보세요!"),
    "undecided-chinese": ("红帐篷还是绿帐篷，我们还没决定。", "没问题！"),
}


@pytest.mark.parametrize("texts", OPEN.values(), ids=OPEN)
def test_what_is_left_open_is_told_first(texts: Sequence[str]) -> None:
    """Facts and recall can't say that something was never answered or decided."""
    before = chat(
        "The boiler in the cellar of the mill costs $900.",
        "A plumber from Porto can replace the boiler on 4 June.",
        "The plumber from Porto charges $90 for the boiler.",
        "The boiler from Porto needs two plumbers on 4 June.",
    )
    told = RULES.narrative([*before, *chat(*texts)], max_tokens=45)
    assert f": {texts[0].rstrip('.')}" in told
    answered = RULES.narrative([*before, *chat(texts[0], "Yes.")], max_tokens=20)
    if texts[0].endswith("?"):
        assert texts[0] not in answered


def test_a_question_that_is_answered_later_is_not_open() -> None:
    """By the next message of the conversation, or by one that has its words although it was put off before."""
    boiler = "The boiler in the cellar of the mill costs $900."
    asked = chat(boiler, "Shall the plumber come to the mill on 4 June?")
    assert "Shall" in RULES.narrative(asked, max_tokens=20)
    assert "Shall" not in RULES.narrative(asked, max_tokens=20, following=chat("Yes, please."))
    assert "Shall" not in RULES.narrative(asked, max_tokens=20, following=chat("Please send them on 5 June."))
    put_off = chat(boiler, "Fine.", "Can the tent stand on gravel?", "I'm not sure, I'll ask.")
    assert "gravel" in RULES.narrative(put_off, max_tokens=20)
    later = chat("Thank you.", "The fitters say that gravel is fine for the tent.")
    assert "Can the tent" not in RULES.narrative([*put_off, *later], max_tokens=20)


AGREED = {
    "english": ("What about the old stool?", "Let's say $750, and I fetch it myself.", "Deal.", "$750"),
    "german": ("Was kostet der alte Hocker?", "Ich hole den Hocker selbst ab, für 75 Euro.", "Abgemacht!", "75 Euro"),
    "korean": ("의자는 얼마예요?", "의자는 제가 가져가고 7만 원으로 할까요?", "네, 그렇게 해요.", "7만 원"),
    "chinese": ("旧椅子多少钱？", "椅子我自己来拿，750元怎么样？", "成交！", "750元"),
}


@pytest.mark.parametrize("texts", AGREED.values(), ids=AGREED)
def test_an_agreement_is_told_with_what_it_agrees_to(texts: Sequence[str]) -> None:
    """A bare "Deal." says nothing."""
    *said, value = texts
    boilers = [f"The boiler number {n} in the cellar of the mill leaks on shelf {n}." for n in range(3)]
    told = RULES.narrative([*chat(*boilers), *chat(*said)[1:]], max_tokens=45)
    assert value in told
    assert said[-1].rstrip(".!！") in told


def test_other_topics_come_before_more_of_the_same() -> None:
    things = ("valve, the copper and the boiler", "gaskets, the pipes and the copper", "pump, the boiler and the pipes")
    texts = [f"The {thing} are old." for thing in things]
    told = RULES.narrative(said(*texts, "The choir rehearses a requiem."), max_tokens=34)
    assert "old" in told
    assert "choir" in told


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        ("北京饭店的电话是多少？", "电话是82291133。"),
        ("How many guests will come to the party?", "About 40 people."),
        ("Wann reisen die Gäste an?", "Am 12. Juni, mittags."),
        ("손님은 몇 분이나 오시나요?", "60명 정도요."),
    ],
)
def test_a_reply_that_says_nothing_alone_comes_with_its_question(asked: str, reply: str) -> None:
    """Or not at all: of a question that says nothing alone either, nothing is told."""
    told = RULES.narrative(chat(asked, reply), max_tokens=60)
    assert f"{reply.rstrip('.。')} (in reply to: {asked})" in told
    told = RULES.narrative(
        chat("它的电话是多少？", "电话是82291133。", "谢谢你，北京饭店的早餐很有名。"), max_tokens=60
    )
    assert "82291133" not in told


@pytest.mark.parametrize(
    "asked",
    [
        "Do you have lamp number {} in white, or only in black?",
        "{}번 조명은 흰색도 있나요?",
        "{}号灯有白色的吗？",
        "{}番のランプは白もありますか？",
        "Gibt es Lampe {} auch in Weiß?",
    ],
)
def test_of_questions_that_differ_in_a_number_the_last_is_told(asked: str) -> None:
    messages = said(*(asked.format(number) for number in (5, 12, 301)))
    assert RULES.narrative(messages, max_tokens=400) == f"- user: {asked.format(301)}"


def test_questions_that_differ_in_a_word_are_told() -> None:
    messages = said("Do you have lamps made of brass?", "Do you have rugs made of wool?", "What about Rome?")
    messages += said("What about Oslo?")
    assert len(RULES.narrative(messages, max_tokens=400).splitlines()) == 4


@pytest.mark.parametrize("talk", ["Agreed, John!", "Whoa, Mel, that sign looks serious.", "A tough search, Jon!"])
def test_a_name_that_only_addresses_somebody_is_not_specific(talk: str) -> None:
    """Nor if nobody in the conversation has it."""
    boilers = ("I booked the plumber for the boiler in Leith.", "The boiler in Leith costs $900, says the plumber.")
    assert talk not in RULES.narrative(said(boilers[0], talk, boilers[1]), max_tokens=400)


def test_what_only_announces_a_list_is_not_told() -> None:
    said = "Some popular tools for music are:\n**Good teachers:**\nThe harbour of Porto has a museum of old boats."
    told = RuleBasedSummarizer(HeuristicTokenCounter()).narrative([Message("assistant", said)], max_tokens=200)
    assert told == "- assistant: The harbour of Porto has a museum of old boats."


def test_a_greeting_with_a_name_is_not_told() -> None:
    told = RULES.narrative(said("Hey Caroline! The boiler leaks.", "Caroline saw the boiler."), max_tokens=200)
    assert told == "- user: The boiler leaks.\n- user: Caroline saw the boiler."


def test_what_is_told_again_stays_within_its_ceiling() -> None:
    narratives = [f"- user: The boiler number {n} in cellar {n} leaks. It drips on shelf {n}." for n in range(20)]
    told = RULES.retold(narratives, max_tokens=40)
    assert 0 < COUNTER.count(told) <= 40
    assert told.startswith("- user: ")
    assert RULES.retold([], max_tokens=40) == RULES.retold(["", " "], max_tokens=40) == ""


def test_text_is_never_answered_by_nothing() -> None:
    """Non-empty text has a non-empty excerpt within the limit, in any script."""
    all_texts = [
        "보일러가 지하실에서 새요. 배관공을 불렀어요.",
        "ボイラーが壊れました。配管工を呼びました。",
        "锅炉坏了。我叫了水管工。",
        "ok",
        "?",
        "👍",
    ]
    for text in all_texts:
        for max_tokens in [8, 60]:
            narrative = RULES.narrative(said(text), max_tokens=max_tokens)
            assert narrative.strip()
            assert COUNTER.count(narrative) <= max_tokens


@given(st.lists(st.tuples(st.sampled_from(list(Role)), st.text(max_size=120)), max_size=12), st.integers(1, 40))
def test_the_limit_holds_for_any_conversation(turns: list[tuple[Role, str]], max_tokens: int) -> None:
    """The result is within the limit and deterministic."""
    messages = [Message(role, text) for role, text in turns]
    narrative = RULES.narrative(messages, max_tokens=max_tokens)
    assert COUNTER.count(narrative) <= max_tokens
    assert narrative == RULES.narrative(messages, max_tokens=max_tokens)


def test_tools_speak_only_when_nobody_else_does() -> None:
    """A tool's output is included only if there is nothing else."""
    tool = Message(Role.TOOL, "The stock level of boilers is 42 units.", tool_call_id="c")
    assert "42" in RULES.narrative([tool], max_tokens=60)
    assert "42" not in RULES.narrative([tool, *said("The boiler leaks again today.")], max_tokens=60)


def test_limits_are_checked() -> None:
    with pytest.raises(InvalidInputError, match="max_tokens"):
        RULES.narrative(said("hello"), max_tokens=0)


def test_a_block_of_long_messages_takes_bounded_time() -> None:
    """Sixty-four messages of ten thousand words take a few seconds."""
    messages = said(
        *(
            f"w{i}x{j} alpha beta gamma. " * 400 + " ".join(f"q{i}{k}" for k in range(9_000))
            for j in (0,)
            for i in range(64)
        )
    )
    start = time.perf_counter()
    assert RULES.narrative(messages, max_tokens=80)
    assert time.perf_counter() - start < 5
