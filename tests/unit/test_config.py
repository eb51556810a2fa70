"""The configuration: what it gives, and what it says about what is wrong."""

from __future__ import annotations

import contextlib
import re
import tomllib
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from reconciler import installed, times
from reconciler.config import Listen, Settings, Source, StripeAccess, load
from reconciler.config.reading import state_directory
from reconciler.config.settings import TABLE, Endpoint, ShopifyAccess, keys
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

EXAMPLE = Path(__file__).parents[2] / "config" / "reconciler.example.toml"
KEY = "sk_test_standin"
WHSEC = "whsec_standin"
ENVIRONMENT = {"KEY": KEY, "WHSEC": WHSEC, "HOME": "/home/someone"}
SOURCE = """
[[sources]]
name = "stripe-eu"
provider = "stripe"
api_key = "env:KEY"
webhook_secrets = ["env:WHSEC"]
"""


def read(folder: Path, text: str, **environment: str) -> Settings:
    """Load *text* as the one configuration file."""
    file = folder / "reconciler.toml"
    file.write_text(text)
    return load(file, ENVIRONMENT | environment)


def faults(folder: Path, text: str, **environment: str) -> tuple[str, ...]:
    """Return what is said about *text*."""
    with pytest.raises(ConfigError) as caught:
        read(folder, text, **environment)
    return caught.value.faults


def stripe(settings: Settings) -> tuple[Source, StripeAccess]:
    """Return the one source, which is Stripe's."""
    [source] = settings.sources
    assert isinstance(source.access, StripeAccess)
    return source, source.access


def test_no_file(tmp_path: Path) -> None:
    """Without any file everything has its default, and nothing is mirrored."""
    settings = load(None, {"HOME": "/home/someone"}, default=tmp_path / "none.toml")

    assert settings.sources == ()
    assert settings.files == ()
    assert settings.database.url is None
    assert settings.web.listen == Listen("127.0.0.1", 8080)
    assert settings.admin.listen == Listen("127.0.0.1", 8081)
    assert settings.web.max_body == 25 * 2**20
    assert settings.drain.lease == timedelta(minutes=5)
    assert settings.drain.deletes_stop.share == 0.1
    assert settings.schedule.nightly == time(3, 10)
    assert settings.schedule.timezone == ZoneInfo("UTC")


def test_which_file(tmp_path: Path) -> None:
    """The argument stands over the variable, and the variable over the default place."""
    named = [tmp_path / f"{name}.toml" for name in ("argument", "variable", "default")]
    for file in named:
        file.write_text(f'public_url = "https://{file.stem}"')
    argument, variable, default = named
    environment = {"RECONCILER_CONFIG": str(variable), "HOME": "/home/someone"}

    found = [
        load(argument, environment, default=default).public_url,
        load(None, environment, default=default).public_url,
        load(None, {"HOME": "/home/someone"}, default=default).public_url,
    ]

    assert found == ["https://argument", "https://variable", "https://default"]


def test_named_file_is_missing(tmp_path: Path) -> None:
    """A file that somebody named must be there."""
    with pytest.raises(ConfigError, match=r"gone\.toml: cannot be read"):
        load(tmp_path / "gone.toml", {})


def test_source(tmp_path: Path) -> None:
    """Every key of a Stripe source arrives typed."""
    settings = read(
        tmp_path,
        SOURCE
        + """
accounts = ["acct_123"]
kinds = ["customer", "subscription"]
backfill_since = "2024-01-01T01:00:00+01:00"
omit = { customer = ["/phone"] }
manage_webhooks = true
calls_per_second = 80
api_base = "http://127.0.0.1:12111/"
api_version = "2026-09-30.endive"
""",
    )

    source, access = stripe(settings)
    assert source.name == "stripe-eu"
    assert source.provider == "stripe"
    assert access.api_key.reveal() == KEY
    assert [secret.reveal() for secret in source.webhook_secrets] == [WHSEC]
    assert access.accounts == ("acct_123",)
    assert source.kinds == ("customer", "subscription")
    assert source.backfill_since == datetime(2024, 1, 1, tzinfo=UTC)
    assert source.omit == {"customer": ("/phone",)}
    assert source.manage_webhooks is True
    assert source.calls_per_second == 80
    assert source.api_base == "http://127.0.0.1:12111"
    assert source.api_version == "2026-09-30.endive"


def test_source_defaults(tmp_path: Path) -> None:
    """What a source does not say comes from its provider's defaults, then from ours."""
    more = '[defaults.stripe]\ncalls_per_second = 5\nkinds = "all"\n'

    source, access = stripe(read(tmp_path, more + SOURCE + "calls_per_second = 7\n"))

    assert source.calls_per_second == 7
    assert source.kinds == "all"
    assert source.api_version == installed.provider("stripe").api_version
    assert source.backfill_since is None
    assert access.accounts == ()


