"""Words of any language: scripts without spaces, endings, numbers; a configuration for an app."""

import asyncio

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from adkpg import Database, PgVectorMemoryService, set_text_search_config, text_search_config

SAID = (
    "我对花生过敏。",
    "หมาที่บ้านชื่อโบโบ้ อายุสามขวบแล้ว",
    "Я купила билеты на поезд.",
    "Order #9981 is delayed until next week.",
    "Die Häuser am Hafen sind verkauft.",
)
ASKED = ("花生", "หมาชื่ออะไร", "билет", "What about order-9981?", "Haus")


async def ask(memory: PgVectorMemoryService, app_name: str, query: str) -> None:
    """Prints what the words of a question find."""
    hits = await memory.search(app_name=app_name, user_id="ana", query=query, mode="text")
    said = [part.text for hit in hits for part in hit.memory.content.parts or []]
    print(f"{query}: {', '.join(text or '' for text in said) or 'nothing'}")


async def main() -> None:
    """Remembers five languages; gives an app in German its own configuration."""
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db, mode="text")
        for app_name in ("polyglot", "hafen"):
            await memory.add_memory(
                app_name=app_name,
                user_id="ana",
                memories=[
                    MemoryEntry(id=text, content=types.Content(parts=[types.Part(text=text)]))
                    for text in SAID
                ],
            )
        for query in ASKED:
            await ask(memory, "polyglot", query)

        await set_text_search_config(db, app_name="hafen", config="german")
        print(f"In an app that is read as {await text_search_config(db, app_name='hafen')}:")
        await ask(memory, "hafen", "Haus")


if __name__ == "__main__":
    asyncio.run(main())
