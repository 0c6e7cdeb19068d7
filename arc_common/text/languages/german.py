"""German: its words, how its sentences ask, suppose and join, and how people state facts."""

from arc_common.facts import FactCategory
from arc_common.text.languages.language import (
    AnswerForms,
    Language,
    Pattern,
    Relation,
    Statements,
    kinds_of_words,
    signals,
    synonyms,
    word_set,
)

MARKERS = word_set(
    "ich er sie wir ihr der das ist sind nicht und oder aber mit auf für von zu bei nach aus über wenn dass weil ein "
    "eine einen einem einer eines mein meine meinen meinem meiner dein deine deinen unser unsere kein keine keinen "
    "keiner bitte wie wo wer wem wen wann warum welche welcher welches welchen wohin woher wieviel habe hast haben "
    "hatte wird werden wurde kann kannst können muss müssen möchte jetzt heute morgen noch nur auch schon sehr danke "
    "nein doch zum zur vom beim mich dich uns euch ihn ihm ihnen mir bin gibt weiß heißt gerne immer nie mehr seit ab "
    "um sich wohne arbeite"
)
"""Frequent words that no other language in Latin letters shares."""

STOP_WORDS = word_set(
    "aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist bitte "
    "da damit dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen "
    "dieser dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer eure für "
    "gegen gewesen hab habe haben hat hatte hatten hast hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer "
    "im in indem ins ist jede jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner können "
    "könnte könntest machen man manche mein meine meinem meinen meiner mich mir mit muss nach nicht nichts noch nun "
    "nur ob oder ohne sehr sein seine seinem seinen seiner selbst sich sie sind so solche soll sollte sondern sonst "
    "über um und uns unser unsere unter viel vom von vor wann war waren warum was weg weil welche welchem welchen "
    "welcher welches wem wen wenn wer werde werden wie wieder wieviel will wir wird wirst wo woher wohin wollen wurde "
    "während würde zu zum zur zwar zwischen"
)

COMMON_WORDS = STOP_WORDS | word_set(
    "ja nein danke gut gute guten schön toll super ok okay gerade eigentlich vielleicht wirklich ganz genau heute "
    "morgen gestern abend tag tage woche wochen monat jahr zeit mal einmal immer nie oft manchmal leider natürlich "
    "klar bisschen viele mehr weniger ding dinge sache sachen leute mensch menschen frage fragen antwort hilfe helfen "
    "weiß wissen denke denken finde finden glaube glauben meine meinst sagen sagt gesagt gehen geht ging gehe kommen "
    "kommt komme macht mache gemacht gibt geben nehmen nimmt sehen sieht lassen lässt möchte möchten brauche brauchen "
    "neu neue neuen erst schon hallo hi gern gerne recht stimmt problem idee grund beispiel thema bisher später "
    "früher bald wichtig einfach schwer"
)

_BEGIN = r"^(?:(?:und|aber|oder|also|ok|okay|ja|nein|hallo|hi|hey|bitte|danke|übrigens|entschuldigung)[\s,!]{1,3}){0,3}"
_ASKS = r"(?:wer|wen|wem|wessen|was|wie|wo|woher|wohin|wann|warum|wieso|weshalb|welche[rsnm]?|wieviel)"
_VERB_FIRST = (
    r"(?:ist|sind|war|waren|hat|hast|habe|haben|kann|kannst|können|könnte|könntest|könnten|soll|sollte|darf|muss|musst"
    r"|willst|wollt|wird|werden|würdest|gibt|weißt|kennst|weiß|bist|seid)"
)
_I = r"(?:ich|wir|mein\w{0,2}|unser\w{0,2})"
_KIN = (
    r"(?:mutter|vater|eltern|schwester|bruder|sohn|tochter|kind|kinder|frau|mann|partner(?:in)?|freund(?:in)?|oma|opa"
    r"|tante|onkel|cousin(?:e)?|chef(?:in)?|kolleg(?:e|in)|nachbar(?:in)?|arzt|ärztin|hund|katze|vermieter(?:in)?)"
)

