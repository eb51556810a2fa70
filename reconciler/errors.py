"""
What can go wrong, sorted by what the caller should do about it.

    ReconcilerError
    ├── ConfigError              stop before doing anything: exit code 2, every fault at once
    │   └── NotAdopted           change nothing, here or at a provider, until a person adopts this copy
    ├── Forgotten                it is not read again, whoever asks
    ├── DatabaseUnavailable      ask again later; what was not committed was not acknowledged
    ├── DeliveryRejected         answer 4xx, keep nothing
    │   ├── SignatureInvalid
    │   └── DeliveryMalformed
    └── SourceError              a provider did not give us what we asked for
        ├── SourceUnavailable    ask again later
        │   └── SourceBusy       ask again later; nobody's attempt is counted
        ├── AccessLost           the scope cannot be seen: pause it, alarm, delete nothing
        └── SourceRefused        asking again will not help: dead-letter it

An object that no longer exists is not an error; it is a Snapshot without a body.
"""


class ReconcilerError(Exception):
    """Anything this program says in a sentence instead of a traceback."""


class ConfigError(ReconcilerError):
    """
    The configuration, the database or the command line cannot be used as it is.

    Attributes:
        faults: One sentence each: the key or thing, the value where it is no secret, and the way out.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class NotAdopted(ConfigError):
    """A copy of a mirror that belongs elsewhere: it may be read, and nothing else."""


class Forgotten(ReconcilerError):
    """What was asked for was forgotten, and must not come back."""


class DatabaseUnavailable(ReconcilerError):
    """The database cannot be reached, is shutting down, or will not take writes now."""


class DeliveryRejected(ReconcilerError):
    """A delivery that nobody vouches for, or that cannot be read: answer 4xx, keep nothing."""


class SignatureInvalid(DeliveryRejected):
    """No secret, no signature, a wrong signature, or one outside the tolerance."""


class DeliveryMalformed(DeliveryRejected):
    """Authentic bytes that are no JSON object, or name no event id where the provider sends one."""


class SourceError(ReconcilerError):
    """A provider did not give us what we asked for."""


class SourceUnavailable(SourceError):
    """
    Ask again later: a time-out, a refused connection, a 5xx.

    Attributes:
        retry_after: Seconds the provider asked us to wait, where it said so.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SourceBusy(SourceUnavailable):
    """A rate limit, theirs or our own budget: waiting helps, and it is nobody's fault."""


class AccessLost(SourceError):
    """
    The credential no longer sees this scope (401, 403, or a parent that is gone): delete nothing.

    Attributes:
        what: `suspended` or `uninstalled` where the provider says so, else `access_lost`.
    """

    def __init__(self, message: str = "", *, what: str = "access_lost") -> None:
        super().__init__(message)
        self.what = what


class SourceRefused(SourceError):
    """The provider understood and said no: asking again will not help."""
