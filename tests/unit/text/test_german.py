"""German, the language that shows what a new one takes: one file, and this test of it."""

import pytest

from arc_common.memory.facts.extraction import extract_facts
from arc_common.memory.long_term.contradictions import contradicts, is_negated
from arc_common.memory.recall.ranking import answer_types
from arc_common.messages import Message, Role
from arc_common.text import analyze, analyze_query
from arc_common.text.languages.registry import LANGUAGES, detect
from arc_common.text.sentences import seeks


def test_the_detector_looks_at_words():
    """What shares letters with German is not taken for it; languages without a file are taken for English."""
    cases = [
        ("Ich wohne seit März in Köln.", "German"),
        ("Wann ist mein Termin", "German"),
        ("Die Katze schläft auf dem Sofa und die Kinder spielen", "German"),
        ("The man will die in an hour", "English"),
        ("So was he in the arm chair?", "English"),
        ("I was in Berlin", "English"),
        ("Mi nombre es Juan y vivo en Madrid", "English"),
        ("le nom du chien est Rex", "English"),
        ("Berlin", "English"),
        ("저는 서울에 살아요", "Korean"),
        ("My name is 김민수 and I live in Seoul", "English"),
        ("저는 Google에 다녀요", "Korean"),
        ("我住在北京", "Chinese or Japanese"),
    ]
    for text, name in cases:
        assert detect(text).name == name


def test_markers_belong_to_one_language():
    latin = [language for language in LANGUAGES if language.script == "latin"]
    assert len(latin) == 2
    assert not latin[0].markers & latin[1].markers


def test_statements_are_facts():
    cases = [
        ("Ich wohne in Köln.", "Ich wohne in Köln"),
        ("Meine Schwester ist allergisch gegen Nüsse.", "Meine Schwester ist allergisch gegen Nüsse"),
        ("Wir haben uns für den blauen Teppich entschieden.", "Wir haben uns für den blauen Teppich entschieden"),
        ("Bitte keine Lieferung vor 9 Uhr.", "Bitte keine Lieferung vor 9 Uhr"),
    ]
    for text, value in cases:
        assert [fact.value for fact in extract_facts([Message(Role.USER, text)])] == [value]


@pytest.mark.parametrize(
    "text", ["Vielen Dank, das klingt gut!", "Wo wohne ich?", "Was wäre, wenn ich in Köln wohnen würde?"]
)
def test_what_states_nothing_is_no_fact(text):
    assert extract_facts([Message(Role.USER, text)]) == []


def test_questions():
    cases = [
        ("wie heißt mein Hund", True),
        ("Kannst du mir die Nummer sagen", True),
        ("Und wann war der Termin", True),
        ("Ich habe den Code vergessen", True),
        ("Ich wohne jetzt in Köln", False),
        ("Der Termin ist am Montag", False),
    ]
    for text, is_question in cases:
        assert seeks(text) is is_question


def test_kinds_of_answers():
    assert [kind.name for kind in answer_types("Wann ist mein Termin?")] == ["time"]
    assert [kind.name for kind in answer_types("Wo wohnt meine Schwester?")] == ["place"]


def test_words_are_found_in_other_forms():
    cases = [
        ("Welche Wohnungen haben wir besichtigt?", "Wir haben eine Wohnung in der Südstadt besichtigt."),
        ("Wo sind die Häuser?", "Das Haus steht nicht mehr."),
        ("Wohnung Südstadt", "Wir haben eine Wohnung in der Südstadt."),
        ("Haus", "Die Häuser sind alle verkauft, und wir suchen noch."),
    ]
    for question, text in cases:
        asked = set(analyze_query(question))
        assert asked & set(analyze(text))
        assert not asked & {"wo", "die", "wir", "welch", "hab"}


def test_english_texts_keep_their_terms():
    assert analyze("The houses und the running dogs") == ["the", "hous", "und", "the", "run", "dog"]


def test_what_ends_what():
    cases = [
        ("Ich wohne in Köln.", "Ich bin nach Bonn umgezogen."),
        ("Ich wohne in Köln", "Ich wohne jetzt in Bonn"),
        ("Meine E-Mail ist a@example.com", "Meine neue E-Mail ist c@example.com"),
        ("Ich arbeite bei Siemens", "Ich bin zu Bosch gewechselt"),
        ("Ich arbeite bei Siemens", "Ich arbeite nicht mehr bei Siemens"),
        ("Ich esse Fleisch", "Ich esse kein Fleisch mehr"),
        ("Die Miete beträgt 900 Euro", "Die Miete beträgt 950 Euro"),
        ("Ich bin ledig", "Ich bin verheiratet"),
        ("Ich nutze Netflix und mag Jazz", "Ich habe Netflix gekündigt"),
        ("Der Termin ist am Montag", "Der Termin wurde auf Donnerstag verschoben"),
    ]
    for old, new in cases:
        assert contradicts(new, old)
        assert contradicts(old, new)


def test_what_stands_side_by_side():
    cases = [
        ("Ich habe eine Katze namens Miso", "Ich habe einen Hund namens Rex"),
        ("Meine Schwester wohnt in Köln", "Meine Schwester wohnt in Bonn"),
        ("Meine Bestellnummer ist 1234", "Meine Bestellnummer ist 5678"),
        ("Ich wohne in Köln", "Ich überlege, nach Bonn zu ziehen"),
        ("Ich wohne in Köln", "Früher habe ich in Bonn gewohnt"),
        ("Ich wohne in Köln", "Ich wohne in Deutschland"),
        ("Ich trinke Kaffee", "Ich trinke abends keinen Kaffee"),
        ("Ich spreche Deutsch", "Ich spreche Englisch"),
        ("Ich esse Fleisch", "Meine Frau isst kein Fleisch"),
        ("Der Kurs ist am Montag", "Der Kurs ist am Mittwoch"),
        ("Ich wohne in Köln", "I live in Seoul"),
    ]
    for old, new in cases:
        assert not contradicts(new, old)


def test_negation():
    assert is_negated("Ich rauche nicht")
    assert is_negated("Ich esse kein Fleisch")
    assert is_negated("Ich habe den Vertrag gekündigt")
    assert not is_negated("Ich rauche")
