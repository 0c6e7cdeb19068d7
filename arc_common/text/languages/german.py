"""German: its words, and the forms of its questions, suppositions, joints and statements of facts."""

from arc_common.text.languages.language import Language, Pattern, synonyms, word_set

MARKERS = word_set(
    "ich er sie wir ihr der das ist sind nicht und oder aber mit auf für von zu bei nach aus über wenn dass weil ein "
    "eine einen einem einer eines mein meine meinen meinem meiner dein deine deinen unser unsere kein keine keinen "
    "keiner bitte wie wo wer wem wen wann warum welche welcher welches welchen wohin woher wieviel habe hast haben "
    "hatte wird werden wurde kann kannst können muss müssen möchte jetzt heute morgen noch nur auch schon sehr danke "
    "nein doch zum zur vom beim mich dich uns euch ihn ihm ihnen mir bin gibt weiß heißt gerne immer nie mehr seit ab "
    "um sich wohne arbeite höchstens mindestens merk denk"
)
STOP_WORDS = word_set(
    "aber alle allem allen aller alles als also am an ander andere anderen auch auf aus bei beim bin bis bist bitte da "
    "damit dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen dieser "
    "dieses dir doch dort du durch ein eine einem einen einer eines einige er es etwas euch euer eure für gegen "
    "gewesen hab habe haben hat hatte hatten hast hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in "
    "indem ins ist jede jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner können könnte "
    "könntest machen man manche mein meine meinem meinen meiner mich mir mit muss nach nicht nichts noch nun nur ob "
    "oder ohne sehr sein seine seinem seinen seiner selbst sich sie sind so solche soll sollte sondern sonst über um "
    "und uns unser unsere unter viel vom von vor wann war waren warum was weg weil welche welchem welchen welcher "
    "welches wem wen wenn wer werde werden wie wieder wieviel will wir wird wirst wo woher wohin wollen wurde während "
    "würde zu zum zur zwar zwischen"
)
COMMON_WORDS = word_set(
    "ja nein danke gut gute guten schön toll ok okay gerade eigentlich vielleicht wirklich ganz genau heute morgen "
    "gestern abend tag tage woche wochen monat jahr zeit mal einmal immer nie oft manchmal leider natürlich klar mehr "
    "sache sachen leute frage fragen antwort hilfe weiß denke finde glaube meine meinst gesagt gehen geht gehe kommt "
    "komme mache gemacht gibt nehmen möchte brauche neu neue erst schon hallo gern gerne problem idee bald wichtig "
    "einfach später"
)
_ASKS = r"(?:wer|wen|wem|wessen|was|wie|wo|woher|wohin|wann|warum|wieso|weshalb|welche[rsnm]?|wieviel)"
_VERB_FIRST = (
    r"(?:ist|sind|war|waren|hat|hast|habe|haben|kann|kannst|können|könnte|könntest|könnten|soll|sollte|darf|muss|musst"
    r"|willst|wollt|wird|werden|würdest|gibt|weißt|kennst|bist|seid)"
)
_NAME = r"([A-ZÄÖÜ][\wäöüß&-]*(?: [A-ZÄÖÜ][\wäöüß&-]*){0,2})"
_MOVED = r"(?:geändert|verschoben|verlegt|erhöht|gesenkt|verlängert|aktualisiert|umgestellt|vorverlegt)"
_SINGLE = (
    r"e-?mail(?:-?adresse)?|\w*nummer|\w*adresse|anschrift|postleitzahl|geburtstag|\w*name|passwort|pin|beruf|gehalt"
    r"|budget|miete|frist|größe|gewicht|hochzeit|termin|\w*flug|zug|treffen|besprechung|abfahrt|ankunft|lieblings\w+"
)

