"""Ranking: how a memory's words and vector become one score.

Lexical score: BM25F (Robertson, Zaragoza, Taylor 2004) with Lucene's idf, over a memory's own
words and date at weight 1 and its neighbouring turns' words at less. The answer to a question often
sits one turn after the words that the question shares, so neighbours add much (recall@10 on LoCoMo
0.64 without, 0.77 with them, words alone).

Fused score: the lexical score over the best one, plus the cosine, scaled to [0, 1] over the
candidates, at a weight, plus what the question says of when and by whom. The weight follows what
each way has to say: it grows as the best memory covers less of the question's words, and ends
where the model tells nothing apart, as an English one in Chinese. Reciprocal ranks are not used:
they throw away how much better a hit is, and recall less than the words alone do (0.55, 0.64).

Each constant names the data sets that speak for it: LoCoMo (conversations 1 to 5), MADial and
MemoryBank (English and Chinese), LifeBench (English and Chinese), QMSum; see docs/retrieval.md.
Figures are of recall@10 unless said. What only bounds the work says what it was measured for, and
what no data set speaks for says that it was chosen.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranking:
    """The constants of the ranking; the defaults are measured (see docs/retrieval.md).

    Attributes:
      k1: Saturation of a word's frequency. (LoCoMo: 0.6 to 1.2 within 0.004.)
      b: How much a long turn's words count less, in [0, 1]. Low, since a memory's neighbours
        are part of it while its own length is what is compared. (LoCoMo: 0 to 0.2 within 0.002,
        0.4 less by 0.007.)
      previous: Weights of the words of the turn before, and of those before that; and
      following: of the turns after. (LoCoMo +0.016 against one turn before and one after.)
      answer: How much more the words of the turn before weigh, if that turn asks. (LoCoMo +0.006,
        MRR +0.010.)
      thin: A turn of this many words has half of its score, unless it answers one that asks:
        short turns tell little. (LoCoMo MRR +0.022.)
      question: Factor of a turn that asks, since it answers nothing. (LoCoMo +0.007, MRR +0.022.)
      long_turn: A turn of more words counts less, by this over its words to the power of
      long_turn_power: this, or long answers, which have some of any question's words, crowd out the
        short turns that tell. (LifeBench +0.04 with `lends`, BEAM, which was not used to choose
        other constants, +0.13; nothing changes for the short turns of LoCoMo.)
      lends: Of a turn of more words, its neighbours get as much less of each. (As above; QMSum
        +0.01.)
      vector: Weight of the scaled cosine against the scaled lexical score. (LoCoMo: 0.5 to 1.25
        within 0.007.)
      covered: If the best memory covers less of the question than this, the cosine weighs as much
        more as is missing, up to
      most_vector: this many times. (MADial MRR +0.05; LoCoMo, QMSum, LifeBench unchanged.)
      silent: Of the lowest cosine among the candidates, scaled from the floor to 1: below the first
        the cosine has its weight, above the second, if the model does not know the question's
        language,
      least_vector: this share of it, which orders what words do not. (MADial-zh +0.04,
        MemoryBank-zh MRR +0.08 with an English model; English sets unchanged.)
      dated: What a memory of a time that the question names gains. Such memories are candidates,
        and hits with nothing else. (LifeBench +0.15, MemoryBank +0.04 / +0.08, LoCoMo unchanged.)
      most_dated: As many memories of such a time are candidates; if there are more, none is for
        that alone. (Chosen, to bound the work.)
      dated_share: A time that more than this share of the memories is of says nothing. (Chosen.)
      said_by: What a memory gains by being said by whom the question names. (MemoryBank MRR +0.08.)
      candidates: Best memories of each way that are scored on both; more if more are asked for.
        (LoCoMo: 30 to 400 within 0.003.)
      leading_postings: The question's rarest words lead to memories, up to this many occurrences;
        its other words count for those memories alone. (Bounds the work, with
      promising: As many memories as promise most by the leading words are scored on all. A hybrid
        search of 50,000 memories 120 to 70 ms. 200 recall as much of turns, but of notes most are
        places beside them, where nothing is.)
      nearest: How many of the nearest are hits with little else,
      near: if their cosine, scaled from the floor to 1, is this at least. (LoCoMo: 6.9 hits of 20
        of foreign questions instead of 6.2; of twenty paraphrases in 30 memories none is lost.)
      relevance: A hit's scaled cosine and the share of the question's words that it covers are at
        least this times ln(n / small_scope), of n memories, but never need to be more than
      enough: this. (LoCoMo: with the next 6.2 hits of 20 of foreign questions instead of 19.5,
        recall unchanged.)
      small_scope: Up to this many memories chance finds nothing. (LoCoMo, as above.)
      above_usual: If even the lowest cosine among the candidates is above the floor, as in a
        language that it was not measured in, the floor of the bar is their mean and as many
        standard deviations. (Foreign questions in Chinese: 6 to 17 hits of 20 instead of 20;
        English sets unchanged.)
      best_of_question: As many of the best by the fused score are hits with little else, if their
        cosine is the floor at least. (LoCoMo: 7.5 hits of 20 of foreign questions instead of 5.9.)
      best_of_statement: The same for a message that is no question, with a cosine not further than
        `near` below the floor: what it recalls shares a theme with it and often no word. (MADial
        +0.12; LoCoMo's questions without their mark: 11.6 hits of 20 when foreign.)
      usual_turn: Mean length of turns, in words, above which chance covers more of a question;
      rising: there the bar rises by this times the logarithm of how much longer they are, with each
        ten hits after
      sure: the first ones. (LifeBench: 27 hits of 50 of unanswerable questions instead of 50, at
        recall@40 -0.005.)
      relevance_of_words: For words alone: at least this times ln n, of more than a small scope.
        (LoCoMo: 11.3 hits of 20 of foreign questions instead of 17.7, -0.001.)
      best_of_words: For words alone: as many of the best, of the user's own, are hits with less, if
        they cover
      share_of_best: of what the best of them covers, this share. (MADial: 6 of 160 messages find
        nothing instead of 17, +0.011; hits of foreign questions 4.0 of 20 instead of 3.4, LoCoMo
        9.7 instead of 9.3.)
      telling: Of a long question, words as rare as this many unknown ones are the whole. (LoCoMo's
        questions amid two others: 0.704 instead of 0.538.)
      updates_among: Among as many first hits, the newer of two turns that speak of the same thing
        comes first (updates.py),
      updated: if its score is at least this share of the older one's,
      alike: they have this share of the shorter one's words in common,
      same_question: and of the question's words that either has, this share. (Updated values: newer
        first for 18 of 24 pairs instead of 11, 6 of 10 instead of 2 in Chinese; MRR of LoCoMo,
        MemoryBank unchanged within their intervals.)
      superseded: Where facts say that one hit replaces another, it comes first if its score is at
        least this share. (Updated values: newer first for all of 24 English pairs.)
      gathered: Most memories that are gathered for what is spread over many,
      gathered_tokens: and most tokens of them, unless the caller says how many. (LoCoMo: recall
        0.936 in 4,000 tokens instead of the best 40's 0.906.)
      coarse: For vectors above 1,024 dimensions, how many best by sign bits are compared whole. (Of
        clustered vectors 95 % of the ten nearest at least.)
      importance_factors: What the score of a memory of importance 0 and 1 is multiplied by; linear
        between, so that the default of 0.5 changes nothing. (Chosen: no data set has importance.)
    """

    k1: float = 0.9
    b: float = 0.2
    previous: tuple[float, ...] = (0.5, 0.4, 0.3)
    following: tuple[float, ...] = (0.4, 0.3)
    answer: float = 0.3
    thin: float = 4
    question: float = 0.8
    long_turn: float = 40
    long_turn_power: float = 0.5
    lends: float = 30
    vector: float = 0.75
    covered: float = 0.6
    most_vector: float = 3
    silent: tuple[float, float] = (-0.1, 0.1)
    least_vector: float = 0.1
    dated: float = 0.5
    most_dated: int = 400
    dated_share: float = 0.5
    said_by: float = 0.3
    candidates: int = 100
    leading_postings: int = 2000
    promising: int = 400
    nearest: int = 2
    near: float = 0.125
    updates_among: int = 10
    updated: float = 0.8
    alike: float = 0.4
    same_question: float = 0.6
    superseded: float = 0.3
    gathered: int = 400
    gathered_tokens: int = 4000
    coarse: int = 400
    relevance: float = 0.1
    small_scope: float = 30
    above_usual: float = 1
    enough: float = 0.3
    best_of_question: int = 5
    best_of_statement: int = 10
    usual_turn: float = 25
    rising: float = 0.3
    sure: int = 15
    relevance_of_words: float = 0.025
    best_of_words: int = 5
    share_of_best: float = 0.5
    telling: float = 2
    importance_factors: tuple[float, float] = (0.75, 1.25)

    @property
    def spread(self) -> list[tuple[int, float]]:
        """What a word counts for the memory at its own place plus each shift."""
        return [
            (0, 1.0),
            *enumerate(self.previous, 1),
            *((-place, weight) for place, weight in enumerate(self.following, 1)),
        ]


RANKING = Ranking()