def test_environment_overrides(tmp_path: Path) -> None:
    """A variable stands over the file, whatever the type of its key."""
    settings = read(
        tmp_path,
        SOURCE + '[drain]\nworkers = 2\ndeletes_stop = { share = 0.5 }\n[web]\nlisten = "127.0.0.1:1"\n',
        OTHER="sk_test_other",
        RECONCILER_STATE_DIRECTORY="/srv/mirror",
        RECONCILER_WEB__LISTEN="[::1]:0",
        RECONCILER_DRAIN__WORKERS="3",
        RECONCILER_DRAIN__DELETES_STOP__ABOVE="7",
        RECONCILER_SCHEDULE__LIGHT_EVERY="off",
        RECONCILER_DEFAULTS__STRIPE__CALLS_PER_SECOND="9.5",
        RECONCILER_SOURCES__STRIPE_EU__API_KEY="env:OTHER",
        RECONCILER_SOURCES__STRIPE_EU__MANAGE_WEBHOOKS="true",
        RECONCILER_SOURCES__STRIPE_EU__ACCOUNTS="acct_1, acct_2",
        RECONCILER_SOURCES__STRIPE_EU__KINDS='["customer"]',
        RECONCILER_PG_BINDIR="/not/ours",
    )

    source, access = stripe(settings)
    assert settings.state_directory == Path("/srv/mirror")
    assert settings.web.listen == Listen("::1", 0)
    assert settings.drain.workers == 3
    assert (settings.drain.deletes_stop.share, settings.drain.deletes_stop.above) == (0.5, 7)
    assert settings.schedule.light_every is None
    assert source.calls_per_second == 9.5
    assert access.api_key.reveal() == "sk_test_other"
    assert source.manage_webhooks is True
    assert access.accounts == ("acct_1", "acct_2")
    assert source.kinds == ("customer",)


def test_conf_d(tmp_path: Path) -> None:
    """Files beside the first add sources and keys, in the order of their names."""
    beside = tmp_path / "conf.d"
    beside.mkdir()
    (beside / "20.toml").write_text(SOURCE.replace("stripe-eu", "third") + "[web]\ntolerance = '1m'\n")
    (beside / "10.toml").write_text(SOURCE.replace("stripe-eu", "second") + "[drain]\nworkers = 3\n")
    (beside / "ignored.txt").write_text("not TOML")

    settings = read(tmp_path, SOURCE + "[drain]\nworkers = 3\nattempts = 4\n")

    assert [source.name for source in settings.sources] == ["stripe-eu", "second", "third"]
    assert [file.name for file in settings.files] == ["reconciler.toml", "10.toml", "20.toml"]
    assert (settings.drain.workers, settings.drain.attempts) == (3, 4)
    assert settings.web.tolerance == timedelta(minutes=1)


