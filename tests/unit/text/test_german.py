"""German, the example of a new language: one file, and this test."""

from arc_common import Message
from arc_common.facts import FactCategory
from arc_common.memory.facts.extraction import excerpts_of, extract_facts
from arc_common.memory.long_term.contradictions import contradicts
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


def kinds(text: str) -> list[tuple[str, FactCategory]]:
    messages = [Message("user", text, id="a")]
    facts = extract_facts(messages)
    return [(fact.value, fact.category) for fact in (*facts, *excerpts_of(messages, facts=facts))]


def test_rules_that_deny_in_any_form_are_conditions():
    """Also beside a modal verb, in a request, behind "bitte", and as an allergy in a compound."""
    cases = [
        "Tarek hatte einen Bandscheibenvorfall, der soll also nichts über 10 kg heben",
        "Meine Mutter darf noch nichts davon erfahren",
        "Niemand darf vor Montag davon wissen",
        "Herr Öztürk möchte nicht per WhatsApp kontaktiert werden",
        "Ich möchte nicht, dass jemand nach 20 Uhr anruft",
        "Jonte will Dschungelgrün, Mia auf gar keinen Fall Rosa",
        "Pauline ist Zöliakie-Kind, auch Krümel im Toaster sind gefährlich",
        "Zwei Kinder sind krank, also wirklich keine Süßigkeiten",
        "Meine Schwester Annika hat eine Katzenhaarallergie",
        "Tarek hat eine Laktoseunverträglichkeit",
        "Frag bitte nur Firmen mit Festpreis an",
        "Meine Handynummer bitte nicht weitergeben",
        "Sag meiner Mutter nichts vom Umzug",
        "Stell bitte keine Kartons ins Treppenhaus",
    ]
    for text in cases:
        assert kinds(text) == [(text, FactCategory.CONDITION)], text


def test_a_denial_that_rules_nothing_out_is_no_condition():
    cases = [
        "Das soll kein Problem sein",
        "Das soll nicht heißen, dass ich den Umzug bereue",
        "Tarek meint, wir sollen keinen Aufstand machen",
        "Ich hatte am Montag keine Zeit, also blieb die Küche stehen",
        "Könntest du bitte nur kurz in die Liste schauen?",
    ]
    for text in cases:
        assert FactCategory.CONDITION not in [kind for _, kind in kinds(text)], text


def test_a_statement_comes_with_the_one_that_its_pronoun_refers_to():
    cases = [
        "Die Kaution kommt auf unser Konto. 1.640 Euro sind das immerhin",
        "Wir bekommen 1.050 Euro von der Nachmieterin. Davon wollen wir das Kinderzimmer streichen",
        "Wir nehmen Krahl. Angebotsnummer K-26-0817",
        "Meine neue Dienstnummer ist 0171 555 0188. Die bitte nicht weitergeben",
    ]
    for text in cases:
        assert text in [value for value, _ in kinds(text)], text


def test_compounds_have_one_value():
    cases = [
        ("Unser Umzugstermin ist der 14. Juli", "Der Umzugstermin ist der 21. Juli", True),
        ("Umzugstermin ist damit der 14. Juli", "Der Umzugstermin wurde auf den 21. Juli verschoben", True),
        ("Das Hotelbudget ist 120 Euro", "Unser Hotelbudget ist 150 Euro", True),
        ("Der Zahnarzttermin ist am 14. Juli", "Der Umzugstermin ist am 21. Juli", False),
    ]
    for earlier, later, ends in cases:
        assert contradicts(later, earlier) is ends, later


def test_a_lead_in_is_left_out():
    cases = ["Hm, ", "Puh, ", "Nee, ", "Danke :) und ", "Ach ja, "]
    for lead_in in cases:
        assert kinds(f"{lead_in}Tarek wohnt seit dem 4. Mai in Halle")[0][0] == "Tarek wohnt seit dem 4. Mai in Halle"
