-- name: keep_secret
-- Keep the secret of a subscription that was just made.
INSERT INTO subscription_secrets (name, subscription, secret, made_at)
VALUES (%(name)s, %(subscription)s, %(secret)s, clock_timestamp())
ON CONFLICT (name, subscription) DO UPDATE SET
    secret  = excluded.secret,
    made_at = excluded.made_at;

-- name: kept_secrets
-- Every secret that is kept, the latest of each name first.
SELECT name, subscription, secret
FROM subscription_secrets
ORDER BY name, made_at DESC, subscription;

-- name: drop_secrets
-- Drop the secrets of a name's other subscriptions, once what they still sent has had time to arrive.
DELETE FROM subscription_secrets
WHERE name = %(name)s
  AND subscription <> ALL(%(subscription)b::text[])
  AND made_at < clock_timestamp() - %(age)s::interval;
