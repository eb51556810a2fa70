"""The only asynchronous code of this program: two listeners, one for providers, one for people and scripts."""
