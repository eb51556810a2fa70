"""Keeps a PostgreSQL mirror of objects that live at Stripe, Shopify and GitHub provably right."""

__version__ = "0.1.0"
