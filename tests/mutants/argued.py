"""Changes that make no difference, and why."""

from __future__ import annotations

# How their line begins, what was done to it, and why.
ARGUED: tuple[tuple[str, str, str], ...] = (
    ("FURTHEST = timedelta", "25 became 26", "anything beyond the last look a day after will do"),
    ("_ANY_SHAPE = 2**31", "1 became 2", "anything beyond every shape will do"),
    ("digest = hashlib.sha256", "16 became 17", "any length tells shapes apart"),
    ("if incoming is None or incoming < stored", "Lt became LtE", "equal stamps are told apart above it"),
    ("if first is None or first.ended_at > now", "Gt became GtE", "one that ended this very instant may begin anew"),
    ("if first is None or first.ended_at > now", "LtE became Lt", "no two reads end at one position"),
    ("beyond = max(positions, default=0)", "0 became 1", "no position is below one"),
    ("if beyond >= (self.position", "GtE became Gt", "the next number to be drawn is beyond an equal one"),
    ("reached = began is not None", "And became Or", "a reread that leaves nothing new is left out under the lock"),
    ("if mentioned.stamp is not None and (about", "Gt became GtE", "of two mentions with one stamp either will do"),
)
