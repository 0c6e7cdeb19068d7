"""German, the example of a new language: one file, and this test."""

from arc_common.text import analyze, analyze_query
from arc_common.text.languages.registry import LANGUAGES, detect
from arc_common.text.sentences import seeks


def test_the_detector_looks_at_words():
    """Texts that share letters with German are not detected as German; unknown languages count as English."""
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
