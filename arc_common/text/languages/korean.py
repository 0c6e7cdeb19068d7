"""Korean: its particles, how its sentences ask, suppose and join, and how people state facts; words: `korean.txt`."""

from unicodedata import normalize

from arc_common.caches import cached_text
from arc_common.text.languages.language import Language, Pattern, vocabulary

_WORDS, _PHRASES = vocabulary("korean", whole_words=False)
_ENDING = Pattern(rf"(?<=.){_PHRASES['noun_endings']}$")


def strip_particles(word: str) -> str:
    """Return a Korean word without its final particles, as long as something is left."""
    return str(_ENDING.sub("", _ENDING.sub("", word))) if word and "가" <= word[-1] <= "힣" else word


_COPULA = Pattern(r"(?<=[가-힣])(?:이다|이고|임|입니다|이에요|예요|이었다|였다|다)$")
_VERBAL_NOUN = Pattern(r"^([가-힣]{2,})(?:하|해|했|한|할|합|함|되|돼|됐|된|될|됩|됨)[가-힣]{0,4}$")


def noun_of(word: str) -> str:
    """Return a word without its copula or verb ending ("의사입니다", "결혼했다"); a bare "-다" follows a vowel."""
    if copula := _COPULA.search(word):
        is_after_vowel = (ord(word[copula.start() - 1]) - ord("가")) % 28 == 0
        if copula[0] != "다" or (is_after_vowel and not word.endswith(("하다", "되다", "가다", "오다"))):
            word = word[: copula.start()]
    verbal = _VERBAL_NOUN.match(word)
    return str(verbal[1]) if verbal else word


_SHORT = str.maketrans("써꺼커떠해했한할합함돼됐된될됩", "쓰끄크뜨하하하하하하되되되되되")
_ROUNDED = str.maketrans("\u116a\u116f\u1167\u116b", "\u1169\u116e\u1175\u116c")
"""The vowels wa, wo, yeo and wae as the stems o, u, i and oe have them."""


@cached_text(4_096)
def stem_of_verb(text: str) -> str:
    """Return the part that all forms of a verb share: its first consonant, and its vowel without an ending."""
    if not text or not "가" <= text[0] <= "힣":
        return text
    return normalize("NFD", text.translate(_SHORT)[0])[:2].translate(_ROUNDED)


_VERB = Pattern(r"^[가-힣]{1,10}(?:다|요|고|음|까|죠|지)$")


def stem(word: str) -> str:
    """Return the part that all forms of a verb share, or any other word without its particles."""
    return f"~{stem_of_verb(word)}" if _VERB.match(word) else strip_particles(word)


_ASKS = "(?:뭐|뭘|뭔|무엇|무슨|어떤|어떻|어때|어느|어디|언제|누구|누가|얼마|몇)"
_PEOPLE, _CHANGED, _TASK = _PHRASES["relatives"], _PHRASES["changed"], _PHRASES["text_tasks"]
_NOW = "(?:이제는?|이젠|지금은|요즘은)"
_BE, _SINGLE = _PHRASES["to_be"], _PHRASES["single_valued"]
_NUMBER = rf"(?:\d\S*|(?:{'|'.join(_WORDS['numbers'])})\s?)"
_NAME = r"(?:^|\s)([가-힣A-Za-z0-9]{2,15}?)(?<!집)"