SIGNALS = signals(
    {
        ("Verbot", FactCategory.CONDITION, 0.7): (
            r"\b(?:niemals|auf keinen fall|keinesfalls|darf (?:man |ich |er |sie |wir )?(?:nicht|kein\w{0,2})"
            r"|dürfen nicht|bloß nicht|verboten|tabu|(?:bitte|aber) (?:nicht|kein\w{0,2}|nie)|kein\w{0,2} \w+ (?:vor"
            r"|nach|an|im|am|in|bei|mit))\b"
        ),
        ("Allergie oder Ernährung", FactCategory.CONDITION, 0.75): (
            r"allerg|unverträglich|intoleran|\b(?:vegan\w{0,3}|vegetari\w{2,6}|glutenfrei|laktosefrei|halal"
            r"|koscher|diabet\w{2,5}|vertr(?:age|ägt) kein\w{0,2})\b"
        ),
        ("Gesundheit", FactCategory.STATE, 0.6): (
            r"\b(?:asthma|migräne|schwanger|operier\w{1,3}|operation|medikament\w{0,2}|tabletten|bluthochdruck"
            r"|krankenhaus|verletzt|rollstuhl)\b"
        ),
        ("Bedingung", FactCategory.CONDITION, 0.5): (
            r"\b(?:nur (?:wenn|mit|am|an|ab|bis|für|nach|vor)|es sei denn|höchstens|mindestens|maximal|spätestens"
            r"|frühestens|ausschließlich|nicht (?:vor|nach|mehr als|später als)|auf jeden fall|unbedingt|muss|müssen"
            r"|ohne)\b|^(?:wenn|falls|sobald) "
        ),
        ("Entscheidung", FactCategory.DECISION, 0.65): (
            r"\b(?:entschieden|beschlossen|vereinbart|ausgemacht|gewählt|gebucht|bestellt|storniert|abgesagt|verschoben"
            r"|nehme(?:n)? (?:ich|wir)|(?:ich|wir) nehmen?|geeinigt|zugesagt|bestätigt)\b"
        ),
        ("Vorliebe", FactCategory.GENERAL, 0.5): (
            r"\b(?:mag|mögen|liebe|hasse|bevorzug\w{1,3}|am liebsten|lieblings\w{2,20}|lieber|kann \w+ nicht (?:leiden"
            r"|ausstehen)|(?:trinke|esse|spiele|lese|höre|fahre|koche)\w{0,1} (?:\w+ ){0,2}gerne?)\b"
        ),
        ("Person", FactCategory.ENTITY, 0.6): (
            rf"\b(?:ich hei(?:ß|ss)e|mein name|ich bin (?!mir|nicht|der meinung|froh|gespannt|dankbar|sicher|gerade"
            rf"|so|sehr)\w|ich wohne|ich arbeite|ich lebe|mein\w{{0,2}} {_KIN}|unser\w{{0,2}} {_KIN}|hei(?:ß|ss)t"
            rf"|geboren)\b"
        ),
        ("Besitz", FactCategory.ENTITY, 0.45): (
            rf"\b{_I} (?:\w+ ){{0,2}}(?:ist|sind|hat|haben|lautet|kostet|beginnt|endet)\b|\b(?:ich|wir) haben? "
            rf"(?:ein\w{{0,2}}|zwei|drei|vier) "
        ),
        ("Zustand", FactCategory.STATE, 0.5): (
            r"\b(?:kaputt|defekt|umgezogen|gekündigt|geändert|gewechselt|inzwischen|mittlerweile|nicht mehr"
            r"|kein\w{0,2} \w+ mehr|seit|neuerdings|verkauft|verloren)\b"
        ),
        ("Plan", FactCategory.GENERAL, 0.35): (
            r"\b(?:ich|wir) (?:möchten?|wollen|will|planen?|brauchen?|suchen?|hoffen?|werden?)\b|\b(?:vor haben"
            r"|habe vor|haben vor|geplant)\b"
        ),
        ("Grund", FactCategory.GENERAL, 0.3): (r"\b(?:weil|denn|deshalb|daher|wegen|damit)\b"),
        ("Menge", FactCategory.NUMERIC, 0.4): (
            r"\b(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|dreißig|hundert|tausend)\b"
            r"|\b(?:mon|diens|donners|frei|sams|sonn)tags?\b|\bmittwochs?\b|\b(?:januar|februar|märz|april|mai|juni"
            r"|juli|august|september|oktober|november|dezember)\b"
        ),
    }
)