def test_conf_d_disagrees(tmp_path: Path) -> None:
    """Two files that say different things are a fault that names both, and so are two sources of one name."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "10.toml").write_text(SOURCE + "[drain]\nworkers = 4\n")

    said = faults(tmp_path, SOURCE + "[drain]\nworkers = 3\n")

    main, other = tmp_path / "reconciler.toml", tmp_path / "conf.d" / "10.toml"
    assert said == (
        f"drain.workers: {main} and {other} say different things; set it in one of them",
        f"sources[stripe-eu].name: is used twice, in {main} and in {other}; rename one of them",
    )


def test_secret_from_file(tmp_path: Path) -> None:
    """The newline that ends a secret file is no part of the secret."""
    kept = tmp_path / "key"
    kept.write_bytes(KEY.encode() + b"\r\n")

    settings = read(tmp_path, SOURCE.replace("env:KEY", f"file:{kept}"))

    assert stripe(settings)[1].api_key.reveal() == KEY
    assert settings.warnings == ()


def test_secret_from_credential(tmp_path: Path) -> None:
    """A systemd credential is read from the folder that systemd names."""
    (tmp_path / "stripe-key").write_text(KEY)
    written = SOURCE.replace("env:KEY", "credential:stripe-key")

    settings = read(tmp_path, written, CREDENTIALS_DIRECTORY=str(tmp_path))

    assert stripe(settings)[1].api_key.reveal() == KEY


def test_secret_with_white_space(tmp_path: Path) -> None:
    """White space inside a secret is kept and warned of, without the secret."""
    settings = read(tmp_path, SOURCE, WHSEC=" whsec_stand in")

    [warning] = settings.warnings
    assert settings.sources[0].webhook_secrets[0].reveal() == " whsec_stand in"
    assert warning.startswith("sources[stripe-eu].webhook_secrets: env:WHSEC holds white space")
    assert "stand in" not in warning


def test_no_webhook_secret(tmp_path: Path) -> None:
    """A source without a secret is warned of: it refuses every delivery."""
    settings = read(tmp_path, SOURCE.replace('["env:WHSEC"]', "[]"))

    [warning] = settings.warnings
    assert warning.startswith("sources[stripe-eu].webhook_secrets: there are none")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("sk_test_written_down", "a secret is not written down here"),
        ("env:NOT_SET", "env:NOT_SET names a variable that is not set"),
        ("env:EMPTY", "env:EMPTY is empty"),
        ("env:", "a secret is not written down here"),
        ("file:/nowhere/at/all", "file:/nowhere/at/all cannot be read (No such file or directory)"),
        ("file:relative", "file:relative depends on where"),
        ("credential:name", "credential:name needs $CREDENTIALS_DIRECTORY"),
    ],
)
def test_secret_refused(tmp_path: Path, written: str, said: str) -> None:
    """A secret that is written down or cannot be found is a fault that names its place and nothing else."""
    [fault] = faults(tmp_path, SOURCE.replace("env:KEY", written), EMPTY="\n")

    assert fault.startswith(f"sources[stripe-eu].api_key: {said}")
    assert "sk_test" not in fault


def test_credential_stays_in_its_folder(tmp_path: Path) -> None:
    """A credential's name cannot leave the folder of the credentials."""
    written = SOURCE.replace("env:KEY", "credential:../key")

    [fault] = faults(tmp_path, written, CREDENTIALS_DIRECTORY=str(tmp_path))

    assert "is a path" in fault


def test_secret_in_a_variable_of_ours(tmp_path: Path) -> None:
    """A literal secret is refused in an override too, and the fault names the variable."""
    variable = "RECONCILER_SOURCES__STRIPE_EU__API_KEY"

    [fault] = faults(tmp_path, SOURCE, **{variable: "sk_test_written_down"})

    assert fault.startswith(f"sources[stripe-eu].api_key ({variable}): a secret is not written down here")
    assert "sk_test" not in fault


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    """No way of printing the settings shows a secret; the log is told them all."""
    url = "postgresql://me:standin-pw@db/mirror"
    settings = read(
        tmp_path, SOURCE + '[database]\nurl = "env:URL"\n[admin]\ntokens = ["env:TOKEN"]\n', URL=url, TOKEN="t0ken"
    )

    shown = f"{settings!r} {settings} {settings.sources[0].webhook_secrets!s} {settings.database.url!s:>50}"

    assert not [secret for secret in (KEY, WHSEC, "standin-pw", "t0ken") if secret in shown]
    assert set(settings.secrets()) == {KEY, WHSEC, url, "standin-pw", "t0ken"}


def test_database_url_without_password(tmp_path: Path) -> None:
    """A URL without a password may stand in the file, and is no secret."""
    settings = read(tmp_path, '[database]\nurl = "postgresql://me@db:5433/mirror?sslmode=require"\n')

    assert settings.database.url is not None
    assert settings.database.url.reveal() == "postgresql://me@db:5433/mirror?sslmode=require"
    assert settings.secrets() == ()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:standin-pw@db/mirror",
        "postgresql://me:standin-pw/7@db/mirror",
        "postgresql://me:5/standin-pw@db/mirror",
        "postgresql://me@db/mirror?password=standin-pw",
        "postgresql://me@db/mirror?sslpassword=standin-pw",
        "postgresql://me:standin-pw#@db/mirror",
        "standin-pw",
        "mysql://db/standin-pw",
    ],
)
def test_database_url_refused(tmp_path: Path, url: str) -> None:
    """A URL with a password anywhere, or of something else, is refused and not repeated."""
    [fault] = faults(tmp_path, f'[database]\nurl = "{url}"\n')

    assert fault.startswith("database.url: ")
    assert "standin-pw" not in fault


