"""Separates a speaker's own words from pasted, quoted, forwarded and handed-over text, by its form alone."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from arc_common.caches import cached_by_hash
from arc_common.concurrency import give_way
from arc_common.messages import Message, Role
from arc_common.prompts.context import FENCE, without_fences, without_insertions
from arc_common.prompts.memories import without_memories
from arc_common.text.languages.language import NEVER
from arc_common.text.languages.registry import LANGUAGES, possible_languages
from arc_common.text.sentences import sentence_spans
from arc_common.trust import Trust

LONGEST_OWN = 2_000
"""Characters of a user's message; a longer one is taken for a pasted text. LongMemEval has 59 longer ones among 9,759
user messages, and the 67 with something to remember have at most 600."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_BLOCK_QUOTE = re.compile(r"^[ \t]{0,3}[>＞│┃][^\n]*", re.MULTILINE)
_WIDE = r"[\u3040-\u30ff\u3400-\u9fff가-힣]"
_LONG_QUOTE = re.compile(
    r"(?<![\w\"])[“\"„«](?=\S)[^\"“”„«»\n]{60,2000}(?<=\S)[”\"“»](?!\w)|«\s[^«»\n]{60,2000}\s»"
    rf"|[“「『](?=[^“”「」『』\n]{{0,20}}{_WIDE})[^“”「」『』\n]{{24,2000}}[”」』]"
    rf"|(?<![\w\"])\"(?=[^\"\n]{{0,20}}{_WIDE})(?=\S)[^\"\n]{{24,2000}}(?<=\S)\""
)
"""A long quotation is somebody else's text; titles are short. A syllable or an ideograph counts as three letters."""
_LEAST_QUOTED = 60
_QUOTE_AHEAD = re.compile(r"^[ \t]*([\"“„«「『])", re.MULTILINE)
_CLOSING = {'"': '"', "“": "”", "„": "“", "«": "»", "「": "」", "『": "』", "‘": "’", "'": "'"}
_ONESELF = f"(?={'|'.join(language.self_quoted for language in LANGUAGES)})"
_OF_ONESELF = re.compile(
    rf"[“「『]{_ONESELF}[^“”「」『』\n]{{3,400}}[”」』]|(?<!\w)(?:[“\"]{_ONESELF}[^\"“”\n]{{3,400}}[”\"]"
    rf"|['‘]{_ONESELF}[^\n]{{3,300}}?['’](?=[\s.,!?;:)]|[가-힣]|$))"
)
"""A quoted sentence in which its speaker talks about themselves."""
_FORWARDED = re.compile(
    r"^[ \t]*(?:-{2,}[ \t]*(?:forwarded message|original message|weitergeleitete nachricht|ursprüngliche nachricht"
    r"|전달된 메[시세]지|원본 메[시세]지|转发|原始邮件|転送|元のメッセージ)"
    r"|begin forwarded message|on [^\n]{8,200} wrote[ \t]*:[ \t]*$|am [^\n]{8,200} schrieb[^\n]{0,80}:[ \t]*$"
    r"|[^\n]{8,200}님이 작성[ \t]*:"
    r"|(?:from|von|보낸 ?사람|发件人|差出人)[ \t]*[:：][^\n]+\n[ \t]*"
    r"(?:sent|date|to|cc|subject|gesendet|datum|an|betreff|받는 ?사람|보낸 ?날짜|날짜|제목"
    r"|收件人|发送时间|日期|主题|日時|宛先|件名)[ \t]*[:：])",
    re.MULTILINE | re.IGNORECASE,
)
"""The head of a forwarded or answered mail, which stands behind it."""
_LABEL = r"[ \t]*[^\W\d_][^\n:：@]{0,24}[:：]"
_MAIL = re.compile(
    rf"^(?:[ \t]*-{{4,}}[^\n-]{{3,60}}-{{4,}}[ \t]*\n{{1,2}}{_LABEL}|[^\n<]{{6,200}}<[^\s<>@]{{1,64}}@[^\s<>]{{1,200}}>"
    rf"(?:[^\n]{{0,40}}[:：][ \t]*$|[^\n]{{0,80}}\n{_LABEL}[^\n]{{0,300}}\n{_LABEL}))",
    re.MULTILINE,
)
"""The same in any language: a titled rule over a label, or a name with its address before a colon or two labels."""
_HANDED_OVER = re.compile(
    r"^[^\n]{0,200}?(?:(?<![^\W_])(?:article|(?:web ?)?page|website|e-?mail|mail|letter|text|message|post|comment"
    r"|reviews?|documents?|logs?|transcript|excerpts?|snippet|newsletter|contract|results?|output|artikel|seite|nachricht|brief"
    r"|beitrag|vertrag)(?![^\W_])|기사|메일|편지|글|문서|페이지|메시지|댓글|후기|계약서|文章|网页|邮件|消息|记事|記事|メール|投稿)"
    r"[^\n:：]{0,80}[:：][ \t]*\n(?=[\s\S]{80})",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that announces a text, which follows on the next lines."""


_SIGN = re.compile("[\n:：>＞│┃\"“„«「『‘`~–—'-](?<![A-Za-z]')(?<![^\\s-]-)")
"""A text without any of these has no foreign part except, perhaps, a mail; most messages have none."""
_MARK = re.compile("[>＞│┃\"“„«「『‘'`~]")
"""Each form of a quotation or of code begins with one of these."""


def own_words(text: str) -> str:
    """Return a user's text without pasted, quoted, handed-over, inserted and to-be-forgotten parts."""
    return _own_and_foreign(text, Role.USER)[0]


def _own_and_foreign(text: str, role: Role) -> tuple[str, bool]:
    """Return a writer's own words, and whether the text has anything other than these and arc's insertions."""
    fenceless = without_fences(text)
    spans = foreign_spans(fenceless, role)
    cut = _without(fenceless, spans)
    bare = without_memories(without_insertions(cut))
    bare = cut if bare == cut.strip() else bare
    own = without_forgotten(bare)
    return own, bool(spans) or own != bare


def foreign_texts(messages: Iterable[Message]) -> list[str]:
    """Return the untrusted texts of a conversation: tools' results, texts with a source, and pasted or quoted parts."""
    found = []
    for message in messages:
        text = without_fences(message.text)
        whole = [(0, len(text))] if message.role is Role.TOOL or message.trust is Trust.UNTRUSTED else None
        found += [text[start:end] for start, end in whole or foreign_spans(text, message.role)]
    return [text for text in found if text.strip()]


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    kept, rest = [], 0
    for start, end in spans:
        kept += [text[rest:start], "\n"]
        rest = end
    return "".join([*kept, text[rest:]])


def foreign_spans(text: str, role: Role = Role.USER) -> Sequence[tuple[int, int]]:
    """Return where a text is not its writer's own: the start and end of each such part, in order and apart."""
    if len(text) <= LONGEST_OWN:
        return _spans_of_short(text)
    return _spans_of(text) if role is Role.ASSISTANT else ((0, len(text)),)


def _spans_of(text: str) -> Sequence[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    if _SIGN.search(text):
        if _MARK.search(text):
            forms = (_CODE, _BLOCK_QUOTE, _LONG_QUOTE, _OF_ONESELF)
            spans = [match.span() for form in forms for match in form.finditer(text)]
            spans += _quoted_ahead(text)
        spans += _given(text)
        if "\n" in text and (announced := _HANDED_OVER.search(text)):
            spans.append((announced.end(), len(text)))
    heads = (_FORWARDED, _MAIL) if "\n" in text else (_FORWARDED,)
    spans += [(head.start(), len(text)) for form in heads if (head := form.search(text))]
    apart: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if apart and not text[apart[-1][1] : start].strip():
            apart[-1] = apart[-1][0], max(apart[-1][1], end)
        elif start < end:
            apart.append((start, end))
    return tuple(apart)


_spans_of_short = cached_by_hash(4_096)(_spans_of)


def _quoted_ahead(text: str) -> Iterator[tuple[int, int]]:
    """Yield the long quotations that begin a line, over any number of lines."""
    behind = 0
    for opening in _QUOTE_AHEAD.finditer(text):
        if opening.start(1) < behind:
            continue
        end = text.find(_CLOSING[opening[1]], opening.end())
        if end < 0:
            return
        if end - opening.end() >= _LEAST_QUOTED:
            behind = end + 1
            yield opening.start(1), behind


_START = re.compile(r"\n|\.\s|!\s|\?\s|,\s")  # each with a first letter, to skip all others at once


def _given(text: str) -> Iterator[tuple[int, int]]:
    """Yield the texts that the writer hands over as a task: a quotation, a paragraph, or the lines below."""
    starts = [0, *[match.end() for match in _START.finditer(text)]]
    for language in possible_languages(text):
        end = behind = 0
        for start in starts:  # `finditer` would try the form at each character
            task = language.text_task.match(text, start) if start >= end else None
            if task is None:
                continue
            end = task.end()
            if end < behind:
                continue
            closing = _CLOSING.get(text[end : end + 1])
            behind = text.find(closing, end + 1) + 1 if closing else -1
            if not closing and "\n" not in text[len(task[0].rstrip()) + start : end]:
                behind = text.find("\n\n", end)
            behind = behind if behind > 0 else len(text)
            yield end, behind
        if language.text_in_task is not NEVER:
            yield from (match.span() for match in language.text_in_task.finditer(text))


def forget_requests(text: str) -> list[str]:
    """Return what a user asks to forget in their own words, without what they state instead."""
    fenceless = without_fences(text)
    own = without_insertions(_without(fenceless, foreign_spans(fenceless)))
    requests = (_forget_request(own[start:end]) for start, end in sentence_spans(own))
    return [named for named, _ in filter(None, requests)]


def without_forgotten(text: str) -> str:
    """Return a text without requests to forget something and the content to be forgotten."""
    kept, rest = [], 0
    for start, end in sentence_spans(text):
        if request := _forget_request(text[start:end]):
            kept += [text[rest:start], request[1]]
            rest = end
    return "".join([*kept, text[rest:]])


def _forget_request(sentence: str) -> tuple[str, str] | None:
    """Return the content that a sentence asks to forget, and the statement after it; `None` if it asks nothing."""
    for language in possible_languages(sentence):
        if request := language.forget.search(sentence):
            instead = language.said_instead.match(sentence, request.end())
            stated = sentence[instead.end() :] if instead else ""
            named = _without(sentence.removesuffix(stated), [request.span()])
            return re.sub(r"^\W+", "", named) or request[0], stated
    return None


def learnable(messages: Iterable[Message]) -> list[Message]:
    """Return the learnable parts of a conversation: the users' own words, and the assistant's own conclusions.

    - Tools' results, system messages, messages with a source of their own (see `SOURCE`), arc's own messages, and
      pasted, quoted, handed-over and to-be-forgotten parts are left out.
    - An answer is trusted no more than its turn: it is left out if anything in the turn is untrusted.
    """
    kept: list[Message] = []
    is_trusted = True
    for message in messages:
        give_way()
        text = message.text
        if message.role is Role.TOOL or message.trust is Trust.UNTRUSTED:
            is_trusted = False
            continue
        is_arcs = message.made_by_arc and (message.role is not Role.USER or FENCE not in text)
        if message.role is Role.SYSTEM or is_arcs:
            continue
        own, is_mixed = _own_and_foreign(text, message.role)
        if message.role is Role.USER and text.strip():
            is_trusted = not is_mixed
        if own.strip() and (message.role is Role.USER or is_trusted):
            kept.append(message if own == text else replace(message, content=own, origin=None))
    return kept