ASSISTANT = signals(
    {
        ("Zusage", FactCategory.DECISION, 0.6): (
            r"\b(?:(?:ich )?habe? (?:ich )?(?:\w+ ){0,6}(?:gebucht|reserviert|storniert|bestätigt|geändert|eingetragen)"
            r"|(?:wurde|ist) (?:\w+ ){0,4}(?:gebucht|reserviert|storniert|bestätigt))\b"
        ),
        ("Nummer", FactCategory.NUMERIC, 0.7): (r"\b\w{0,20}(?:nummer|code|kennung)\b[^.]{0,20}?(?:ist|lautet|:)"),
    }
)

ANSWERS = {
    "requirement": AnswerForms(r"\bmuss|\bmüssen|\bnötig|erforderlich", r"\bmuss|\bmüssen|brauch|nötig|unbedingt"),
    "reason": AnswerForms(
        r"\bwarum\b|\bwieso\b|\bweshalb\b|\bgrund\b",
        r"\b(?:weil|denn|wegen|deshalb|daher"
        "|damit|da)\b",
    ),
    "occupation": AnswerForms(r"\bberuf|\bbeschäftig|arbeite", r"\barbeite|\bals \w|\bberuf"),
    "money": AnswerForms(
        r"wie ?viel (?:kostet|geld)|\b(?:preis|kosten|miete|budget|gehalt|gebühr)",
        r"[$€£]\s?[0-9]|[0-9]\s?(?:€|euro|cent)",
    ),
    "count": AnswerForms(r"wie ?viele|anzahl", r"[0-9]|\b(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn)\b"),
    "measure": AnswerForms(r"wie (?:lang|groß|hoch|breit|weit|alt|schwer|oft|schnell)|\bgröße|\bdauer", r"[0-9]"),
    "time": AnswerForms(
        r"\bwann\b|um wie ?viel uhr|welche[rnms]? (?:tag|datum|jahr|monat)|\bfrist\b|\bgeburtstag|\btermin",
        r"(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|\b(?:januar|februar|märz|april|mai|juni|juli"
        r"|august|september"
        r"|oktober|november|dezember|morgens?|abends?|mittags?|nachts|nächste|bis|seit)\b|[0-9]\s?uhr|[0-9]\.",
    ),
    "contact": AnswerForms(r"e-?mail|telefon|\berreich|kontakt", r"@|[0-9]{3}"),
    "code": AnswerForms(r"nummer|\bcode\b|passwort|\bpin\b", r"[0-9]{3}|[A-Z]-?[0-9]"),
    "place": AnswerForms(
        r"\bwo\b|\bwohin\b|\bwoher\b|welche[rms]? (?:stadt|land|ort|straße)|\badresse",
        r"\b(?:in|im|bei|nach|aus|auf|neben|straße|platz)\b",
    ),
    "person": AnswerForms(r"\bwer\b|\bwem\b|\bwen\b|\bname|heißt", r"(?<=[a-zäöü,] )[A-ZÄÖÜ][a-zäöüß]{1,30}"),
    "preference": AnswerForms(
        r"\bmag|\bliebsten|lieblings|\bgern",
        r"\bmag\b|\bliebe|\bliebsten|lieblings"
        "|\bgern|\blieber",
    ),
    "decision": AnswerForms(r"entschieden|\bgewählt|beschlossen", r"entschieden|beschlossen|gewählt|nehmen|gebucht"),
    "state": AnswerForms(r"\bkaputt|\bproblem|\bzustand|\bstatus", r"kaputt|defekt|nicht mehr|seit|immer noch"),
}