def test_every_fault_at_once(tmp_path: Path) -> None:
    """Whatever is wrong is told in one go: the key, the value, the way out."""
    soon = "web.tolerance (RECONCILER_WEB__TOLERANCE): 'soon' is no duration"
    name = "is no name; use lower-case letters, digits and -, a letter or digit first"
    known = "did you mean stripe? there are github, shopify, stripe"

    said = faults(
        tmp_path,
        """
public_ulr = "https://hooks.example.com"
[web]
listen = "8080"
[drain]
lease = "30s"
worker = 3
[schedule]
nightly = "3:10"
[[sources]]
name = "Stripe EU"
provider = "stripe"
[[sources]]
name = "other"
provider = "strip"
""",
        RECONCILER_WEB__TOLERANCE="soon",
        RECONCILER_WEB__TOLERNACE="5m",
    )

    assert sorted(said) == sorted(
        [
            "public_ulr: is no key here; did you mean public_url?",
            "web.listen: '8080' is not HOST:PORT; write it like 127.0.0.1:8080 or [::1]:8080",
            f"{soon}; write one like 10s, 90m, 24h, 7d or 1h30m",
            "web.tolernace (RECONCILER_WEB__TOLERNACE): is no key here; did you mean tolerance?",
            "drain.lease: 30s does not exceed the 30s that one call may take; make it longer",
            "drain.worker: is no key here; did you mean workers?",
            "schedule.nightly: '3:10' is no time of day; write it as HH:MM in quotes, like 03:10",
            f"sources[Stripe EU].name: 'Stripe EU' {name}",
            "sources[Stripe EU].api_key: is missing; it must be set",
            f"sources[other].provider: 'strip' names no provider; {known}",
        ]
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('state_directory = "here"', "state_directory: 'here' depends on where"),
        ('public_url = "hooks.example.com"', "public_url: 'hooks.example.com' is no web address"),
        ('public_url = "https://me:pw@h"', "public_url: holds a user or password"),
        ("web = 5", "web: is no table"),
        ('sources = "stripe"', "sources: is not a list of tables"),
        ("defaults.stripe.worker = 3", "defaults.stripe.worker: is no key here"),
        ('defaults.stripe.name = "x"', "defaults.stripe.name: is no key here"),
        (
            "defaults.strip = {}",
            "defaults.strip: is no table of a provider; did you mean stripe? there are github, shopify, stripe",
        ),
        ("defaults.stripe.calls_per_second = 0", "defaults.stripe.calls_per_second: 0 is no number above 0"),
        ("defaults = 1", "defaults: is no table"),
        ('database.schema = "a b"', "database.schema: 'a b' is no plain schema name"),
        ('web.listen = "::1:8080"', "web.listen: '::1:8080' is not HOST:PORT"),
        ('web.listen = "h:65536"', "web.listen: 'h:65536' has a port above"),
        ('web.max_body = "25 megs"', "web.max_body: '25 megs' is no size"),
        ("web.max_body = 0", "web.max_body: 0 is no size"),
        ('web.tolerance = "0s"', "web.tolerance: '0s' is no time at all"),
        ("web.tolerance = 5", "web.tolerance: 5 is not a text"),
        ('admin.tokens = "env:KEY"', "admin.tokens: a single text where a list belongs"),
        ('admin.listen = "127.0.0.1:8080"', "admin.listen: 127.0.0.1:8080 is where the public listener is"),
        ("drain.workers = 0", "drain.workers: 0 is no whole number from 1 up"),
        ("drain.workers = true", "drain.workers: True is no whole number"),
        ("drain.deletes_stop = 3", "drain.deletes_stop: is no table; its keys are share, above"),
        ("drain.deletes_stop.share = 1.5", "drain.deletes_stop.share: 1.5 is more than the whole"),
        ("drain.deletes_stop.shares = 1", "drain.deletes_stop.shares: is no key here; did you mean share?"),
        ('schedule.timezone = "Mars/Olympus"', "schedule.timezone: 'Mars/Olympus' is no time zone"),
        ('schedule.timezone = "../etc"', "schedule.timezone: '../etc' is no time zone"),
        ("schedule.nightly = 03:10:00", "schedule.nightly: datetime.time(3, 10) is not a text"),
        ("= 3", "reconciler.toml: is not TOML"),
    ],
)
def test_fault(tmp_path: Path, line: str, said: str) -> None:
    """One wrong line is one fault, which names the key and says what is wrong."""
    [fault] = faults(tmp_path, line)

    assert said in fault
    assert ";" in fault


ODD = [
    "-1",
    "nan",
    "true",
    '""',
    '"x"',
    "[[]]",
    "[1]",
    "{}",
    "{ a = [1] }",
    "1979-05-27",
    r'"file:/\u0000"',
    '"http://[::1"',
]