KOREAN = Language(
    name="Korean",
    script="hangul",
    **_WORDS,
    stop_word=Pattern(
        rf"{_ASKS}[가-힣]{{0,4}}|(?:인|한|된|던|그런|이런|저런)(?:가요|가|지)|{_PHRASES['stops']}"
        r"|(?:[있없하했되됐였이갔왔]|했었|이었)(?:나요?|어요?|습니까|니|지|죠|는지|었지|었죠|는가|을까요?|던가요|더라)"
    ),
    particles=Pattern(
        r"(?<=[가-힣]{2})(?:(?:에서|에게|한테|께서|까지|부터|으로|처럼|보다|이랑|이나|라도|마다|밖에|조차|만)?"
        rf"(?:은|는|도|만|의)|{_PHRASES['endings']})$"
    ),
    stem_of=stem,
    lead_ins=Pattern(rf"^(?:{_PHRASES['interjections']}[\s,.!~]{{1,4}}|기억해\s?(?:줘|주세요|둬|두세요)요?[:,]\s?)"),
    seeking=Pattern(
        r"(?P<asked>(?:(?<![실줄] 수 있)나요|냐|[인한된은는]가요?|[있없했었았였됐갔왔맞되]나)[\s.!~?]*$)"
        rf"|(?:{_ASKS}|왜)(?!든|라도)|{_PHRASES['requests']}|(?<!는 [거것걸점] )기억(?:나|이\s(?:안\s)?나|\s안|하|해)"
        r"|(?:(?<!는 [거것걸점] 기억해 )(?:줘|주세요|줄래|주실|주시겠|주라)요?|나요|까요?|(?<![머언])니|던가요?|더라"
        r"|[었였했이는은인을]지|려나|(?<=[가-힣])[은는]요?)[\s.!~?]*$"
    ),
    confirming=Pattern(rf"(?:[,，]\s?)?{_PHRASES['tags']}요?[\s.!~?？]*$"),
    condition=Pattern(r"(?:[가-힣]면|경우(?:에는?|라면)?)[\s,]{0,2}$"),
    oneself=Pattern(
        rf"(?<![가-힣])(?:저|제|나|내|난|전|우리|저희)(?:[는가도의를에]|희|\s|한테)|{_PEOPLE}"
        r"|(?:[어아해예에녀겨려져쳐춰여와봐둬줘써꿔]요|니다)\W*$"
    ),
    lasting=Pattern(
        rf"{_PHRASES['states']}|(?:좋아|싫어)(?:해|하|합)|[가-힣](?:이에요|예요|입니다|이야)\W*$"
        r"|(?:에서|에|로)\s(?:[가-힣]+\s){0,2}(?:일하|일해|근무|다니|다녀|다닙|살|삽|산다|거주|이사)"
        r"|(?:을|를)\s(?:키우|키워|쓰|써|타|사용|배우|운영|샀|산\s|좋아|싫어|마셔|마시)"
        r"|기로\s?(?:했|결정|정)|려고\s?(?:해|하|합)|고\s있(?:어|습|는)|(?=(?:\S+\s){3,}\S*(?:[가-힣]요|[다어아야해돼대래])\W*$)"
        rf"|{_PEOPLE}[가-힣]{{0,3}}\s.+(?:있|살|이에요|예요|입니다|해요|어요)"
    ),
    asserting=Pattern(r"(?:다|요|음|임|네|지|야|어|아|해|돼|대)\W*$"),
    bare=Pattern(rf"^(?!.*(?:[은는이도을를]|\S[가-힣]가)\s)(?:\S+\s){{0,4}}\d\S*\s?[가-힣]{{0,2}}{_BE}\W*$"),
    forbidding=Pattern(
        rf"(?P<limit>^(?:{_PHRASES['limits']}\s?{_NUMBER}\S*(?:\s\S+){{0,2}}"
        rf"|(?:\S+\s)?{_NUMBER}(?:\S+\s?)?{_PHRASES['final_limits']}(?:로|만|까지)*(?:이?요)?"
        rf"|(?:\S+\s){{0,2}}\S+\s?(?:빼고|제외하고|말고)(?:요|는\s\S+)?)\W*$)|{_PHRASES['forbidden']}|빼\s?(?:주|줘)"
        r"|지\s?(?:말(?!까)|마(?:세요|요|라|시|십|\W|$))|면\s안\s?[돼되됩]|(?<![가-힣])못\s(?:마시|[먹드타하쓰받])|절대로?\s"
        r"|다시는\s[안못]\s|[가-힣]\s말고요\W*$|(?:로|에|에게|한테|께)만\s\S+\s?(?:주세요|줘)|[아어해여]야\s?[해돼합됩]"
        rf"|\d\S*\s?{_PHRASES['final_limits']}[는만면로]?\s(?:괜찮|가능|돼|됩|부탁)"
    ),
    vague=Pattern(r"^(?:그리고 |하지만 )?(?:그|그녀|[그이저]것|[그이]거|이|[그이]건|걔)[는은가이도의들]?\s"),
    denying=Pattern(
        rf"(?:{_PHRASES['denied']}|{_PHRASES['leaving']}|(?<=지)[는도를]?\s?[않못말]|아니(?!면|라면)|없(?!이|애))[가-힣]*"
        r"|(?:^|(?<=\s))[안못](?=\s)"
    ),
    changing=Pattern(rf"(?:^|(?<=\s))(?:{_NOW}|대신)(?=\s)|(?:으로|로)?\s?{_CHANGED}[가-힣]*"),
    replacing=Pattern(r"(\S+)\s대신|(\S+?)(?:이|가)?\s아니라"),
    parting=Pattern(r"(?<=[가-힣])(?:고|지만|는데|다가)\s(?!있|싶)|[,;]\s"),
    subject=Pattern(r"(?!(?:저는|나는|우리는|제가|내가|지금은|이제는|요즘은)\s)(?:\S{1,6}\s)?\S{1,8}[은는이가]\s"),
    naming=Pattern(
        rf"^(?:{_NOW}\s)?(?:(?:제|저희|우리|내)\s)?(?P<name>(?:[가-힣]+\s){{0,2}}[가-힣]+?)[은는이가을를]\s(?:{_NOW}\s)?"
        rf"(?P<value>[가-힣A-Za-z ]{{2,20}}?)(?:{_BE}|이다|(?P<place>에\s?있)[가-힣]+|으?로\s?{_CHANGED}[가-힣]*)$"
    ),
    relations={
        "home": Pattern(rf"{_NAME}(?:(?:에서|에)\s(?:살|산다|삽니다|거주|자취)|(?:으로|로)\s이[사주](?:했|갔|왔|해))"),
        "employer": Pattern(
            rf"{_NAME}(?<!재택)(?:에서?\s(?:근무|재직|다(?:[니닌닙]|녀(?!오|올|왔))|입사|취직)|으?로\s이직)"
        ),
        "age": Pattern(r"(?:^|\s)(\d{1,2})\s?(?:살|세)(?=이|입|예|$|다|야)"),
    },
    attribute=Pattern(
        rf"^(?:(?:제|저희|우리|내)\s)?(?P<name>(?:[가-힣A-Za-z]+\s)?[가-힣]*{_SINGLE})(?:[은는이가을를]|일은)?\s(?P<value>.+)"
    ),
    follow_up=Pattern(
        rf"\s*(?:(?:네|응|아|음|좋아요?|고마워요?|감사합니다)[,.!]*\s+)*(?:{_PHRASES['follow_ups']}"
        r"|(?:또는?|대신)(?=\s)|더\s*(?:자세히|알려|설명|있|없))"
    ),
    pointer=Pattern(
        r"(?<![가-힣])(?:[그이저](?:거|것|건|게|걸|곳|때|분|쪽|애|중|런|렇게|들)"
        r"(?:[은는이가을를도의에로과와]|에서|부터|까지|보다|처럼|만|요|이에요|예요|인가요)*(?![가-힣])"
        r"|그녀|그들|[걔쟤얘]|[거여저]기|그때|이때|그날|전자|후자|나머지|(?:그|해당|방금|아까|[이그저]런|같은|다른)\s+[가-힣]"
        r"|[이저]\s+(?:사람|제품|상품|회사|책|집|방법|경우|문제|기능|모델|가게|식당|곳|중))"
        r"|(?:첫|두|세|네|다섯)\s*번째\s*(?:거|것|건|게|걸|[은는이가을를])|[그이저]\s*[것거]들?"
    ),
    ellipsis=Pattern(r"\s*\S+(?:\s+\S+)?[은는](?:요)?\s*[?？]*\s*"),
    defining=Pattern(r"뭐|뭔|무엇|누구|뜻|의미|란\b"),
    forget=Pattern(
        r"(?:잊어\s?버려|잊어|까먹어)\s?(?:줘|줄래|주세요|주십|주시|주고|라(?![가-힣]))|잊으(?:세요|십)"
        r"|기억[은도]?\s?하지\s?[마말](?:세요|아\s?줘|아\s?주세요)?|(?:기억|메모리|저장한?\s?(?:것|거|내용|정보))(?:[을를은는도]|에서|에)?"
        r"\s(?:모두|전부|다|좀)?\s?(?:지워|없애|삭제\s?해|빼)\s?(?:줘|줄래|주(?!지)|라)(?:세요|십시오)?"
    ),
    said_instead=Pattern(r"(?:[가-힣]{0,4}[,.;!]|고)\s"),
    text_task=Pattern(
        rf"(?m)(?:^|(?<=[.!?]\s))[^:：\n.!?]{{0,60}}?{_TASK}[^:：\n.!?]{{0,20}}(?:[:：]|\s[-–—])\s{{0,3}}"
        rf"|^[^\n]{{0,20}}(?:다음|아래)[^\n]{{0,40}}?{_TASK}[^\n]{{0,20}}\n"
    ),
    text_in_task=Pattern(rf"[\"“「'‘][^\"”」'’\n]{{3,400}}[\"”」'’](?=[^\n.!?\"“]{{0,15}}{_TASK})"),
    self_quoted=r"(?:저|제|나|내|난|전|우리|저희)(?:[는가도의]|\s)",
)
