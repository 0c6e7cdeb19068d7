"""Retrieval: requests to a model that improve a search, and the parsers of its answers."""

import re
from collections.abc import Sequence

from arc_common.messages import Message, Role
from arc_common.prompts.context import DATA_RULE, is_refusal, render_conversation, render_fence

HYPOTHETICAL_ANSWER_INSTRUCTIONS = f"""You help to search a collection of documents. {DATA_RULE}

Write the passage that such a document might hold as the answer to the question: two to four plain sentences, in the \
language of the question, in the words that a document would use. It need not be true; it is only compared with real \
passages. No introduction, no remarks, no questions."""

STANDALONE_QUESTION_INSTRUCTIONS = f"""You help to search a collection of documents. {DATA_RULE}

Rewrite the last question so that somebody who does not know the conversation understands it: put in what its \
pronouns and omissions stand for. Keep its meaning, its language, and its names, numbers and codes exactly. Add \
nothing that was not said, and don't answer it. If it is understood as it is, repeat it.

Write the rewritten question and nothing else."""

_CONVERSATION_CHARACTERS = 8_000
_QUESTION_CHARACTERS = 4_000
_MAX_PASSAGE = 2_000
_MAX_QUESTION = 400


def render_hypothetical_answer_request(question: str) -> list[Message]:
    """Ask for a passage that would answer the question (Gao et al. 2022)."""
    shown = render_fence("question", question[:_QUESTION_CHARACTERS])
    return [
        Message(Role.SYSTEM, HYPOTHETICAL_ANSWER_INSTRUCTIONS),
        Message(Role.USER, f"{shown}\n\nNow write the passage."),
    ]


def render_standalone_question_request(question: str, history: Sequence[Message]) -> list[Message]:
    """Ask for the question as it would be phrased without a previous conversation."""
    parts = [
        render_fence("conversation", render_conversation(history, max_characters=_CONVERSATION_CHARACTERS)),
        render_fence("question", question[:_QUESTION_CHARACTERS]),
        "Now write the question so that it stands alone.",
    ]
    return [Message(Role.SYSTEM, STANDALONE_QUESTION_INSTRUCTIONS), Message(Role.USER, "\n\n".join(parts))]


def parse_hypothetical_answer(answer: str) -> str | None:
    """Return the passage that a model wrote, on one line; `None` if it wrote none or refused."""
    text = _bare_text(answer)
    return None if not text or is_refusal(text) else _cut(text, _MAX_PASSAGE)


def parse_standalone_question(answer: str, *, question: str) -> str | None:
    """Return the question that a model wrote, on one line; `None` if it is empty, too long or a refusal."""
    text = _bare_text(answer)
    is_too_long = len(text) > max(_MAX_QUESTION, 2 * len(question))
    return None if not text or is_too_long or is_refusal(text) else text


def parse_queries(answer: str) -> list[str]:
    """Return the queries that a model wrote, one per line, each once."""
    return [
        line
        for line in dict.fromkeys(_bare_lines(answer))
        if len(line) <= _MAX_QUESTION and not line.endswith((":", "：")) and not is_refusal(line)
    ]


_MAX_LINE_CHARACTERS = 20_000
"""The most characters read of an answer; no request asks for more."""

_FENCED = re.compile(r"\A```[^\n]*\n(.*?)\n?```\Z", re.DOTALL)
_THINKING = re.compile(r"\A\s*<(think(?:ing)?)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"\A(?:\*\*|#+ )?(?:sure[,!.] |here(?: is|['’]s) )?(?:the )?"
    r"(?:(?:rewritten|stand-?alone|rephrased|reformulated|hypothetical|final) ){0,2}"
    r"(?:question|query|passage|answer|document|(?:독립(?:적인)? )?질문|답변|문서|问题|回答)"
    r"(?:\*\*)? ?[:：](?:\*\*)?\s*",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "`": "`"}
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_MARKER = re.compile(r"</?arc:[\w-]*>?", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")


def _bare_text(answer: str) -> str:
    """Return an answer as one line, without the thoughts, fence, label and quotation marks around it."""
    text = _THINKING.sub("", answer[:_MAX_LINE_CHARACTERS]).strip()
    if fenced := _FENCED.match(text):
        text = fenced[1]
    text = text.encode(errors="ignore").decode().replace("\x00", "")
    text = _LABEL.sub("", " ".join(_MARKER.sub(" ", text).split()))
    if not any(map(str.isalnum, text)):
        return ""
    inside = text[1:-1]
    is_quoted = len(text) > 2 and _QUOTES.get(text[0]) == text[-1] and not {text[0], text[-1]} & set(inside)
    return inside.strip() if is_quoted else text


def _bare_lines(answer: str) -> list[str]:
    """Return the nonempty lines of an answer, each as `_bare_text` leaves it, without list numbers and bullets."""
    lines = _THINKING.sub("", answer[:_MAX_LINE_CHARACTERS]).splitlines()
    bare = (_bare_text(_BULLET.sub("", line)) for line in lines if not line.lstrip().startswith("```"))
    return [line for line in bare if line]


def _cut(text: str, most: int) -> str:
    """Cut the text to `most` characters, at the end of a sentence or else of a word."""
    if len(text) <= most:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, most)]
    return text[: ends[-1]] if ends else text[: max(text.rfind(" ", 0, most), 0)] or text[:most]
