"""HTTP: what services that rerank are asked through."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx

from adkpg.embedding.clients import LoopClients
from adkpg.embedding.embedder import well_formed
from adkpg.errors import ConfigurationError, ModelError

MAX_PASSAGE_BYTES = 8_000
"""How many bytes of each passage and question are sent, as UTF-8; models read less."""

_ANSWER_BYTES = 64_000
# Some services send the passages back, in which a letter of three bytes may be escaped by six.
_ANSWER_TIMES = 2


class Service:
    """A service at one address; each event loop has its own connections, closed with the loop.

    Args:
      model: The reranker's name, for messages.
      url: Where requests are posted to.
      headers: Sent with each.
      timeout_s: How long one request may take.

    Raises:
      ConfigurationError: The address is none.
    """

    def __init__(
        self, model: str, url: str, headers: Mapping[str, str], *, timeout_s: float
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"The address of reranker {model!r} does not begin with http:// or https://; "
                "correct it."
            )
        if timeout_s <= 0:
            raise ConfigurationError(
                f"timeout_s of reranker {model!r} is {timeout_s}; give seconds above 0."
            )
        self._model = model
        self._url = url
        self._headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            **headers,
        }
        self._timeout_s = timeout_s
        self._clients = LoopClients(self._connect)

    async def post(self, body: Mapping[str, Any]) -> Any:
        """Posts JSON, and returns the answer's.

        An answer of more than twice what was asked, and 64 kB, is not read to its end: parsing
        megabytes would hold the event loop up for longer than a search waits.

        Raises:
          httpx.HTTPError: There was no answer, or a refusal.
          ModelError: The answer is not JSON, or too long.
        """
        client = await self._clients.get()
        asked = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        most = _ANSWER_TIMES * len(asked) + _ANSWER_BYTES
        answer = bytearray()
        async with client.stream("POST", self._url, content=asked, headers=self._headers) as found:
            found.raise_for_status()
            # Pieces are small, and not compressed: none is of megabytes by itself.
            async for piece in found.aiter_bytes():
                answer += piece
                if len(answer) > most:
                    raise ModelError(
                        f"Reranker {self._model!r} answered more than {most // 1_000} kB, which "
                        "scores are not; check its address."
                    )
        try:
            return json.loads(answer)
        except ValueError as exc:
            raise ModelError(
                f"Reranker {self._model!r} answered something else than JSON; check its address."
            ) from exc

    async def close(self) -> None:
        """Closes the running loop's connections now rather than at its end."""
        await self._clients.close()

    async def _connect(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        # Reading the authorities' certificates holds the event loop up, and http needs none.
        verify = self._url.startswith("https://")
        async with httpx.AsyncClient(timeout=self._timeout_s, verify=verify) as client:
            yield client


def sent(text: str) -> str:
    """Returns a text as it may be sent."""
    return well_formed(text, MAX_PASSAGE_BYTES)


def by_index(model: str, entries: Any, name: str, count: int) -> list[float]:
    """Returns the scores of an answer's entries, in the order of the passages.

    Args:
      model: The reranker's name, for messages.
      entries: Objects with an ``index`` and a score.
      name: The score's field.
      count: How many passages were asked about.

    Raises:
      ModelError: They are not one for each passage.
    """
    found: dict[int, float] = {}
    try:
        for entry in entries:
            found[int(entry["index"])] = float(entry[name])
    except (TypeError, KeyError, ValueError) as exc:
        raise ModelError(
            f"Reranker {model!r} answered without index and {name} of each passage; check its "
            "address."
        ) from exc
    if found.keys() != set(range(count)):
        raise ModelError(
            f"Reranker {model!r} scored {len(found)} of {count} passages; ask for fewer at a time."
        )
    return [found[place] for place in range(count)]
