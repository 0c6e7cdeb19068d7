"""Everyday words that ask for other words: a question says "job" where the answer says "nurse".

Only what people commonly tell about themselves and ask for again, in English and Korean. More is an embedder's work.

A line is one concept: its names, a colon, and words that stand for it; a line that begins with a space goes on.
"""

from collections.abc import Iterable
from functools import lru_cache

from arc_common.text.analyzer import analyze

__all__ = ["related_terms"]

_CONCEPTS = """
job work profession occupation career employ living 일을 직업 직장 회사 일하 근무 다니: nurse doctor surgeon dentist
 vet pharmacist midwife carer therapist teacher tutor lecturer professor librarian engineer developer programmer
 designer architect analyst scientist researcher manager director consultant accountant banker lawyer solicitor
 paralegal judge chef cook baker barista waiter bartender driver courier pilot sailor farmer gardener florist butcher
 welder plumber electrician carpenter mechanic builder joiner painter cleaner clerk cashier secretary receptionist
 translator writer editor journalist photographer musician actor artist police firefighter soldier student freelance
 shift 교사 선생 강사 교수 간호사 약사 의사 치과 수의사 개발자 디자이너 기획 요리사 제빵 미용사 변호사 회계사 공무원
 경찰 소방 기자 작가 번역 배우 운전 기사 농사 자영업 사업 알바 프리랜서 학생
family relative relation 가족 친척: parent father mother dad mom mum brother sister husband wife son daughter uncle
 aunt cousin nephew niece grandma grandpa 부모 아버지 아빠 어머니 엄마 형 오빠 누나 언니 동생 남편 아내 아들 딸 삼촌
 이모 고모 조카
father dad daddy papa 아버지 아빠 부친: old
mother mom mum mama mommy mummy 어머니 엄마 모친: 친정
parent 부모 양친: father mother dad mom mum folks 아버지 어머니 아빠 엄마
sibling 형제 자매 남매: brother sister twin 언니 오빠 누나 형 동생
brother sister: sibling twin 동생 형제 자매
partner spouse 배우자: husband wife boyfriend girlfriend fiance fiancee 남편 아내 와이프 신랑 여자친구 남자친구
husband wife 남편 아내 와이프: partner spouse 배우자 신랑
child kid 아이 자녀 애기: son daughter baby toddler infant eldest youngest teenager boy girl 아들 딸 첫째 둘째 막내
grandfather grandpa grandad 할아버지 조부: 외할아버지
grandmother grandma granny nana 할머니 조모: 외할머니
friend colleague 친구 동료: mate buddy pal coworker neighbour teammate 이웃 단짝 동기
boss manager 상사 팀장: supervisor head lead chief director 부장 과장 대표 사장
pet animal 반려동물 애완동물: dog cat puppy kitten rabbit hamster parrot budgie tortoise turtle fish pony horse 강아지
 고양이 토끼 햄스터 앵무새 거북이 물고기
dog puppy 개 강아지 반려견 유기견: hound beagle poodle terrier retriever labrador lab greyhound whippet collie spaniel
 dachshund corgi pug husky shepherd bulldog boxer dalmatian mutt chihuahua 푸들 말티즈 진돗개 시바
cat kitten 고양이 냥이: tabby siamese persian ginger tomcat 길냥이
live reside home address residence 살고 살아 사세요 사나요 거주 집 주소: house flat apartment street road avenue lane
 crescent moved 사는 살아 아파트 빌라 동네 이사
come grow hometown origin birthplace born 고향 출신 태어: village town city 자랐
like prefer favourite favorite enjoy love preference 좋아 좋은 좋나 선호 편한 편하: rather keen fond thing fan better
 좋더 좋다 좋아 좋고 편해 편하 즐겨 즐기 취향
dislike hate avoid fear afraid scared 싫어 무서 두려: stand bear terrified nervous heights spiders phobia 질색 못하
 꺼려 겁
hobby pastime interest 취미 관심: play paint climb hike knit garden guitar piano pottery chess photography 그림 등산
 낚시 피아노 기타 독서
music song listen 음악 노래: jazz classical rock pop opera folk blues techno metal band album concert 재즈 클래식 록
 발라드 트로트
instrument 악기: guitar piano violin cello flute oboe clarinet trumpet drum saxophone harp 기타 피아노 바이올린 첼로
 플루트 드럼
sport exercise 운동 스포츠: football soccer tennis swim run yoga climb cycling gym marathon basketball 축구 야구 수영
 달리 요가
race 대회 경기: marathon triathlon sprint 마라톤
contact reach 연락 연락처 연락하: call phone mobile text email message mail number 전화 문자 메일 이메일 카톡 번호
phone number mobile 전화 전화번호 휴대폰 번호: cell landline ring call 연락 핸드폰
email address mail 이메일 메일 주소: gmail inbox example com 보내
day weekday 요일 무슨요일: monday tuesday wednesday thursday friday saturday sunday mondays weekend 월요일 화요일
 수요일 목요일 금요일 토요일 일요일 주말 평일
month 달 몇월: january february march april may june july august september october november december
season 계절: spring summer autumn fall winter 봄 여름 가을 겨울
date 날짜 며칠 언제: january february march april june july august september october november december
time hour clock 시간 몇시: am pm noon midnight oclock half quarter 오전 오후 아침 저녁 정오 자정
deadline due 마감 기한 제출: until before latest end 까지 늦어도
price cost fee charge budget money amount 가격 비용 금액 요금 예산: pay paid dollar euro pound won most spend 원 만 천
 냈
colour color 색 색깔 색상 무슨색: red blue green yellow black white grey gray purple pink orange brown beige navy
 lilac turquoise teal burgundy maroon cream gold silver violet indigo magenta 빨간 빨강 파란 파랑 초록 노란 노랑 검은
 검정 흰 하얀 회색 남색 보라 분홍 주황 갈색 베이지 하늘색 연두
size 크기 사이즈 치수: small medium large cm mm inch wide long tall number 센티 미터 인치 호 신어
width wide 폭 너비: cm gap across
weight weigh 무게 몸무게: kg kilo pound gram 킬로 그램
allergy allergic 알레르기: hives rash intolerant react peanut nut shellfish sesame gluten penicillin pollen 두드러기
 발진 견과류 땅콩 새우 복숭아
illness disease condition diagnosis 병 질병 질환 지병: diagnosed diabetes asthma migraine epilepsy arthritis cancer
 blood pressure heart 당뇨 천식 혈압 관절염 편두통 암 앓고 진단
medicine medication drug 약 약물 복용: pill tablet insulin inhaler aspirin warfarin ibuprofen antibiotic prescribed mg
 인슐린 흡입기 아스피린 처방
diet 식단 식성 음식: vegetarian vegan halal kosher gluten dairy meat fish eat 채식 비건 고기 생선 먹
food dish meal eat 음식 요리 먹: soup noodle rice pizza pasta curry bread cake 국수 밥 김치 찌개 빵
drink 음료 마시: coffee tea juice water beer wine milk 커피 차 주스 술 맥주 우유
language speak 언어 말: english korean spanish french german polish chinese japanese italian portuguese russian arabic
 영어 한국어 일본어 중국어 스페인어 프랑스어
car vehicle 자동차 차: van truck sedan toyota honda ford bmw volvo tesla 승용차 트럭 현대 기아
camera 카메라: canon nikon pentax leica fuji 후지 니콘 캐논
computer 컴퓨터: laptop desktop mac pc server 노트북 서버
bank account 은행 계좌: iban transfer card 카드 송금
school university study 학교 대학 전공: college degree course grade exam major 학과 수업 시험
religion faith 종교: church mosque temple 교회 성당 절
problem matter wrong fault 문제 상태 고장: broken fail failing stopped stuck leaking blink torn dead crash 말썽 죽어
 안 망가 멈춰
quit stop 그만 끊: left resigned gave 퇴사 끊었
buy purchase 구매 구입: bought order 샀 주문
send ship deliver 보내 발송 배송: courier parcel package post 택배 소포
exchange change swap 교환 환전 변경: convert switch 바꾸 바꿔 환율
return refund 반품 환불: back sent
trip travel vacation holiday 여행 휴가: journey flight hotel fly 출장 비행기 숙소
hotel accommodation stay 숙소 호텔: room hostel guesthouse 방 펜션
meeting appointment 회의 약속: call standup sync 미팅
seat 자리 좌석: aisle window 창가 복도
promise remind commitment 약속: will remind 다시 드리겠
people guest 인원 손님 몇명: adult kid us of 명 어른 아이
reason 이유 까닭: because since due 때문 해서
plan hope intend 계획 예정: want going next 생각 려고
employer employ company firm 회사 직장 고용: work job office boss salary wage paycheck paid startup agency corporation
 다니 근무 입사 이직 월급
salary wage income earn 월급 연봉 소득 급여: paycheck paid gross net month year won 만원 세전 세후
commute transport travel 통근 출퇴근 교통: tram bus train metro subway bike walk drive car door minutes 지하철 버스
 기차 자전거 걸어
coffee tea 커피 차를: roast espresso latte americano filter decaf brew beans mug 원두 라떼 에스프레소 아메리카노 드립
department major faculty subject 학과 전공 학부 무슨과: nursing medicine law economics physics chemistry biology
 history engineering 간호학 경영학 공학 의학 법학 경제학 심리학 국문학 영문학 컴퓨터
secret surprise know 비밀 알면 모르게: tell hear mention word whisper keep 말하면 얘기 귀에 들어가
birthday born age old 생일 나이 몇살 태어: turn turning year birthdate anniversary 살이 돌잔치 환갑 생신
wedding marriage 결혼 결혼식: bride groom married marry engaged bridesmaid anniversary 신랑 신부 약혼 기념일
sleep wake bed 자요 기상 취침 잠을: night morning early late alarm nap insomnia 일어나 늦잠 불면
book read 책을 독서: novel author library chapter poem 소설 작가 시집 만화
film movie watch show series 영화 드라마: cinema episode season comedy thriller horror documentary anime 극장 시리즈
 예능 다큐
game play 게임: console chess cards board puzzle playstation nintendo xbox 보드게임 닌텐도
clothes clothing wear 옷을 의류 복장: shirt dress jacket coat trousers jeans shoes boots hat suit 셔츠 바지 치마 코트
 구두 운동화 모자
shoe shoes 신발 구두: boot trainer sneaker sandal size 운동화 부츠
room 방은 공간: kitchen bedroom bathroom living garage attic cellar balcony 부엌 거실 침실 화장실 베란다 창고
furniture 가구: sofa table chair desk bed shelf wardrobe cupboard 소파 책상 의자 침대 책장 옷장
appliance machine device 기기 가전 기계: washer dishwasher fridge oven microwave dryer boiler vacuum printer 세탁기
 냉장고 오븐 청소기 보일러 건조기 프린터
password code pin 비밀번호 암호: door wifi lock gate entrance 현관 와이파이
reservation booking book 예약: confirmation code table flight reference 확인 항공권
insurance 보험: policy premium claim cover 가입 보상 실비
subscription plan contract 구독 요금제 계약: monthly yearly renew cancel 해지 갱신 약정
delivery address 배송지: ship door parcel doorstep 현관 경비실 문앞
team colleague group 팀은 부서: member people staff 팀원 인원
client customer 고객 거래처: account company buyer 업체
doctor dentist clinic hospital 병원 의원 진료: appointment surgeon nurse checkup 치과 내과 외과 예약 검진
body injury hurt pain 통증 부상 아프 다친: back knee shoulder ankle wrist neck broke sprained 허리 무릎 어깨 발목 손목
 목을
animal: cow sheep goat chicken duck bird bee 소를 닭을 오리 새를
garden plant grow 정원 식물 키우: tomato rose tree flower herb seedling lawn orchid 토마토 장미 나무 화분 모종 난초
drive driver 운전: driven car bus tram truck taxi van licence 면허 버스 택시 트럭
"""


@lru_cache(maxsize=1)
def _related() -> dict[str, frozenset[str]]:
    """What each term asks for: a concept's name for all of its words, and a word for its concept's names."""
    related: dict[str, set[str]] = {}
    for entry in _CONCEPTS.strip().replace("\n ", " ").splitlines():
        names, members = ({_term(word) for word in part.split() if len(word) > 1} for part in entry.split(":"))
        for name in names:
            related.setdefault(name, set()).update(names | members)
        for member in members - names:
            related.setdefault(member, set()).update(names)
    return {term: frozenset(others - {term}) for term, others in related.items()}


def _term(word: str) -> str:
    return next(term for term in analyze(word) if len(term) > 1)


def related_terms(terms: Iterable[str]) -> set[str]:
    """The terms that an answer may use for these, without these; empty for words that are no everyday concept's."""
    given = set(terms)
    table = _related()
    return {other for term in given for other in table.get(term, ())} - given
