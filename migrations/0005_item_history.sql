-- What each item looked like when its source showed a change, and what every destination answered: for the operator who
-- asks where a product is. Both tables only grow and are trimmed by the housekeeping; nothing else depends on them.

create table item_versions (
  flow text not null,
  pk text not null,
  id bigint generated always as identity,
  seen_at timestamptz not null,
  kind text not null check (kind in ('upsert', 'delete')),
  hash text not null,
  -- The item as the source gave it, canonical; null when it is too large to be kept.
  payload jsonb,
  primary key (flow, pk, id)
);

-- Rows come in order of time, so that a few blocks of this index find the old ones among millions.
create index item_versions_seen on item_versions using brin (seen_at);

create table item_attempts (
  flow text not null,
  pk text not null,
  id bigint generated always as identity,
  destination text not null,
  at timestamptz not null,
  kind text not null check (kind in ('upsert', 'delete')),
  -- Of the content that was sent, as in item_versions.
  hash text not null,
  attempt integer not null,
  outcome text not null check (outcome in ('delivered', 'retry', 'failed')),
  status integer,
  reason text,
  primary key (flow, pk, id)
);

create index item_attempts_at on item_attempts using brin (at);
