"""The languages that arc knows, the detector of a text's language, and patterns for texts in any language."""

import re

from arc_common.facts import FactCategory
from arc_common.text.languages.chinese_japanese import CHINESE_JAPANESE
from arc_common.text.languages.english import ENGLISH
from arc_common.text.languages.german import GERMAN
from arc_common.text.languages.korean import KOREAN
from arc_common.text.languages.language import Language, Pattern, signals, word_set

LANGUAGES = (ENGLISH, GERMAN, KOREAN, CHINESE_JAPANESE)
"""The first of each script is the default if nothing distinguishes the others."""

_LATIN = tuple(one for one in LANGUAGES if one.script == "latin")
OTHER_MARKERS = frozenset().union(*(language.markers for language in _LATIN[1:]))
"""Markers of languages in Latin letters other than English; a text without any is in none of these."""

_HANGUL = re.compile(r"[가-힣]+")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


def detect(text: str) -> Language:
    """Return the language that a text is most likely in."""
    hangul, han = _HANGUL.findall(text), _HAN_OR_KANA.findall(text)
    if not hangul and not han:
        return _by_words(text)[0]
    language, words = _by_words(text)
    if words > len(hangul) + len(han):
        return language
    return KOREAN if hangul and len("".join(hangul)) >= len("".join(han)) else CHINESE_JAPANESE


def with_other_scripts(language: Language) -> tuple[Language, ...]:
    """Return a language and the first of each other script, with which its texts may be mixed."""
    first = {one.script: one for one in reversed(LANGUAGES)} | {language.script: language}
    return tuple(first[script] for script in dict.fromkeys(one.script for one in LANGUAGES))


def _by_words(text: str) -> tuple[Language, int]:
    """Return the language in Latin letters with the most markers in a text, and their number."""
    words = [word.replace("’", "'") for word in _WORD.findall(text.lower())]
    counts = [sum(word in language.markers for word in words) for language in _LATIN]
    most = max(counts)
    if most <= sum(word in _MARKERS_OF_OTHERS for word in words):
        return ENGLISH, 0
    return _LATIN[counts.index(most)], most


_MARKERS_OF_OTHERS = word_set(
    "el la los las de del que en un una unos unas por con para es está su mi yo le les des du et est je vous il elle "
    "nous dans pour avec sur pas ne une mon ma mes il lo gli che di non per sono um uma não meu minha het "
    "een van ik niet maar op dat zijn wij jij og det att som jag inte på av han hon bir ve bu için yang dan di saya"
)
"""Frequent words of languages in Latin letters without a file, which are treated as English."""

_UNITS = (
    r"km/h|mph|kbps|mbps|[kmgt]i?b|kwh|[kmc]?m²|m2|sqm|sq\.?\s?ft|km|cm|mm|nm|kg|mg|ml|cl|dl|lbs?|oz|ft|inch(?:es)?"
    r"|feet|foot|yards?|miles?|met(?:er|re)s?|lit(?:er|re)s?|gallons?|grams?|kilos?|pounds?|degrees?|°[cf]?|watts?"
    r"|volts?|amps?|hz|[kmg]hz|px|dpi|rpm|bpm|psi|pages?|people|persons?|guests?|adults?|kids|children|seats?|rooms?"
    r"|nights?|days?|weeks?|months?|years?|hours?|hrs?|minutes?|mins?|seconds?|times|items?|pieces?|boxes|bags"
    r"|bottles|cups|tablets|pills|users?|seats|licen[cs]es|floors?|bedrooms?|stars?|percent|[gwvlm]"
)


