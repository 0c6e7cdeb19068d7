"""Whether a message looks for something: a question with or without its mark, a request, or what somebody forgot.

Told by form alone, and in favour of looking: who asks and is taken for one who only states gets less back, while the
other way round a few tokens are spent. What is written in a script that arc has no rules for counts as looking.
"""

import re

from arc_common.text.languages.registry import rules_for
from arc_common.text.sentences import clauses_of, sentences_of

__all__ = ["seeks"]

_MARK = re.compile(r"\?(?!\w)|[？؟]")
_LATIN = re.compile(
    # words that ask, requests, and what was forgotten: Spanish, Portuguese, French, German, Italian, Dutch and others
    r"(?<!\w)(?:¿|qué|quién(?:es)?|cuál(?:es)?|cuándo|dónde|cómo|cuánt[oa]s?|d[ai]me|deme|recu[eé]rdame|mu[eé]strame"
    r"|ay[uú]dame|olvid(?:é|ado)|no\s(?:recuerdo|me\sacuerdo)|por\sfavor|qual|quais|quem|quando|onde|quant[oaie]s?"
    r"|diga|lembre|esqueci|(?:le|la)?quel(?:le)?s?|qui|où|combien|pourquoi|quoi|est-ce|qu['’]est|dis[-\s]moi|rappelle"
    r"|\w{2,20}-(?:moi|nous)|\w{1,20}-(?:t-)?(?:je|tu|il|elle|on|vous|ils|elles)|oublié|me\ssouviens|s['’]il\s(?:te|vous)"
    r"|svp|stp|wer|wen|wem|wie|wo|woher|wohin|wann|warum|wieso|weshalb|welche[rsnm]?|wieviel|wessen|(?:sag|gib|zeig|nenn)e?"
    r"\smir|hilf|erinner\w{1,3}|vergessen|weiß\s(?:ich\s)?nicht|bitte|chi|dove|perché|quale|quali|dimmi|ricordami"
    r"|dimenticato|per\sfavore|wanneer|waar|welke|hoeveel|nerede|kimin|kaç|siapa|berapa|kapan|mana)(?!\w)"
    # at the beginning also without accents, and verbs before their subjects
    r"|^(?:y\s|e\s|et\s|und\s)?(?:que|cual(?:es)?|cuando|donde|como|quien(?:es)?|cuant[oa]s?|por\sque|comment|quand"
    r"|(?:me\s)?(?:puede|podría)s?|sabes|recuerdas|te\sacuerdas|(?:tu\s)?peux|(?:vous\s)?pouvez|ist|sind|war|hat|hast"
    r"|habe?|haben|kann|kannst|können|könntest|könnten|weißt|kennst|gibt)\s\w",
    re.IGNORECASE,
)
_CYRILLIC = re.compile(
    r"(?<!\w)(?:кто|ко(?:го|му)|кем|что|ч(?:его|ему|ем|ём)|ч(?:ей|ья|ье|ьё|ьи|ью)|где|куда|откуда|когда|как"
    r"|как(?:ой|ая|ое|ие|ую|ого|ому|им|ом|их|ими)|скольк\w{1,3}|почему|зачем|ли|разве|напомни\w*|скажи\w*|подскажи\w*"
    r"|покажи\w*|найди\w*|дай(?:те)?|назови\w*|повтори\w*|расскажи\w*|перечисли\w*|напиши\w*|помоги\w*|помни(?:шь|те)"
    r"|знае(?:шь|те)|може(?:шь|те)|не\s(?:помню|знаю)|вспомнить|узнать|забыл\w*|пожалуйста|хто|де|коли|скільки)(?!\w)",
    re.IGNORECASE,
)
_CYRILLIC_LETTER = re.compile(r"[\u0400-\u04ff]")
_UNKNOWN_LETTER = re.compile(
    r"(?![\u3005\u3040-\u30ff\u3130-\u318f\u3400-\u9fff가-힣\uff21-\uff9f])[^\W\d_\u0000-\u024f\u0400-\u04ff\u1e00-\u1eff]"
)


def seeks(text: str) -> bool:
    """Whether any sentence of a text asks or requests something. Linear in the text."""
    return any(map(_seeks, sentences_of(text)))


def _seeks(sentence: str) -> bool:
    if _MARK.search(sentence) or _UNKNOWN_LETTER.search(sentence) or _LATIN.search(sentence):
        return True
    if _CYRILLIC_LETTER.search(sentence):
        return _CYRILLIC.search(sentence) is not None
    seeking = rules_for(sentence).seeking
    return any(seeking.search(sentence[start:end]) for start, end in clauses_of(sentence))
