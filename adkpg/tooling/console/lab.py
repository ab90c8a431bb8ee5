"""Lab: a question's hits with their reasons, two settings side by side, and saved questions."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from adkpg.errors import InvalidInput, ModelError, ModelNotActive
from adkpg.memory.filters import KINDS
from adkpg.memory.records import text_of
from adkpg.memory.search.hits import Hit
from adkpg.memory.search.options import MODES, SearchOptions
from adkpg.memory.service import PgVectorMemoryService
from adkpg.tooling.console import forms
from adkpg.tooling.console.cuts import Cut, arguments, cuts
from adkpg.tooling.console.page import Console, back_to, form_of, person, query_of
from adkpg.tooling.console.people import filters_of
from adkpg.tooling.evaluation import Evaluation, SavedQuestion, evaluate_stored, parsed

_FIGURES = ("recall@5", "recall@10", "recall@20", "MRR", "NDCG@10")


@dataclass(frozen=True)
class Answer:
    """What one setting found.

    Attributes:
      title: The setting's.
      call: The options that differ from the service's own, as Python writes them.
      hits: As `search` returned them.
      moved: By the id of a memory, how many places it stands higher than under the other setting;
        None if the other does not have it.
      most: The largest of each reason among these hits, which fills a bar.
      words_alone: Why vectors had no part, if they had none.
      own_alone: Why what the app knows had no part, if it was asked for and had none.
      fused_alone: Why a reranker had no part, if the service has one and it had none.
      model: What is to be known of its model, if the app is searched with another.
    """

    title: str
    call: str
    hits: list[Hit]
    moved: dict[str | None, int | None]
    most: dict[str, float]
    words_alone: str | None
    own_alone: str | None
    fused_alone: str | None
    model: str | None


async def show(console: Console, request: Request) -> Response:
    """Asks a question under one setting, or under two."""
    fields = query_of(request)
    query = fields.get("q", "").strip()
    compared = bool(fields.get("compare"))
    answers: list[Answer] = []
    left_out: list[Cut] = []
    with person(fields) as (app_name, user_id):
        if query:
            settings = ("a", "b") if compared else ("a",)
            services = [_service(console, fields, each) for each in settings]
            asked = [
                _options(
                    fields,
                    each,
                    service.options,
                    # Of two models the vectors of both are compared, whichever agents ask.
                    inactive_model=len(set(services)) > 1 or service is not console.memory,
                )
                for each, service in zip(settings, services, strict=True)
            ]
            found = [
                await service.search(
                    app_name=app_name, user_id=user_id, query=query, **arguments(options)
                )
                for service, options in zip(services, asked, strict=True)
            ]
            for place, title in enumerate(settings):
                other = found[1 - place] if compared else None
                call = _call(asked[place], services[place].options)
                note = await _model_note(services[place], app_name, user_id, query, asked[place])
                answers.append(_answer(title.upper(), call, found[place], other, note))
            left_out = await cuts(
                services[0],
                app_name=app_name,
                user_id=user_id,
                query=query,
                options=asked[0],
                hits=found[0],
            )
        saved = await console.saved.list(app_name=app_name, user_id=user_id)
        evaluation = None
        if fields.get("evaluate") and any(question.evidence for question in saved):
            evaluation = await _evaluate(console, app_name, user_id, saved)
    return console.page(
        request,
        "lab.html",
        app_name=app_name,
        user_id=user_id,
        query=query,
        fields=fields,
        compared=compared,
        answers=answers,
        cuts=left_out,
        saved=saved,
        evaluation=evaluation,
        figures=_FIGURES,
        modes=MODES,
        kinds=KINDS,
        services=list(console.services),
        text_of=lambda found: text_of(found.content),
        zip=zip,
    )


async def save(console: Console, request: Request) -> Response:
    """Saves a question with the memories that are expected."""
    fields = form_of(request)
    evidence = [value for name, value in fields.items() if name.startswith("evidence-")]
    evidence += forms.words(fields, "more")
    with person(fields) as (app_name, user_id):
        async with console.changing(
            request, app_name=app_name, user_id=user_id, action="save_question"
        ):
            await console.saved.add(
                app_name=app_name,
                user_id=user_id,
                text=forms.required(fields, "q"),
                evidence=evidence,
            )
    return back_to(request, "lab", app=app_name, user=user_id, evaluate="1")


async def unsave(console: Console, request: Request) -> Response:
    """Deletes a saved question."""
    fields = form_of(request)
    question_id = forms.required(fields, "question")
    with person(fields) as (app_name, user_id):
        async with console.changing(
            request,
            app_name=app_name,
            user_id=user_id,
            action="delete_question",
            subject=question_id,
        ):
            await console.saved.delete(app_name=app_name, user_id=user_id, question_id=question_id)
    return back_to(request, "lab", app=app_name, user=user_id)


async def file(console: Console, request: Request) -> Response:
    """Answers with the saved questions as `adkpg memory evaluate` reads them."""
    with person(query_of(request)) as (app_name, user_id):
        saved = await console.saved.list(app_name=app_name, user_id=user_id)
    text = json.dumps([question.document() for question in saved], ensure_ascii=False, indent=1)
    return Response(
        text.encode(errors="replace") + b"\n",
        media_type="application/json",
        headers={"Content-Disposition": 'attachment; filename="questions.json"'},
    )


def _service(console: Console, fields: Mapping[str, str], setting: str) -> PgVectorMemoryService:
    name = fields.get(f"{setting}_model") or next(iter(console.services))
    if name not in console.services:
        raise InvalidInput(f"There is no memory service {name[:60]!r}; choose one of the list.")
    return console.services[name]


async def _model_note(
    service: PgVectorMemoryService,
    app_name: str,
    user_id: str | None,
    query: str,
    options: SearchOptions,
) -> str | None:
    """Says of a model that the app is not searched with whether its vectors are there."""
    if not options.inactive_model or options.mode == "text" or service.embedder is None:
        return None
    anything = SearchOptions(mode="vector", top_k=1, min_relevance=0.0)
    asked: dict[str, Any] = {"app_name": app_name, "user_id": user_id, "query": query}
    try:
        found = await service.search(**asked, **arguments(anything))
        exc: Exception | None = None
    except ModelNotActive as refused:
        exc = refused
        found = await service.search(**asked, **arguments(replace(anything, inactive_model=True)))
    except ModelError:
        return None  # the hits say so
    if found:
        return None if exc is None else f"Its vectors are compared all the same. {exc}"
    return (
        f"No memory here has a vector of {service.embedder.model!r}, so words alone answer: "
        "adkpg reembed --model makes them and changes the app over; adkpg models activate goes "
        "back to the model before. The vectors of both then stay, until adkpg models drop."
    )


def _options(
    fields: Mapping[str, str], setting: str, usual: SearchOptions, *, inactive_model: bool
) -> SearchOptions:
    """Reads one setting, of which the service's own options are the rest.

    Raises:
      InvalidInput: A value cannot be read, or is out of range.
    """

    def named(name: str) -> str:
        return f"{setting}_{name}"

    given: dict[str, Any] = {
        "mode": fields.get(named("mode")) or None,
        "half_life": forms.span(fields, named("half_life")),
        "top_k": forms.whole_or_none(fields, named("top_k")),
        "min_relevance": forms.decimal(fields, named("min_relevance")),
        "max_tokens": forms.whole_or_none(fields, named("max_tokens")),
        "neighbours": forms.whole_or_none(fields, named("neighbours")),
    }
    filters = filters_of(fields)
    return usual.changed(
        filters=filters if filters.asked else None, inactive_model=inactive_model or None, **given
    )


def _call(options: SearchOptions, usual: SearchOptions) -> str:
    return ", ".join(
        f"{name}={value!r}"
        for name, value in arguments(options).items()
        if value != getattr(usual, name)
    )


def _answer(
    title: str, call: str, hits: list[Hit], other: list[Hit] | None, model: str | None
) -> Answer:
    before = {hit.memory.id: place for place, hit in enumerate(other or [])}
    moved: dict[str | None, int | None] = {}
    if other is not None:
        for place, hit in enumerate(hits):
            stood = before.get(hit.memory.id)
            moved[hit.memory.id] = None if stood is None else stood - place
    reasons = [hit.reason for hit in hits]
    return Answer(
        title,
        call,
        hits,
        moved,
        {
            "score": max((reason.score for reason in reasons), default=0),
            "lexical": max((reason.lexical for reason in reasons), default=0),
            "rerank": max((reason.rerank or 0 for reason in reasons), default=0),
        },
        next((reason.words_alone for reason in reasons if reason.words_alone), None),
        next((reason.own_alone for reason in reasons if reason.own_alone), None),
        next((reason.fused_alone for reason in reasons if reason.fused_alone), None),
        model,
    )


async def _evaluate(
    console: Console, app_name: str, user_id: str | None, saved: list[SavedQuestion]
) -> Evaluation:
    memory = console.memory
    return await evaluate_stored(
        parsed([question.document() for question in saved]),
        memory=memory,
        app_name=app_name,
        user_id=user_id,
        modes=MODES if memory.embedder is not None else ("text",),
    )