@pytest.mark.parametrize("value", ODD)
def test_odd_values(tmp_path: Path, value: str) -> None:
    """Whatever stands under whatever key, the answer is settings or sentences."""
    entry = {"name": '"s"', "provider": '"stripe"', "api_key": '"env:KEY"'}
    tables = ("sources", "endpoints", "defaults", "web", "drain")
    texts = [f"{one} = {value}\n" for one in (*tables, *every_key()) if not one.startswith(("sources.", "endpoints."))]
    for one in [*keys(Source), *keys(StripeAccess)]:
        written = "".join(f"{key} = {told}\n" for key, told in (entry | {one: value}).items())
        texts += [f"[[sources]]\n{written}", f"[defaults.stripe]\n{one} = {value}\n{SOURCE}"]

    for text in texts:
        with contextlib.suppress(ConfigError):
            read(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('accounts = "acct_1"', "accounts: 'acct_1' is no list"),
        ('backfill_since = "2024-01-01"', "backfill_since: '2024-01-01T00:00:00' names no zone"),
        ("backfill_since = 2024-01-01T00:00:00", "backfill_since: '2024-01-01T00:00:00' names no zone"),
        ('omit = { customer = ["phone"] }', "omit: 'phone' is no JSON pointer"),
        ('omit = { customer = "/phone" }', "omit: str where a list belongs"),
        ('omit = ["/phone"]', "omit: ['/phone'] is no table"),
        ('manage_webhooks = "yes"', "manage_webhooks: 'yes' is neither true nor false"),
        ('api_base = "ftp://h"', "api_base: 'ftp://h' is no web address"),
        ('shop = "berlin"', "shop: is no key here"),
    ],
)
def test_source_fault(tmp_path: Path, line: str, said: str) -> None:
    """One wrong line of a source is one fault, which names the source."""
    [fault] = faults(tmp_path, SOURCE + line)

    assert fault.startswith(f"sources[stripe-eu].{said}")


def test_keys_of_another_provider(tmp_path: Path) -> None:
    """Each provider's sources have keys of their own."""
    said = faults(tmp_path, SOURCE + '[[sources]]\nname = "shop"\nprovider = "shopify"\nshpo = "berlin"\n')

    assert said == (
        "sources[shop].shpo: is no key here; did you mean shop?",
        "sources[shop]: needs a shop, or a list of shops",
    )


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('provider = "shopify"\nshop = "b.myshopify.com"', "needs client_id with client_secret, or an access_token"),
        (
            'provider = "shopify"\nshop = "b.myshopify.com"\nclient_id = "env:KEY"',
            "needs client_id with client_secret, or an access_token",
        ),
        ('provider = "github"', "needs a token, or app_id with private_key and installation_id"),
        ('provider = "github"\napp_id = 1', "needs a token, or app_id with private_key and installation_id"),
    ],
)
def test_half_a_credential(tmp_path: Path, keys: str, said: str) -> None:
    """A source that could not sign in is refused with what it lacks."""
    told = faults(tmp_path, f'[[sources]]\nname = "other"\n{keys}\n')

    assert told == (f"sources[other]: {said}",)


GITHUB = '[[sources]]\nname = "github-{0}"\nprovider = "github"\ntoken = "env:KEY"\norganizations = ["{0}"]\n'
SHOP = '[[sources]]\nname = "shop-{0}"\nprovider = "shopify"\nshop = "{0}.myshopify.com"\naccess_token = "env:KEY"\n'
ENDPOINT = '[[endpoints]]\nname = "app"\nwebhook_secrets = ["env:WHSEC"]\n'


@pytest.mark.parametrize(
    ("written", "fed"),
    [
        ('sources = ["shop-paris", "shop-berlin", "shop-paris"]', ("shop-paris", "shop-berlin")),
        ('provider = "shopify"', ("shop-berlin", "shop-paris")),
    ],
)
def test_endpoint(tmp_path: Path, written: str, fed: tuple[str, ...]) -> None:
    """An endpoint knows the sources that it feeds, which need no secrets then, and the log knows its own."""
    sources = SOURCE + SHOP.format("berlin") + GITHUB.format("acme") + SHOP.format("paris")

    settings = read(tmp_path, f"{sources}{ENDPOINT}{written}", WHSEC="shpss_standin")

    [endpoint] = settings.endpoints
    assert (endpoint.name, endpoint.provider, endpoint.sources) == ("app", "shopify", fed)
    assert [secret.reveal() for secret in endpoint.webhook_secrets] == ["shpss_standin"]
    assert "shpss_standin" in settings.secrets()
    assert [warning.partition(":")[0] for warning in settings.warnings] == ["sources[github-acme].webhook_secrets"]


def test_endpoint_without_a_secret(tmp_path: Path) -> None:
    """An endpoint without a secret is warned of: it refuses every delivery, whatever its sources have."""
    sources = GITHUB.format("acme") + 'webhook_secrets = ["env:WHSEC"]\n'

    settings = read(tmp_path, sources + '[[endpoints]]\nname = "app"\nprovider = "github"\n')

    [warning] = settings.warnings
    assert warning.startswith("endpoints[app].webhook_secrets: there are none")


