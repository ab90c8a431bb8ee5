"""The agent that the tests serve: copied into their agents folder, it needs nothing but ADK."""

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.load_memory_tool import load_memory
from google.genai import types


class Parrot(BaseLlm):
    """Answers from nothing but what it is sent.

    "Recall X" calls `load_memory`; anything else is repeated with the number of user turns seen.
    """

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        answer = self._answer(llm_request.contents)
        text = answer.text
        if stream and text:
            for word in text.split():
                yield _response(types.Part(text=f"{word} "), partial=True)
        yield _response(answer)

    def _answer(self, contents: list[types.Content]) -> types.Part:
        parts = contents[-1].parts or []
        for part in parts:
            if part.function_response is not None:
                return types.Part(text=_found(part.function_response))
        said = " ".join(part.text or "" for part in parts)
        if said.startswith("Recall "):
            return types.Part(
                function_call=types.FunctionCall(
                    name="load_memory", args={"query": said.removeprefix("Recall ")}
                )
            )
        turns = sum(content.role == "user" for content in contents)
        return types.Part(text=f"Turn {turns}: {said}")


def _found(response: types.FunctionResponse) -> str:
    # Within its own turn the response still holds the tool's objects.
    memories = response.model_dump(mode="json")["response"]["result"]["memories"]
    texts = [part["text"] for memory in memories for part in memory["content"]["parts"]]
    return f"You said: {'; '.join(texts)}" if texts else "I do not know."


def _response(part: types.Part, *, partial: bool = False) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=[part]), partial=partial)


root_agent = LlmAgent(
    name="assistant", model=Parrot(model="parrot"), tools=[load_memory], output_key="last_answer"
)
