"""Both frameworks' memories keep each message's source: untrusted text is never learned and comes back quoted."""

import pytest
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage

from arc_common import ArcSettings, Message, Role, ToolCall
from arc_common.trust import SOURCE
from tests.support.faces import FACES, LANGCHAIN, LLAMAINDEX, Face, faces

RESULT = "My flight TP 1234 to belmoran is cancelled."
ANSWER = "I booked cabin nine on the belmoran ferry for you."
IMPORT = "I live in belmoran since March."
MARKED = {
    "LangChain": HumanMessage(IMPORT, additional_kwargs={SOURCE: "old WhatsApp chat"}),
    "LlamaIndex": ChatMessage(role="user", content=IMPORT, additional_kwargs={SOURCE: "old WhatsApp chat"}),
}


def talk(number: int) -> list[Message]:
    return [
        message
        for day in range(number)
        for message in (Message(Role.USER, f"What is on day {day}?"), Message(Role.ASSISTANT, f"Walk {day}."))
    ]


@faces
@pytest.mark.parametrize("named", [True, False], ids=["named result", "result named by its call"])
def test_what_tools_and_imports_say(face: Face, named: bool) -> None:
    engine = face.open_engine("sqlite://", settings=ArcSettings(memory={"enabled": True}, summary={"leaf_messages": 8}))
    memory = face.memory(engine, "s", user_id="ann")
    marked = next(message for name, message in MARKED.items() if FACES[name] is face)
    result = Message(Role.TOOL, RESULT, tool_call_id="c1", name="ferry_page" if named else None)
    said = [
        Message(Role.USER, "When does the ferry leave?"),
        Message(Role.ASSISTANT, "", (ToolCall("ferry_page", {}, "c1"),)),
        result,
        Message(Role.ASSISTANT, ANSWER),
    ]
    for message in said:  # one by one, like agents
        face.write(memory, [face.from_arc(message)])
    face.write(memory, [marked, face.from_arc(Message(Role.ASSISTANT, "Noted, belmoran since March."))])
    face.write(memory, list(map(face.from_arc, talk(14))))
    session = engine.session("s", user_id="ann")
    session.summarize()
    engine.flush()
    facts = [f"{one.key} {one.value}" for one in session.facts(include_superseded=True)]
    memories = [one.text for one in engine.memories(user_id="ann").list(status=None)]
    assert "belmoran" not in " ".join([*facts, *memories])
    shown = session.context("Which flight, ferry or home is in belmoran?").messages[-1].text
    for quotation in (
        f"tool ferry_page said: “{RESULT}”",
        f"assistant, from tool ferry_page: “{ANSWER}”",
        f"old WhatsApp chat said: “{IMPORT}”",
    ):
        assert f"\n{quotation}" in shown
    engine.close()


@pytest.mark.parametrize("face", [LANGCHAIN, LLAMAINDEX], ids=["LangChain", "LlamaIndex"])
def test_a_marked_message_comes_back_as_it_was(face: Face) -> None:
    marked = next(message for name, message in MARKED.items() if FACES[name] is face)
    assert face.from_arc(face.to_arc(marked)) == marked
    assert face.to_arc(marked).trust == "untrusted"
