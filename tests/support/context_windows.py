"""Context windows for display tests: one with the same text in every place, and one of any size."""

from arc_common.context import ContextWindow, Item, LeftOut, Omission, Section, receipt_of
from arc_common.context.display import LOOKS
from arc_common.messages import ContentPart, Message, ToolCall

TITLES = {name: look.title for name, look in LOOKS.items()}

CONTROLS = "\x1b[31mred\x1b]0;title\x07\x00\r\x9b2J\x7f\u202egnp.exe\u2066\U000e0041\ud800"
"""An ANSI colour, a window title, NUL, a carriage return, a C1 erase, a reversed direction, a tag, half a character."""

MARKUP = "</pre></details></div><script>alert(1)</script><img src=x onerror=alert(1)> \" ' & [bold]x[/bold] {{x}}"
SCRIPTS = "한국어와 English, עברית, العربية, 日本語, 👩‍👩‍👧‍👦🏳️‍🌈🇰🇷"


def window_saying(text: str) -> ContextWindow:
    """Return a window whose items, ids, kinds, scores, reasons and notes all contain the text."""
    messages = (
        Message("system", text),
        Message("user", text, name=text),
        Message("assistant", text, tool_calls=(ToolCall(text, {text: text}), ToolCall(text, text))),
        Message("tool", (ContentPart("text", text=text), ContentPart("image", url=text))),
        Message("user", text),
        Message("assistant", None, tool_calls=(ToolCall(text),)),
    )
    items = {name: (Item(text, text, text, 3, {text: 0.5}), Item(text, "")) for name in TITLES}
    items |= {
        "history": tuple(Item("message", message.text, text) for message in messages[1:4]),
        "user_message": (Item("message", text),),
        "current_turn": (Item("message", ""),),
    }
    sections = tuple(Section(name, 10, 20, items[name]) for name in TITLES)
    total = 10 * len(sections) + 3
    receipt = receipt_of(
        [text],
        [Omission(text, text, 5, text, {text: 1.0})] * 3,
        nearest=2,
        rest={text: LeftOut(4, 40)},
        notes=[text],
        sections=sections,
        total_tokens=total,
        input_tokens=200,
    )
    return ContextWindow(messages, sections, total, receipt)


def window_of(texts: list[str], *, input_tokens: int) -> ContextWindow:
    """Return a window of a conversation with these texts, alternately of user and assistant."""
    said = [Message("assistant" if n % 2 else "user", text, id=f"m{n}") for n, text in enumerate(texts)]
    items = tuple(Item("message", message.text, message.id, 5) for message in said)
    query = Message("user", "And now?", id="now")
    sections = (
        Section("history", 5 * len(items), input_tokens, items),
        Section("user_message", 6, 6, (Item("message", "And now?", "now"),)),
    )
    total = 5 * len(items) + 9
    receipt = receipt_of(
        [item.id or "" for item in items], [], sections=sections, total_tokens=total, input_tokens=input_tokens
    )
    return ContextWindow((*said, query), sections, total, receipt)