def test_endpoints(tmp_path: Path) -> None:
    """An endpoint is checked: all that is wrong with it is told at once."""
    said = faults(
        tmp_path, SOURCE + '[[endpoints]]\nname = "stripe-eu"\nsources = ["stripe-us"]\nprovider = "stripe"\n'
    )

    assert len(said) == 3
    assert any(fault.startswith("endpoints[stripe-eu].name: is used twice") for fault in said)
    assert any("needs a provider beside it or names in it, not both" in fault for fault in said)
    assert any("'stripe-us' is no source; did you mean stripe-eu?" in fault for fault in said)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "sources: needs a provider beside it or names in it"),
        ('sources = ["github-acme", "shop-berlin"]', "sources: are of several providers, github, shopify"),
        ('sources = ["github-all"]', "sources: 'github-all' does not say which deliveries are about it"),
        ('provider = "github"', "sources: 'github-all' does not say which deliveries are about it"),
        ('provider = "gitlab"', "provider: names no provider; did you mean github? there are github, shopify, stripe"),
        ('sources = "github-acme"', "sources: str where a list belongs"),
        ('sources = ["github-acme"]\nsource = 1', "source: is no key here; did you mean sources?"),
    ],
)
def test_endpoint_fault(tmp_path: Path, written: str, said: str) -> None:
    """What could not work is one fault, which names the endpoint; nothing is left to what anybody may send."""
    unclear = GITHUB.format("all").replace("organizations", "#")
    sources = SOURCE + GITHUB.format("acme") + SHOP.format("berlin") + unclear

    [fault] = faults(tmp_path, f"{sources}{ENDPOINT}{written}")

    assert fault.startswith(f"endpoints[app].{said}")


STRIPE = '[[sources]]\nname = "{0}"\nprovider = "stripe"\napi_key = "env:{1}"\naccounts = {2}\n'


@pytest.mark.parametrize(
    ("keys", "written", "said"),
    [
        (("KEY", "KEY"), 'provider = "stripe"', ""),
        (("KEY", "KEY_LIVE"), 'sources = ["one", "two"]', ""),
        (("KEY", "KEY_OTHER"), 'sources = ["one"]', ""),
        (("KEY", "KEY_OTHER"), 'sources = ["one", "two"]', "sources: are of several Stripe accounts in one mode"),
        (("KEY", "KEY_OTHER"), 'provider = "stripe"', "provider: are of several Stripe accounts in one mode"),
    ],
)
def test_endpoint_of_a_platform(tmp_path: Path, keys: tuple[str, str], written: str, said: str) -> None:
    """A Connect platform has an endpoint, unless nothing would tell whose events about an account itself are."""
    sources = STRIPE.format("one", keys[0], '["acct_1"]') + STRIPE.format("two", keys[1], '"all"')
    secrets = {"KEY_OTHER": "rk_test_other", "KEY_LIVE": "sk" + "_live_" + "standin"}
    text = f"{sources}{ENDPOINT}{written}"

    if said:
        [fault] = faults(tmp_path, text, **secrets)
        assert fault.startswith(f"endpoints[app].{said}")
    else:
        assert [each.provider for each in read(tmp_path, text, **secrets).endpoints] == ["stripe"]


def test_what_is_no_account(tmp_path: Path) -> None:
    """What cannot be a connected account is a fault, not a scope that is never seen."""
    [fault] = faults(tmp_path, STRIPE.format("one", "KEY", '["acct_1", "cus_1", "al"]'))

    assert fault.startswith("sources[one]: accounts: 'cus_1', 'al' is no id of a connected account")


def test_endpoint_of_no_source(tmp_path: Path) -> None:
    """An endpoint before nothing is a fault: nobody could verify what it is sent."""
    [fault] = faults(tmp_path, SOURCE + ENDPOINT + 'provider = "github"')

    assert fault.startswith("endpoints[app].provider: there is no source of github")


