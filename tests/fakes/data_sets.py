"""Made-up data sets, each in the exact shape of its format."""

from typing import Any


def locomo_turn(turn_id: str, text: str, speaker: str = "Ines") -> dict[str, Any]:
    return {"dia_id": turn_id, "text": text, "speaker": speaker, "img_url": ["ignored"]}


def locomo(**changes: Any) -> list[dict[str, Any]]:
    conversation = {
        "speaker_a": "Ines",
        "session_10": [locomo_turn("D10:1", "Later.")],
        "session_2": [locomo_turn("D2:1", "Second."), locomo_turn("D2:2", "Third.", "Omar")],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_3_date_time": "a date without turns",
        "session_1": [locomo_turn("D1:1", "First.")],
    }
    return [{"sample_id": "talk", "conversation": conversation | changes, "qa": []}]


BEAM_CHAT: list[dict[str, Any]] = [
    {
        "batch_number": 1,
        "time_anchor": None,
        "turns": [
            [
                {
                    "id": 0,
                    "role": "user",
                    "time_anchor": "May-02-2024",
                    "index": "1,1",
                    "question_type": "main_question",
                    "content": "My quiz app listens on port 81.",
                },
                {"id": 1, "role": "assistant", "content": "Noted: port 81."},
            ],
            [{"id": 2, "role": "user", "content": "The deadline is in June."}],
        ],
    },
    {
        "batch_number": 2,
        "time_anchor": "June-10-2024",
        "turns": [
            [
                {"id": 3, "role": "user", "content": "The quiz app moved to port 90."},
                {"id": 4, "role": "assistant", "content": "Changed to 90."},
            ]
        ],
    },
]

BEAM_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "abstention": [{"question": "Who designed the logo?", "ideal_response": "Unknown."}],
    "contradiction_resolution": [
        {
            "question": "Which port does the quiz app use?",
            "ideal_answer": "90",
            "source_chat_ids": {"first_statement": [0], "second_statement": [3]},
        }
    ],
    "event_ordering": [
        {"question": "In which order?", "answer": "81, 90", "source_chat_ids": [[0, 1], [3]]}
    ],
    "information_extraction": [
        {"question": "Which port at first?", "answer": 81, "source_chat_ids": [0], "rubric": ["81"]}
    ],
    "instruction_following": [
        {"question": "What of it?", "expected_compliance": "x", "source_chat_ids": []}
    ],
    "knowledge_update": [
        {
            "question": "Which port now?",
            "answer": "90",
            "source_chat_ids": {"original_info": [0], "updated_info": [3, 99]},
        }
    ],
    "multi_session_reasoning": [],
    "preference_following": [],
    "summarization": [{"question": "Sum it up", "ideal_summary": "Ports.", "source_chat_ids": [1]}],
    "temporal_reasoning": [],
}


def longmemeval(question_id: str = "q1", **changes: Any) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "question_type": "multi-session",
        "question": "Where do I climb?",
        "answer": "at the quarry",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["answer_7", "noise_1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/11 (Thu) 08:00"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I climb at the quarry.", "has_answer": True},
                {"role": "assistant", "content": "Which grade?", "has_answer": False},
            ],
            [{"role": "user", "content": "Tell me about bread."}],
        ],
        "answer_session_ids": ["answer_7"],
    } | changes


MSC: dict[str, Any] = {
    "previous_dialogs": [
        {"time_back": "2 days ago", "dialog": [{"text": "I keep bees."}, {"text": "Nice."}]}
    ],
    "dialog": [{"id": "Speaker 1", "text": "Hi again."}],
    "self_instruct": {"B": "What do I keep?", "A": "Bees."},
    "metadata": {"initial_data_id": "x_1", "session_id": 1},
}


def own(**changes: Any) -> dict[str, Any]:
    return {
        "id": "ann",
        "level": "turn",
        "sessions": [
            {
                "id": "s1",
                "date": "2024-05-02",
                "turns": [
                    {
                        "id": "t1",
                        "author": "user",
                        "text": "I moved to Graz.",
                        "ts": 1714640400,
                    },
                    {"id": "t2", "author": "assistant", "text": "How is the flat?"},
                ],
            },
            {"id": "s2", "date": None, "turns": [{"author": "user", "text": "My cat is ill."}]},
        ],
        "questions": [
            {"q": "Where does she live?", "evidence": ["t1"], "category": "fact", "answer": "Graz"},
            {"q": "Who is her dentist?", "evidence": []},
        ],
    } | changes
