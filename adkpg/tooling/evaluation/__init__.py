"""Evaluation: how well memory recalls, on a data set's own file or on a team's own questions.

::

    data = read(Path("questions.json"))
    found = await evaluate_stored(data, memory=memory, app_name="support", user_id="ana")
    print(found.reports["hybrid"].estimates["recall@10"].mean)

`evaluate_stored` asks what is stored and writes nothing; `evaluate_apart` remembers a data set's
conversations in a database of its own, which it drops. ``adkpg memory evaluate`` is both.
"""

from adkpg.tooling.evaluation.dataset import Chat, DataSet, Question, Store, Turn
from adkpg.tooling.evaluation.evaluation import Evaluation, Miss, evaluate_apart, evaluate_stored
from adkpg.tooling.evaluation.figures import Estimate, Report, Unanswered
from adkpg.tooling.evaluation.reading import parsed, read
from adkpg.tooling.evaluation.saved import SavedQuestion, SavedQuestions

__all__ = [
    "Chat",
    "DataSet",
    "Estimate",
    "Evaluation",
    "Miss",
    "Question",
    "Report",
    "SavedQuestion",
    "SavedQuestions",
    "Store",
    "Turn",
    "Unanswered",
    "evaluate_apart",
    "evaluate_stored",
    "parsed",
    "read",
]
