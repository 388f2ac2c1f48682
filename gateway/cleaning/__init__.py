"""Markdown, emoji, links and the like taken out of text that is to be said."""

from .cleaner import Cleaner as Cleaner