@pytest.mark.parametrize(
    ("keys", "clear"),
    [
        ('app_id = 1\nprivate_key = "env:KEY"\ninstallation_id = 2', True),
        ('token = "env:KEY"\nrepositories = ["acme/shop"]', True),
        ('token = "env:KEY"\ninstallation_id = 2', False),
        ('token = "env:KEY"', False),
    ],
)
def test_whose_deliveries(tmp_path: Path, keys: str, clear: bool) -> None:  # noqa: FBT001 - a parameter of the table
    """A source behind a GitHub App says by its installation or its places what is about it; a token says nothing."""
    text = f'[[sources]]\nname = "one"\nprovider = "github"\n{keys}\n{ENDPOINT}provider = "github"'

    if clear:
        assert read(tmp_path, text).endpoints[0].sources == ("one",)
    else:
        assert "does not say which deliveries" in faults(tmp_path, text)[0]


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("RECONCILER_SOURCES__STRIPE_US__API_KEY", "no entry of sources has that name"),
        ("RECONCILER_SOURCES__STRIPE_EU__NAME", "name says which entry is meant"),
        ("RECONCILER_PUBLIC_URL__X", "public_url is no table"),
    ],
)
def test_variable_of_nothing(tmp_path: Path, variable: str, said: str) -> None:
    """A variable that can override nothing is a fault."""
    [fault] = faults(tmp_path, 'public_url = "https://h"\n' + SOURCE, **{variable: "env:KEY"})

    assert fault.startswith(f"{variable}: {said}")


def test_variable_of_the_longer_name(tmp_path: Path) -> None:
    """Where one source's name begins another's, the variable means the longer one."""
    text = SOURCE.replace("stripe-eu", "a") + SOURCE.replace("stripe-eu", "a--b")

    settings = read(tmp_path, text, RECONCILER_SOURCES__A__B__CALLS_PER_SECOND="3")

    assert [source.calls_per_second for source in settings.sources] == [None, 3]


@pytest.mark.parametrize(
    ("environment", "root", "expected"),
    [
        ({"STATE_DIRECTORY": "/var/lib/one:/var/lib/two", "XDG_STATE_HOME": "/x"}, True, "/var/lib/one"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, True, "/x/reconciler"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, False, "/h/.local/state/reconciler"),
        ({"HOME": "/h"}, False, "/h/.local/state/reconciler"),
        ({"HOME": "/root"}, True, "/var/lib/reconciler"),
    ],
)
def test_state_directory(environment: Mapping[str, str], root: bool, expected: str) -> None:  # noqa: FBT001 - a parameter of the table
    """State is kept where systemd says, else where the user's state goes, else where root's does."""
    assert state_directory(environment, root=root) == Path(expected)


def key_paths(cls: Callable[..., object], under: str) -> Iterator[str]:
    """Yield every key of the table that *cls* stands for, tables inside it walked."""
    for name, declared in keys(cls).items():
        if TABLE in declared.metadata:
            yield from key_paths(declared.metadata[TABLE], f"{under}{name}.")
        else:
            yield f"{under}{name}"


FORTY = """
[defaults.shopify]
client_id = "env:KEY"
client_secret = "env:WHSEC"

[[sources]]
name = "shops"
provider = "shopify"
shops = [SHOPS]
extra_fields = { order = ["custom.{shop}"] }

[[endpoints]]
name = "app"
sources = ["shops"]
webhook_secrets = ["env:WHSEC"]
"""


def test_shops(tmp_path: Path) -> None:
    """One table lists forty shops: each is a source of its own, and an endpoint that names the table feeds them all."""
    shops = ", ".join(f'"Shop-{number}.myshopify.com"' for number in range(40))

    settings = read(tmp_path, FORTY.replace("SHOPS", shops))

    assert [each.name for each in settings.sources] == [f"shops-shop-{number}" for number in range(40)]
    last = settings.sources[-1].access
    assert isinstance(last, ShopifyAccess)
    assert (last.shop, last.shops, last.extra_fields) == ("Shop-39.myshopify.com", (), {"order": ("custom.shop-39",)})
    assert settings.endpoints[0].sources == tuple(each.name for each in settings.sources)


@pytest.mark.parametrize(
    ("shops", "more", "said"),
    [
        ("[]", "", "sources[shops].shops: is no list of shops"),
        ('"a.myshopify.com"', "", "sources[shops].shops: is no list of shops"),
        ('["a.myshopify.com", "a.myshopify.com"]', "", "sources[shops].shops: names a shop twice"),
        ('["a.myshopify.com"]', 'shop = "b"', "sources[shops].shops: stands beside shop"),
        ('["a.myshopify.com", "a.example.com"]', "", "sources[shops-a].name: is used twice"),
    ],
)
def test_shops_fault(tmp_path: Path, shops: str, more: str, said: str) -> None:
    """A list of shops that cannot be one is a fault that says so."""
    written = FORTY.replace("shops = [SHOPS]", f"shops = {shops}\n{more}")

    assert [fault for fault in faults(tmp_path, written) if fault.startswith(said)]