_NAME = r"(?P<value>[A-ZÄÖÜ][\wäöüß&-]*(?: [A-ZÄÖÜ][\wäöüß&-]*){0,2})"
_MOVING = (
    r"(?:geändert|verschoben|verlegt|erhöht|gesenkt|gestiegen|gesunken|verlängert|aktualisiert|umgestellt|vorverlegt)"
)

STATEMENTS = Statements(
    rewrites=tuple(
        (Pattern(pattern), text)
        for pattern, text in (
            (r"^(?:nutzer|user|assistent)\s*:\s*", ""),
            (r"\b(?:der|die) (?:nutzer(?:in)?|benutzer(?:in)?|kund(?:e|in))\b", "ich"),
            (r"\b(?:hasse|hasst|verabscheue)\b", "mag nicht"),
            (r"\b(?:liebe|liebt)\b", "mag"),
        )
    ),
    breaks=Pattern(r"[,;:()]\s+|\s+[—–-]+\s+|\s+(?=(?:und|aber|sondern|weil|denn|während|obwohl)\s)", cased=True),
    unsure=Pattern(
        r"\?|\b(?:wenn|falls|ob|würde\w*|könnte\w*|vielleicht|wahrscheinlich|möglicherweise|überleg\w*|denke|glaube"
        r"|wünsch\w*|träum\w*|hätte\w*|wäre\w*|soll\w*|plan\w*|will|wollen|möchte\w*|hoff\w*|werde|wirst|wird|werden"
        r"|such\w*|beworben|früher|damals|ehemalig\w*|ursprünglich|war|waren|hatte\w*|vor (?:\w+ )?(?:tagen|wochen"
        r"|monaten|jahren|jahr)|letzte\w*|vorige\w*|(?:19|20)\d\d|auch|ebenfalls|außerdem|zusätzlich|noch ein\w*"
        r"|zweite\w*|manchmal|gelegentlich|vorübergehend|besuch\w*|sagt\w*|heute|morgen|gestern|diese\w? (?:woche"
        r"|monat|jahr)|etwa|ungefähr|circa|ca|rund|fast|über \d|unter \d|bis zu|mindestens|höchstens|mehr als"
        r"|weniger als|außer)\b"
    ),
    vague=Pattern(r"(?:und |aber )?(?:er|sie|es|das|dies\w*|jen\w*|sein\w*|ihr\w*|du|dein\w*|dort|da)\b"),
    subject=Pattern(r"^(?:(?:mein|unser|der|die|das)\w{0,2}\s\w+)?"),
    negated=Pattern(r"\b(?:nicht(?! nur) mehr|nicht(?! nur)|kein\w{0,2}|nie(?:mals)?|ohne|mehr)\b"),
    ended=Pattern(
        r"\b(?:(?:habe?n? )?(?:mit dem |mit der )?aufgehört(?: zu)?|(?:habe?n? )?aufgegeben|gekündigt"
        r"|verkauft|abgesagt|storniert|abbestellt|gelöscht"
        r"|getrennt von|losgeworden|abgebrochen|gestorben|abgelaufen|vorbei|beendet|verlassen|ausgetreten aus)\b"
    ),
    swapped=Pattern(
        r"\bvon (?P<old>.{2,40}?) (?:zu|auf|nach) .{2,40} (?:gewechselt|umgestiegen|umgestellt)\b|\b(?:statt"
        r"|anstelle von) (?P<dropped>.{2,40})$"
    ),
    changed=Pattern(rf"\b(?:jetzt|nun|inzwischen|mittlerweile|neuerdings|ab sofort|stattdessen|{_MOVING})\b"),
    added=Pattern(r"\bneue[rnms]?\b"),
    relations=(
        Relation(
            "home",
            Pattern(rf"\b(?:[Ww]ohn(?:e|t|en)|[Ll]eb(?:e|t|en)) (?:jetzt |nun |derzeit )?in {_NAME}", cased=True),
        ),
        Relation("home", Pattern(rf"\bnach {_NAME} (?:um)?gezogen\b", cased=True), is_change=True),
        Relation("employer", Pattern(rf"\b[Aa]rbeite[nt]? (?:jetzt |nun |derzeit )?(?:bei|für) {_NAME}", cased=True)),
        Relation("employer", Pattern(rf"\bzu {_NAME} gewechselt\b", cased=True), is_change=True),
        Relation("job", Pattern(r"\b[Aa]rbeite[nt]? (?:jetzt |nun )?als (?P<value>\w+)", cased=True)),
        Relation("age", Pattern(r"\b(?:bin|ist) (?:jetzt )?(?P<value>\d{1,2})(?: Jahre alt)?$", cased=True)),
        Relation("name", Pattern(rf"\b(?:heiße|heißt) {_NAME}$", cased=True)),
    ),
    named=(
        Pattern(
            rf"^(?P<left>(?:mein|unser|der|die|das)\w{{0,2}} .{{2,50}}?) (?:ist|sind|lautet|beträgt|liegt bei"
            rf"|(?P<changed>(?:hat sich |wurde |ist )?(?:jetzt )?auf)) (?:jetzt |nun )?(?P<value>.+?)(?: {_MOVING})?$"
        ),
    ),
    attributes=Pattern(
        r"(?:e-?mail(?:-?adresse)?|mailadresse|\w*nummer|\w*adresse|anschrift|postleitzahl|geburtstag|\w*name"
        r"|passwort|kennwort|pin|staatsangehörigkeit|beruf|gehalt|budget|miete|frist|abgabe|größe|gewicht|blutgruppe"
        r"|heimatstadt|hochzeit|lieblings\w+|chef(?:in)?|vermieter(?:in)?)",
        cased=True,
    ),
    several=Pattern(
        r"(?:schwestern?|brüder|bruder|geschwister|freund(?:e|in|innen)?|cousin\w*|söhne|sohn|töchter|tochter"
        r"|kind(?:er)?|tante\w*|onkel|nachbar\w*|kolleg\w*|mitbewohner\w*|kunde\w*|schüler\w*|student\w*|katzen?"
        r"|hunde?|haustier\w*|vogel|autos?|fahrr\w*|buch|bücher|filme?|bestell\w*|ticket\w*|buchung\w*"
        r"|reservierung\w*|rechnung\w*|paket\w*|treffen|besprechung\w*|termine?|kurse?|unterricht|schicht\w*|flüge?"
        r"|flug\w*|züge?|zug|bus|reise\w*|prüfung\w*|lieferung\w*|projekte?|kont[oe]\w*|karten?|zimmer\w*|tische?"
        r"|artikel\w*|produkte?|spiele?|tabletten?|party|veranstaltung\w*|wohnung\w*|häuser|tür\w*|schlüssel|dateien?"
        r"|seiten?|auftrag\w*|vorgang\w*|sendung\w*|kunden\w*)",
        cased=True,
    ),
    indefinite=Pattern(r"\b(?:ein(?:e[rnms]?)?|manche\w?|jede\w?|diese\w?) \w|\b(?:gekauft|bezahlt|ausgegeben)\b"),
    light=word_set(
        "ich wir mich mir mein meine meinen meinem meiner unser unsere unseren unserem der die das den dem des ein "
        "eine einen einem einer bin ist sind bist hat habe haben wurde auf an am im in zu zum zur bei beim mit von "
        "vom um für als und so sehr noch schon gerade jetzt nun gern gerne immer meistens normalerweise aktuell "
        "derzeit sich nach aus uhr jahre alt neu neue neuen neuer neues dann"
    ),
    engaging=word_set(
        "spiele spielt gehe geht trinke trinkt esse isst nutze nutzt benutze verwende fahre fährt arbeite arbeitet "
        "mache macht besuche studiere abonniere trage lerne"
    ),
    kinds=kinds_of_words(
        weekday="mo montag montags|di dienstag dienstags|mi mittwoch mittwochs|do donnerstag donnerstags|fr "
        "freitag freitags|sa samstag samstags|so sonntag sonntags|werktag wochentags|wochenende",
        daypart="morgens vormittags|nachmittags|abends abend nachts",
        season="frühling|sommer|herbst|winter",
        often="täglich|wöchentlich|monatlich|jährlich",
        marital="ledig single|verheiratet|geschieden|verwitwet|verlobt",
        employment="arbeitslos|rentner pensioniert",
        hours="vollzeit|teilzeit",
        hand="linkshänder|rechtshänder",
        opening="offen geöffnet|geschlossen",
        payment="bezahlt|unbezahlt",
        colour="rot|blau|grün|gelb|weiß|schwarz|grau|braun|rosa|lila",
    ),
    units=synonyms(
        "eur € euro euros|usd $ dollar|chf franken|% prozent|kg kilo kilogramm|g gramm|km kilometer|m meter"
        "|cm zentimeter|mg milligramm|ml|l liter|minute minuten|stunde stunden std|tag tage tagen|woche wochen"
        "|monat monate monaten|jahr jahren|gb|tb|qm m²"
    ),
    months={
        word: int(number)
        for word, number in synonyms(
            "1 januar|2 februar|3 märz|4 april|5 mai|6 juni|7 juli|8 august|9 september|10 oktober|11 "
            "november|12 dezember"
        ).items()
        if word != number
    },
    chosen=Pattern(r"\blieblings\w+|\bberuf\b"),
    regions=synonyms(
        "deutschland|österreich|schweiz|frankreich|italien|spanien|england großbritannien|polen|niederlande|belgien|usa"
        "|kanada|japan|korea|china|indien|türkei|russland|dänemark|schweden|norwegen|portugal|griechenland"
    )
    | dict.fromkeys(
        word_set("europa asien afrika amerika bayern sachsen hessen brandenburg niedersachsen thüringen"), ""
    ),
)

