"""Makes adkpg:// known to adk web and adk api_server."""

from adkpg.adk import register

register()
