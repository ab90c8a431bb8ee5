"""What an app knows for all its users: a document alongside what was said by one of them."""

import asyncio
from pathlib import Path

from adkpg import Database, PgVectorMemoryService, SearchFilters
from adkpg.documents import Documents

APP = "shop"
RETURNS = Path(__file__).parent / "knowledge" / "returns.md"


async def main() -> None:
    """Adds a document twice, the second time with a change, and asks about it."""
    async with Database() as db:
        await db.upgrade()
        memory = PgVectorMemoryService(db)
        documents = Documents(memory)
        text = RETURNS.read_text(encoding="utf-8")
        for version in (text, text.replace("five working days", "three working days")):
            report = await documents.add(
                app_name=APP, source="returns.md", text=version, topics=["policy"]
            )
            print(report)
        hits = await memory.search(
            app_name=APP,
            user_id="ana",
            query="How long does a refund take?",
            filters=SearchFilters(kinds=["document"], topics=["policy"]),
            top_k=1,
        )
        for hit in hits:
            said = hit.memory.content.parts[0].text if hit.memory.content.parts else ""
            print(f"{hit.memory.source}: {said}")
        await documents.delete(app_name=APP, source="returns.md")


if __name__ == "__main__":
    asyncio.run(main())