GERMAN = Language(
    name="German",
    script="latin",
    markers=MARKERS,
    stop_words=STOP_WORDS,
    common_words=COMMON_WORDS,
    stemmer="german",
    lead_ins=Pattern(
        r"^(?:(?:ja|nein|also|übrigens|ach|oh|hallo|hi|hey|danke|gut|okay|ok|nun|eigentlich|ehrlich gesagt|und|aber"
        r"|genau)[\s,.:!]{1,3}|ich (?:glaube|denke|meine), (?:dass )?"
        r"|(?:bitte )?(?:merke? dir|denke? (?:bitte )?daran|vergiss nicht|beachte)(?: bitte)?(?:, dass |:\s+))"
    ),
    seeking=Pattern(
        rf"^(?:(?:und|aber|oder|also|ok|okay|ja|nein|hallo|hi|hey|bitte|danke|übrigens"
        rf"|entschuldigung)[\s,!]{{1,3}}){{0,3}}(?:(?:in|an|für|mit|seit|bis|von|zu|auf) )?(?:{_ASKS}\b"
        rf"|{_VERB_FIRST}\s\w|(?:sag|gib|zeig|nenn|finde?|such|erinner|erklär|schreib|mach|buche?"
        r"|hilf|übersetz|empfiehl)e?\b)|\b(?:vergessen|keine ahnung|wie immer|letztes mal|sag mir|gib mir|(?:weiß"
        r" (?:ich )?nicht|wüsste"
        rf"|frag\w*|möchte wissen),? (?:ob|{_ASKS}))\b|\bbitte\W*$"
    ),
    chit_chat=Pattern(
        r"\b(?:danke\w{0,2}|vielen dank|bitte schön|entschuldig\w{1,4}|guten (?:morgen|tag|abend)|gute nacht|kein"
        r" problem|klingt \w+|schönen (?:tag|abend)|bis (?:bald|später)|freu\w* mich|freut mich|alles klar|keine"
        r" ahnung|weiß nicht|fühl\w*|toll|super|wunderbar|schön\w*|glücklich|stolz|großartig|stimmt|keine sorge|mach"
        r" dir keine|glückwunsch|viel (?:glück|spaß|erfolg)|das ist \w+)\b"
    ),
    supposition=Pattern(
        r"^(?:was wäre,? wenn|angenommen|stell dir vor|nehmen wir an)\b|\b(?:vielleicht|wahrscheinlich|hätte\w?|wäre\w?"
        r"|würde(?! gern)|könnte)\b"
    ),
    condition=Pattern(r"^(?:(?:und|aber|also) )?(?:wenn|falls|sofern)\b"),
    oneself=Pattern(r"\b(?:ich|wir|mich|mir|uns|mein\w{0,2}|unser\w{0,2})\b"),
    listener=Pattern(r"\b(?:du|dich|dir|dein\w{0,2}|Sie|Ihnen|Ihre?)\b", cased=True),
    lasting=Pattern(
        r"\b(?:bin|sind|habe|haben|wohne|wohnen|lebe|arbeite|heiße|besitze|mag|liebe|hasse|bevorzuge|spiele|studiere"
        r"|lerne|fahre|trinke|esse|trage|plane|planen|will|wollen|brauche|kann nicht|ziehe|gehe|fliege|fliegen|reise"
        r"|kaufe|unterrichte|leite|nehme)\b|\b(?:mein|unser)\w{0,2} (?:[\w-]+ ){1,3}(?:ist|sind|hat|haben|heißt|wohnt"
        r"|arbeitet|mag|will|war|lautet)\b"
    ),
    asserting=Pattern(
        r"\b(?:ist|sind|war|waren|hat|haben|wird|kostet|beginnt|lautet|liegt|wohnt|arbeitet|heißt|fährt|geht|kommt)\b"
    ),
    wanting=Pattern(r"\b(?:suche|suchen|brauche|möchte|würde gern\w*|hätte gern\w*)\b"),
    forbidding=Pattern(
        r"^(?:(?:bitte|und|aber|also),? )?(?:(?:\w+ ){0,2}(?:nie|niemals)\b|nur|keine?\w?\b|auf keinen fall|kein\w* \w+"
        r" bitte|nicht (?:\w+ (?:bitte|wieder)|(?:vor|nach|über|unter|mehr als|am|im|in) \w+(?: \w+){0,2}\W*$)"
        r"|(?:bis zu|maximal) \d)|\b(?:darf\w* (?:\w+ ){0,4}(?:nicht|kein\w*)"
        r"|nicht (?:\w+ ){0,3}(?:anrufen|buchen|verwenden|benutzen|essen|stören|schicken|senden|bestellen)"
        r"|niemals|verboten|allergi\w+|unverträglich\w*|vegan\w*|vegetari\w+|glutenfrei|laktose\w*|nie wieder|nur wenn"
        r"|es sei denn|muss (?:\w+ ){0,4}sein|höchstens|mindestens|spätestens|ausschließlich|auf keinen fall)\b"
    ),
    deciding=Pattern(
        r"\b(?:entschieden|beschlossen|gewählt|vereinbart|gebucht|reserviert|bestätigt|storniert|abgesagt|bestellt"
        r"|angemeldet|wir nehmen|ich nehme|versprochen)\b"
    ),
    preferring=Pattern(
        r"\b(?:mag|liebe|hasse|bevorzuge|am liebsten|lieblings\w+|lieber|gern|gerne|allergi\w+|vegan\w*|vegetari\w+)\b"
    ),
    vague=Pattern(r"^(?:und |aber )?(?:er|sie|es|das|dies\w*|jen\w*|sein\w*|ihr\w*|dort|da)\b"),
    denying=Pattern(
        r"\b(?:nicht(?! nur)|kein\w{0,2}|nie(?:mals)?|ohne|aufgehört|aufgegeben|gekündigt|verkauft|abgesagt|storniert"
        r"|getrennt|beendet|verlassen|hasse)\b"
    ),
    changing=Pattern(rf"\b(?:jetzt|nun|inzwischen|mittlerweile|neuerdings|ab sofort|stattdessen|{_MOVED})\b"),
    adding=Pattern(
        r"\b(?:auch|ebenfalls|außerdem|zusätzlich|noch ein\w*|zweite\w*|manchmal|früher|war|hatte|letzte\w*|gestern"
        r"|heute|morgen|plane|möchte)\b"
    ),
    relations={
        "home": Pattern(
            rf"\b(?:[Ww]ohne|[Ll]ebe|wohnt|lebt)(?: jetzt| nun)? in {_NAME}|\bnach {_NAME} (?:um)?gezogen", cased=True
        ),
        "employer": Pattern(rf"\b[Aa]rbeite[nt]?(?: jetzt| nun)? (?:bei|für) {_NAME}", cased=True),
        "age": Pattern(r"\b(?:bin|ist) (?:jetzt )?(\d{1,2})(?: Jahre alt)?\W*$"),
    },
    attribute=Pattern(
        rf"\b(?:mein|unser|der|die|das)\w{{0,2}} (?P<name>(?:[\w-]+ ){{0,2}}?(?:{_SINGLE}))(?: (?:ist|sind|lautet"
        rf"|beträgt|wurde|hat|sich|jetzt|nun|auf|um|am))+ (?P<value>.+)"
    ),
    dates=synonyms(
        "weekday=monday montag montags|weekday=tuesday dienstag dienstags|weekday=wednesday mittwoch "
        "mittwochs|weekday=thursday donnerstag|weekday=friday freitag freitags|weekday=saturday samstag "
        "samstags|weekday=sunday sonntag sonntags|month=1 januar|month=2 februar|month=3 märz|month=4 april|month=5 "
        "mai|month=6 juni|month=7 juli|month=8 august|month=9 september|month=10 oktober|month=11 november|month=12 "
        "dezember"
    ),
    forget=Pattern(
        r"^(?:(?:bitte|und|nein|ok)[\s,]{1,2}){0,2}(?:merk dir (?:das )?nicht|(?![^.!?,\n]*\b(?:nicht|nie|niemals)\b)"
        r"(?:vergiss\b|vergessen sie\b|(?:kannst|könntest|würdest) du (?:\w+ )?vergessen\b"
        r"|lösch\w{0,2}\b[^.!?\n]{0,40}\b(?:erinnerung|notiz)))"
    ),
    said_instead=Pattern(r"(?s).{0,1200}?[,;.–-]\s(?:(?:sondern|aber|denn|jetzt)\s)?(?=(?:ich|wir)\s)"),
    text_task=Pattern(
        r"(?m)(?:^|(?<=[.!?,]\s))[ \t]*(?:(?:bitte|kannst du|könntest du)\s){0,2}(?:übersetz\w{0,3}|korrigier\w{0,2}"
        r"|fass\w{0,2}|verbesser\w{0,2})\b[^:\n\"“„]{0,60}(?::\s{0,3}|(?=[\"“„]))"
    ),
)