def test_tokens_of_shops(tmp_path: Path) -> None:
    """Each shop of a table may have a secret of its own, kept under the shop's name."""
    text = """
    [[sources]]
    name = "shops"
    provider = "shopify"
    shops = ["rome-north.myshopify.com", "oslo"]
    access_token = "env:TOKEN_{SHOP}"
    """

    settings = read(tmp_path, text, TOKEN_ROME_NORTH="one", TOKEN_OSLO="two")

    tokens = [each.access.access_token for each in settings.sources if isinstance(each.access, ShopifyAccess)]
    assert [(each.name, token and token.reveal()) for each, token in zip(settings.sources, tokens, strict=True)] == [
        ("shops-rome-north", "one"),
        ("shops-oslo", "two"),
    ]


def every_key() -> set[str]:
    """Return every key there is in the code."""
    common = keys(Source).keys()
    own = {
        f"sources.{provider}.{name}"
        for provider in installed.names()
        for name in keys(installed.provider(provider).access)
    }
    return {
        *key_paths(Settings, ""),
        *key_paths(Endpoint, "endpoints."),
        *(f"sources.{name}" for name in common),
        *own,
        "defaults.stripe.api_version",
    }


def keys_written(tree: Mapping[str, object], under: str = "") -> Iterator[str]:
    """Yield every key of the parsed example, a source's own ones under its provider."""
    for name, value in tree.items():
        if name in {"sources", "endpoints"} and isinstance(value, list) and isinstance(value[0], dict):
            for entry in value:
                for one in entry:
                    own = name == "sources" and one not in keys(Source)
                    yield f"{name}.{entry['provider']}.{one}" if own else f"{name}.{one}"
        elif isinstance(value, dict):
            yield from keys_written(value, f"{under}{name}.")
        else:
            yield f"{under}{name}"


def uncommented() -> str:
    """Return the example with every setting in it switched on."""
    return re.sub(r"^#(?=[^ \n])", "", EXAMPLE.read_text(), flags=re.MULTILINE)


def test_example_as_it_is() -> None:
    """The example can be used as it is, and says nothing but the defaults."""
    settings = load(EXAMPLE, {"HOME": "/home/someone"})
    plain = load(None, {"HOME": "/home/someone"}, default=Path("/nowhere"))

    assert settings.warnings == ()
    assert (settings.web, settings.admin, settings.drain, settings.schedule) == (
        plain.web,
        plain.admin,
        plain.drain,
        plain.schedule,
    )


def test_example_shows_every_key() -> None:
    """Every key the code knows is in the example, and the example has no other."""
    assert set(keys_written(tomllib.loads(uncommented()))) == every_key()


def test_example_switched_on(tmp_path: Path) -> None:
    """Every setting of the example is valid once its secrets are there."""
    (tmp_path / "secret").write_text("standin")
    text = re.sub(r'"(?:env|file|credential):[^"]*"', f'"file:{tmp_path / "secret"}"', uncommented())
    text = re.sub(r'url = "file:[^"]*"', 'url = "postgresql://me@db/mirror"', text)

    settings = read(tmp_path, text)

    assert [(each.name, each.sources) for each in settings.endpoints] == [
        ("github-app", ("github-acme",)),
        ("shopify-app", ("shop-berlin", "shops-paris", "shops-tokyo")),
    ]


@pytest.mark.parametrize(
    ("provider", "access", "least"),
    [
        ("stripe", 'api_key = "env:KEY"', "30d"),
        ("github", 'token = "env:KEY"', "7d"),
        ("shopify", 'shop = "a.myshopify.com"\naccess_token = "env:KEY"', "4h"),
    ],
)
@pytest.mark.parametrize("table", ["webhook_events", "object_history", "declined_writes", "drift", "runs"])
def test_retention_outlasts_redeliveries(tmp_path: Path, provider: str, access: str, least: str, table: str) -> None:
    """Nothing is kept for less than the time in which a configured provider may deliver again; longer, or off, is."""
    source = f'[[sources]]\nname = "one"\nprovider = "{provider}"\n{access}\n'

    [fault] = faults(tmp_path, f'[retention]\n{table} = "3h59m"\n{source}')
    enough = read(tmp_path, f'[retention]\n{table} = "{least}"\n{source}')
    for_ever = read(tmp_path, f'[retention]\n{table} = "off"\n{source}')

    assert fault == (
        f"retention.{table}: 3h59m is less than the {least} within which {provider} may deliver an event again (one):"
        f" write {least} or more, so that a repeat is known as one"
    )
    assert enough.retention.kept()[table] == times.duration(least)
    assert for_ever.retention.kept()[table] is None


def test_retention_by_default(tmp_path: Path) -> None:
    """Everything is kept for 45 days where nothing is written."""
    assert set(read(tmp_path, SOURCE).retention.kept().values()) == {timedelta(days=45)}