ANCHORS = signals(
    {
        ("email", FactCategory.ENTITY, 0.95): (r"(?a)(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,5}"),
        ("link", FactCategory.ENTITY, 0.75): (
            r"(?a)(?:https?://|www\.)[^\s<>\"'）」]{3,300}"
            r"|(?<![\w@.-])(?:[a-z0-9-]{1,40}\.){1,4}[a-z]{2,12}/[\w./#?=&%-]{1,200}"
        ),
        ("phone", FactCategory.ENTITY, 0.9): (
            r"(?<![\w-])(?:\+\d{1,3}[\s.-]?(?:\(?\d{1,4}\)?[\s.-]?){2,5}\d{2,4}"
            r"|\(?0\d{1,4}\)?[\s.-]\d{3,4}[\s.-]\d{3,4}|\d{3}[\s.-]\d{3}[\s.-]\d{4}|\d{3}-\d{4})(?![\w-])"
        ),
        ("number", FactCategory.NUMERIC, 0.9): (
            r"(?<![\w@./-])(?=[\w-]{0,24}\d)(?:[A-Z]{1,6}-?\d[\w-]{1,20}|[A-Z0-9]{2,10}(?:-[A-Z0-9]{1,12}){1,5}"
            r"|\d[\dA-Z]{0,12}[A-Z][\dA-Z-]{1,12}|[A-Z][A-Z0-9]{4,15}|[a-z]{1,3}\d{4,16}|\d{7,20}|#\d{2,15})(?![\w@])"
        ),
        ("amount", FactCategory.NUMERIC, 0.8): (
            r"[$€£¥₩₹₽]\s?\d[\d,.]{0,18}\s?(?:k|m|bn|million|thousand)?|(?<![\w.,])\d[\d,.]{0,18}\s?(?:k\s)?(?:[$€£¥₩₹]"
            r"|(?:euros?|dollars?|bucks|pounds sterling|quid|yen|won|usd|eur|gbp|krw|jpy|chf|cents|francs|rupees)\b)"
            r"|\d[\d,.]{0,12}\s?(?:[천백십]?[만억천백]\s?){1,3}(?:\d{1,4}\s?[천백만]\s?){0,2}원?|\d[\d,.]{0,15}\s?(?:원"
            r"|元|円|块|万|萬|美元|欧元)"
        ),
        ("rate", FactCategory.NUMERIC, 0.75): (
            r"(?<![\w.,])\d{1,4}(?:[.,]\d{1,4})?\s?(?:%|％|percent\b|퍼센트|프로(?![가-힣]))"
        ),
        ("date", FactCategory.NUMERIC, 0.75): (
            r"\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
            r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?\s(?:the\s)?\d{1,2}(?:st|nd|rd|th)?\b(?:,?\s\d{4})?"
            r"|\b\d{1,2}(?:st|nd|rd|th)?\s(?:of\s)?(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?"
            r"|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b|\b(?:the\s)\d{1,2}(?:st"
            r"|nd|rd|th)\b|\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b"
            r"|\d{1,2}\s?월(?:\s?\d{1,2}\s?일)?|\d{4}\s?년|\d{1,2}\s?月(?:\s?\d{1,2}\s?[日号號])?|\d{1,2}\s?[日号號]"
        ),
        ("time", FactCategory.NUMERIC, 0.7): (
            r"(?<![\d:.])(?:[01]?\d|2[0-4])(?::[0-5]\d(?:\s?[ap]\.?m\b\.?)?|\s?[ap]\.?m\b\.?|\s?o'?clock)"
            r"|(?<!\d)\d{1,2}\s?시(?![간작도절]\b)(?:\s?(?:\d{1,2}\s?분|반))?|(?<!\d)\d{1,2}\s?[点點時](?:半"
            r"|\d{1,2}分?)?"
        ),
        ("size", FactCategory.NUMERIC, 0.75): (
            r"(?<![\w.,])\d[\d.,]{0,8}\s?[x×*]\s?\d[\d.,]{0,8}(?:\s?[x×*]\s?\d[\d.,]{0,8})?"
        ),
        ("quantity", FactCategory.NUMERIC, 0.65): (
            rf"(?<![\w.,])\d[\d,.]{{0,15}}[\s-]?(?:{_UNITS})\b"
            r"|\d[\d,.]{0,12}\s?(?:킬로|그램|리터|미터|센티|인치|평|개|명|분|살|세|대|마리|번|잔|병|장|권|켤레|채|층"
            r"|호|동|박|일|주|달|개월|년|시간|인분|인|사이즈|호선|학년)|\d[\d,.]{0,12}\s?(?:公里|公斤|厘米|米|分钟"
            r"|小时|天|周|个月|岁|歳|人|位|个|間|分|名|階|層|層|次|回|本|枚|冊|匹|台)"
        ),
        ("figure", FactCategory.NUMERIC, 0.45): (
            r"(?<![\w.,])\d{1,3}(?:[,.\u202f]\d{3}){1,5}(?:[.,]\d{1,2})?|(?<![\w.,])\d{1,15}(?:[.,:]\d{1,6})?"
        ),
        ("name", FactCategory.ENTITY, 0.4): (r"[“\"「『《‘][^“”\"」』》’\n]{2,50}[”\"」』》’]"),
    },
    anchor=True,
)
"""What counts as a fact in any language: addresses, codes, amounts, dates, times, sizes and quotations."""

SEEKING_LATIN = Pattern(
    # words that ask, requests, and what was forgotten: Spanish, Portuguese, French, Italian, Dutch and others
    r"(?<!\w)(?:¿|qué|quién(?:es)?|cuál(?:es)?|cuándo|dónde|cómo|cuánt[oa]s?|d[ai]me|deme|recu[eé]rdame|mu[eé]strame"
    r"|ay[uú]dame|olvid(?:é|ado)|no\s(?:recuerdo|me\sacuerdo)|por\sfavor|qual|quais|quem|quando|onde|quant[oaie]s?"
    r"|diga|lembre|esqueci|(?:le|la)?quel(?:le)?s?|qui|où|combien|pourquoi|quoi|est-ce|qu['’]est|dis[-\s]moi|rappelle"
    r"|\w{2,20}-(?:moi|nous)|\w{1,20}-(?:t-)?(?:je|tu|il|elle|on|vous|ils|elles)|oublié|me\ssouviens|s['’]il\s(?:te"
    r"|vous)|svp|stp|chi|dove|perché|quale|quali|dimmi|ricordami|dimenticato|per\sfavore|wie|wanneer|waar|welke"
    r"|hoeveel|nerede|kimin|kaç|siapa|berapa|kapan|mana)(?!\w)"
    # at the beginning also without accents, and verbs before their subjects
    r"|^(?:y\s|e\s|et\s)?(?:que|cual(?:es)?|cuando|donde|como|quien(?:es)?|cuant[oa]s?|por\sque|comment|quand"
    r"|(?:me\s)?(?:puede|podría)s?|sabes|recuerdas|te\sacuerdas|(?:tu\s)?peux|(?:vous\s)?pouvez)\s\w"
)
SEEKING_CYRILLIC = Pattern(
    r"(?<!\w)(?:кто|ко(?:го|му)|кем|что|ч(?:его|ему|ем|ём)|ч(?:ей|ья|ье|ьё|ьи|ью)|где|куда|откуда|когда|как"
    r"|как(?:ой|ая|ое|ие|ую|ого|ому|им|ом|их|ими)|скольк\w{1,3}|почему|зачем|ли|разве|напомни\w*|скажи\w*|подскажи\w*"
    r"|покажи\w*|найди\w*|дай(?:те)?|назови\w*|повтори\w*|расскажи\w*|перечисли\w*|напиши\w*|помоги\w*|помни(?:шь|те)"
    r"|знае(?:шь|те)|може(?:шь|те)|не\s(?:помню|знаю)|вспомнить|узнать|забыл\w*|пожалуйста|хто|де|коли|скільки)(?!\w)",
)
