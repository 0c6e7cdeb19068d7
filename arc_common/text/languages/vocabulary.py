"""Words that say little about which conversation one is in: what they leave of a clause is what is specific to it."""

import re
from collections.abc import Mapping

__all__ = ["content_words", "is_common", "strip_particles", "word_map", "word_set", "words_of"]

WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*")


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as text."""
    return frozenset(text.split())


def word_map(groups: Mapping[str, str], *, between: str | None = None) -> dict[str, str]:
    """For each word of lists that are written as text, the name of its list.

    Args:
        groups: The lists, by name.
        between: What stands between two words; by default, space.
    """
    return {word: name for name, words in groups.items() for word in words.split(between)}


_ENGLISH = word_set(
    """
    a able about above absolutely across actual actually add advice afraid after afternoon again against ago agree
    ah ahead all almost alone along already alright also although always am amazing an and another answer answered
    answering any anybody anyhow anymore anyone anything anyway apart apologise apologies apologize appreciate are
    aren't around as ask asked asking at away awesome awful back bad basically be bear beautiful became because
    become been before began begin behind being believe best bet better between big bit both breakfast bring brings
    bunch busy but by call called came can can't cannot case catch certain certainly chance change changed chat
    clear clearer clearly come comes coming common complain completely complicated confused confusing consider
    convenient cool could couldn't couple course crazy curious currently curiosity day days deal dealing dealt
    decide definitely depend depends detail details did didn't difference different difficult dinner do does
    doesn't doing don't done down dreadful during each earlier early easier easily easy either else end ended ends
    enjoy enjoyed enjoying enough entire especially etc even evening ever every everybody everyone everything
    everywhere exact exactly example excellent excited exciting excuse expect expected expecting experience expert
    explain explained explaining extra face fact fair fairly fall far fast favorite feel feeling feelings feels
    felt few figure final finally find finding fine first follow for forget forgot forward found friend friends
    from fun funny further fuss future gave general generally get gets getting give given gives giving glad go goes
    going gone gonna good got gotta great guess guys had hadn't half hand happen happened happening happens happy
    hard hardly has hasn't have haven't having he he'd he'll he's head hear heard hearing hello help helped helpful
    helping helps her here here's hers herself hey hi him himself his hold honest honestly hope hoped hopefully
    hoping how how's however huge hundred i i'd i'll i'm i've idea ideas if imagine imagining important in indeed
    inside instead interested interesting into is isn't issue it it'd it'll it's its itself job just keep keeping
    keeps kept kind kinds knew know knowing known knows lack lately later laugh laughed learn learned least leave
    left less let let's letting life like liked likes line list listen listening little live living lol long longer
    look looked looking looks lose lot lots love loved lovely luck lucky made main make makes making manage many
    matter matters may maybe me mean means meant meanwhile mention mentioned mentioning mess messy message messages
    might mind mine minute moment moments month months more morning most mostly move much must my myself name near
    nearly necessary need needed needing needs neither never new next nice night no nobody none nor normal normally
    not note nothing notice noticed now nowhere number obviously odd of off often oh ok okay old on once one ones
    only onto open opinion opinions opposite option options or order other others otherwise ought our ours out
    outside over overall overwhelmed overwhelming own page pages part particular particularly parts past patience
    patient people perfect perfectly perhaps person picture piece pile pity place places plan plans pleasant please
    plenty plus point points possible possibly practice pretty prefer probably problem problems process proper
    properly provide put question questions quick quickly quiet quite ramble rambling rather read reading ready
    real realise realised realize realized really reason reasonable recently recommend regarding remember
    remembered remind remark reply rest result right road room round run running rush said same sat saw say saying
    says second see seeing seem seemed seems seen send sense sent series several shall share she she'd she'll she's
    shoes short shortly should shouldn't show shows side silly similar simple simpler simply since sit sitting
    situation slightly slipped slow slowly small so some somebody somehow someone something sometimes somewhat
    somewhere soon sorry sort sorted sound sounds speak special specific spend spinning stand standing start
    started starting starts state stay step steps still stop stopped story straight strange stuff stupid such
    suggest suggestion suggestions super suppose supposed sure surely surprise take taken takes taking talk talked
    talking tea tell telling ten tend terms terrible than thank thankful thanks that that'd that'll that's the
    their theirs them themselves then there there's these they they'd they'll they're they've thing things think
    thinking thinks third this thorough those though thought thoughts thousand through till time times tip tips
    tired to today together told tomorrow tonight too took topic totally touch toward towards train tried tries
    trouble true truly truth try trying turn turned twice two type understand understanding understood
    unfortunately unless until up update upon upset us use used useful uses using usual usually various very via
    view wait waiting walk want wanted wanting wants was wasn't way ways we we'd we'll we're we've weather week
    weekend weeks weird welcome well went were weren't what what's whatever when whenever where whether which while
    who who's whole whom whose why will wish with within without won't wonder wondered wonderful wondering word
    words work working works world worried worries worry worse worst worth would wouldn't write writing written
    wrong wrote yeah year years yep yes yesterday yet you you'd you'll you're you've your yours yourself based
    create created creating exploring explore focus improve include including incorporate information learning
    level light planning potential prepare recommendations resources responses strategies techniques assist
    assistance document provided style article essay generate prompt continue summary sentence paragraph
    """
)

_KOREAN = word_set(
    """
    것 거 게 건 걸 수 때 더 또 잘 좀 참 막 꼭 다 안 못 왜 뭐 뭘 뭔 무엇 어떤 어떻게 어디 언제 누가 누구 얼마나 이
    그 저 이거 그거 저거 이건 그건 이게 그게 이것 그것 이것저것 여기 거기 저기 이런 그런 저런 이렇게 그렇게 저렇게
    이제 지금 요즘 오늘 어제 내일 아까 나중 나중에 다음 먼저 아직 벌써 이미 다시 계속 항상 가끔 자주 보통 대체로
    정말 진짜 너무 아주 매우 무척 꽤 상당히 조금 약간 많이 가장 제일 훨씬 전혀 별로 거의 대충 그냥 사실 솔직히 일단
    우선 혹시 아마 역시 물론 그래서 그런데 근데 그리고 그러나 하지만 그래도 그럼 그러면 그러니까 아무튼 암튼 어쨌든
    또는 나 제 내 우리 저희 너 당신 분 사람 사람들 주변 다른 모두 다들 하나 하나씩 하나도 둘 처음 마지막 전 후 뒤
    앞 옆 위 밖 중 동안 정도 만큼 쪽 편 점 일 말 말씀 얘기 이야기 설명 질문 대답 답 답변 생각 고민 마음 기분 느낌
    이해 도움 방법 방향 순서 내용 부분 문제 상황 경우 이유 결과 확신 감사 고맙 고마워 감사합니다 고맙습니다 죄송
    죄송합니다 미안 미안해 반갑 안녕 안녕하세요 네 예 아니요 응 음 아 오 와 하하 ㅎㅎ ㅋㅋ 덕분 덕분에 신경 걱정
    정신 기운 몸 날씨 하루 하루하루 하루종일 종일 주말 아침 점심 저녁 커피 잔 시간 바쁘 바쁠 급한 천천히 편하게
    쉽게 어렵게 복잡 복잡해지기만 헷갈리 모르 몰라 모르겠어요 알겠습니다 알겠어요 알아요 알려 알려주세요 궁금
    궁금해서 궁금해요 여쭤봐요 물어볼 물어보면 물어보길 부탁 부탁드려요 부탁드립니다 주세요 말아 주시면 봐 보니 보니까
    볼게 볼게요 봐요 봅니다 듣고 들어 하는 하고 해서 해요 합니다 했어요 했는데 하면 하게 할 한 할게 할게요 하죠
    되는 돼요 됩니다 되면 있는 있어요 있습니다 있을 있고 없는 없어요 없네요 없습니다 같아요 같아 같은 같습니다
    같네요 싶은 싶었는데 싶어요 좋은 좋아요 좋겠어요 좋겠습니다 좋네요 좋아 괜찮아요 괜찮은 괜찮습니다 맞는 맞아요
    나을 원래 장황 세상 큰일 별일 신기 든든 답답 하소연 정리 추천 추천해 가능 필요 확인 관련 대해 대한 위해 통해
    따라 무슨 어느 여러 가지 몇 새로운 특히 자세히 간단히 함께 같이 좋을 만한 괜찮을
    """
)

_PARTICLES = """
    께서는 에서는 에게는 한테는 으로는 까지는 부터는 이라서 이라고 이라는 에서도 에게서 한테서 입니다 이에요 이었어
    이었 예요 이야 이고 라서 라고 라는 에는 에도 에만 께서 에서 에게 한테 으로 까지 부터 처럼 보다 마다 조차 밖에
    이랑 이나 이며 인데 하고 랑 나 은 는 이 가 을 를 의 에 로 와 과 도 만 요 야 씩 쯤
    """

_HANGUL_ENDING = re.compile(rf"(?:{'|'.join(_PARTICLES.split())})$")


def words_of(text: str) -> list[str]:
    """The words of a text as they stand, in order; a run of Chinese characters or kana is one word."""
    return WORD.findall(text)


def strip_particles(word: str) -> str:
    """A Korean word without the particles at its end, as long as something is left."""
    if not word or not "가" <= word[-1] <= "힣":
        return word
    for _ in range(2):
        match = _HANGUL_ENDING.search(word)
        if not match or match.start() == 0:
            break
        word = word[: match.start()]
    return word


def is_common(word: str) -> bool:
    """Whether a word occurs in most conversations, so that it says nothing about this one."""
    folded = word.casefold().replace("’", "'")
    if folded.isascii():
        base = folded.split("'")[0]
        return folded in _ENGLISH or base in _ENGLISH or len(folded) == 1
    return folded in _KOREAN or strip_particles(folded) in _KOREAN


def content_words(text: str) -> list[str]:
    """The words that are specific to this text, in order, as they stand."""
    return [word for word in words_of(text) if not is_common(word)]