GERMAN = Language(
    name="German",
    script="latin",
    markers=MARKERS,
    stop_words=STOP_WORDS,
    common_words=COMMON_WORDS,
    stemmer="german",
    answers=ANSWERS,
    lead_ins=Pattern(
        r"^(?:(?:ja|nein|also|übrigens|ach|oh|hallo|hi|hey|danke|gut|okay|ok|nun|eigentlich|ehrlich gesagt|und|aber"
        r"|genau)[\s,.:!]{1,3}|ich (?:glaube|denke|meine), (?:dass )?)"
    ),
    question=Pattern(r"\?\W{0,3}$", cased=True),
    request=Pattern(r"^(?:[\w ,]{0,20}\s)?(?:kannst|könntest|könnten|können|würdest|würden) (?:du|sie|ihr)\b"),
    task=Pattern(
        r"\b(?:sag\w{0,2}|erklär\w{0,3}|empfehl\w{0,3}|vorschlag\w{0,3}|zeig\w{0,2}|nenn\w{0,2}|übersetz\w{0,3}"
        r"|schreib\w{0,2}|zusammenfass\w{0,3}|helf\w{0,2}|find\w{0,2}|such\w{0,2}|vergleich\w{0,3})\b"
    ),
    asking=Pattern(
        rf"(?:(?:und|aber|oder|also) )?(?:{_ASKS}|{_VERB_FIRST} (?:ich|du|er|sie|es|wir|ihr|das"
        rf"|der|die|mein\w*))\b"
    ),
    seeking=Pattern(
        rf"{_BEGIN}(?:(?:in|an|für|mit|seit|bis|von|zu|auf) )?(?:{_ASKS}|{_VERB_FIRST}\s\w|(?:sag|gib|zeig"
        rf"|nenn|finde?|such|erinner|erklär|schreib|mach|buche?|hilf)e?\b)"
        r"|\b(?:bitte|vergessen|erinner\w{1,3}|weiß (?:ich )?nicht|keine ahnung|wie immer|letztes mal|sag mir"
        r"|gib mir)\b"
    ),
    tag=Pattern(r",\s(?:oder|nicht wahr|richtig|stimmt's|gell|ne|ja)\s?\?\W{0,3}$"),
    given=Pattern(r"(?<=,\s)(?:weil|da|denn) (?:ich|wir|mein|unser|er|sie)\b"),
    reported=Pattern(
        rf"\b(?:(?:ich|wir|er|sie|man) )?(?:frag\w{{1,4}}|weiß nicht|wissen nicht|wollte wissen|möchte wissen|unsicher)"
        rf"(?: (?:mich|uns|sich|ihn|sie))?,? (?:ob|{_ASKS})\b"
    ),
    supposition=Pattern(
        r"^(?:was wäre,? wenn|angenommen|stell dir vor|nehmen wir an|wenn ich \w+ (?:wäre|hätte))\b|\b(?:hätte|wäre"
        r"|würde) .{1,120}\bwenn\b|\bwenn .{1,80}\b(?:hätte|wäre|würde)\b"
    ),
    condition=Pattern(r"^(?:(?:und|aber|also) )?(?:wenn|falls|sofern|angenommen)\b"),
    chit_chat=Pattern(
        r"\b(?:danke\w{0,2}|vielen dank|bitte schön|entschuldig\w{1,4}|guten (?:morgen|tag|abend)|gute nacht"
        r"|kein problem|klingt (?:gut|toll)|schönen (?:tag|abend)|bis (?:bald|später)|freut mich|alles klar"
        r"|keine ahnung|weiß nicht|erklär\w{0,2}|erzähl\w{0,2} mir)\b"
    ),
    joiner=Pattern(r"\s(?=(?:und|aber|oder|weil|denn|obwohl|während|bis|wenn|falls|dass)\s)", cased=True),
    forget=Pattern(
        r"^(?:(?:bitte|und|nein|ok)[\s,]{1,2}){0,2}(?:vergiss\b(?! nicht)|vergessen sie\b(?! nicht)|merk dir "
        r"(?:das )?nicht|lösch\w{0,2}\b[^.!?\n]{0,40}\b(?:erinnerung|notiz))"
    ),
    said_instead=Pattern(r"(?s).{0,1200}?[,;.–-]\s(?:(?:sondern|aber|denn|jetzt)\s)?(?=(?:ich|wir)\s)"),
    text_task=Pattern(
        r"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:bitte|kannst du|könntest du)\s){0,2}(?:übersetz\w{0,3}|korrigier\w{0,2}"
        r"|fass\w{0,2}|verbesser\w{0,2})\b[^:\n\"“„]{0,60}(?::\s{0,3}|(?=[\"“„]))"
    ),
    signals=SIGNALS,
    assistant=ASSISTANT,
    topic=Pattern(
        r"\b(?:mein|unser|der|die|das|sein|ihr)\w{0,2}\s((?:[\w-]{1,20}\s){0,2}?[\w-]{1,30})\s(?:ist|sind|war"
        r"|hat|haben|lautet|kostet)\b"
    ),
    listener=Pattern(r"\b(?:du|dich|dir|dein\w{0,2}|Sie|Ihnen|Ihre?)\b", cased=True),
    statements=STATEMENTS,
)
