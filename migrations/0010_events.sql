-- Events: what happened, for programs that read the feed.

create table events (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  client text not null,
  sucursal_id text,
  caja_id text,
  type text not null,
  at timestamptz not null,
  resource_type text not null,
  resource_id text not null,
  resource_version integer,
  order_id uuid,
  changes jsonb not null,
  data jsonb,
  position bigint
);
create index events_at on events using brin (at);
create index events_of_client on events (client, position)
  where position is not null;
create unique index events_position on events (position)
  where position is not null;
create index events_unnumbered on events (seq)
  where position is null;
comment on table events is
  'What happened, for programs. A row is written in the transaction of the change and kept for 30 days. No reference to orders: its check would wait for the lock of the order.';
comment on column events.seq is
  'The order of writing. It is taken while the row of the resource is locked, so the events of one resource have its order; a later number may be committed earlier';
comment on column events.type is 'docs/reference/events.md';
comment on column events.resource_version is 'The version of the resource after the change; null where it has none';
comment on column events.order_id is 'The order of a refund, payment or case';
comment on column events.changes is 'What changed: from and to of each field, money in cents';
comment on column events.data is 'The resource after the change; null where the event is thin';
comment on column events.position is
  'The place in the feed. The readers number committed events; null until then';

create table event_head (
  one boolean default true check (one) primary key,
  position bigint not null
);
insert into event_head values (true, 0);
comment on table event_head is
  'The last position that an event got. Its lock makes the numbering of two readers wait for each other.';

create table event_deletions (
  client text primary key,
  position bigint not null
);
comment on table event_deletions is
  'The last position of a client that was deleted: a reader before it has missed events.';

create table event_consumers (
  client text references clients (name),
  name text,
  position bigint not null,
  created_at timestamptz not null,
  committed_at timestamptz,
  reader text,
  lease_until timestamptz,
  primary key (client, name)
);
comment on table event_consumers is
  'Programs whose place in the feed is kept here. Only a commit, or a person, moves the place.';
comment on column event_consumers.position is 'The last event that the program has processed';
comment on column event_consumers.reader is 'lease: who reads now, as the program names itself, or its address';
comment on column event_consumers.lease_until is 'lease: until when no other reader gets events';

create table event_endpoints (
  id text primary key,
  client text not null references clients (name),
  url text not null,
  types text[],
  sucursal_id text,
  caja_id text,
  secret text,
  former_secret text,
  former_until timestamptz,
  position bigint not null,
  missed integer not null default 0,
  failures integer not null default 0,
  resting_until timestamptz,
  last_success_at timestamptz,
  stopped_at timestamptz,
  stop_reason text check (stop_reason in ('gone', 'exhausted', 'person', 'secret_lost')),
  notified_at timestamptz,
  created_at timestamptz not null,
  check ((stopped_at is null) = (stop_reason is null))
);
create index event_endpoints_of_client on event_endpoints (client, created_at);
create index event_endpoints_sealed_by on event_endpoints (split_part(secret, '.', 2), id)
  where secret is not null;
create index event_endpoints_formerly_sealed_by on event_endpoints (split_part(former_secret, '.', 2), id)
  where former_secret is not null;
comment on table event_endpoints is
  'Addresses that events are sent to. A charge writes nothing here: the process with the lease of an endpoint reads the feed from its place.';
comment on column event_endpoints.types is 'Only events of these types; null: of all';
comment on column event_endpoints.sucursal_id is 'Only events of this store';
comment on column event_endpoints.caja_id is 'Only events of this box';
comment on column event_endpoints.secret is
  'Signs what is sent, encrypted; null when the encryption key was lost';
comment on column event_endpoints.former_secret is 'Signs too until `former_until`, encrypted';
comment on column event_endpoints.position is
  'The place in the feed. An event up to it is delivered, skipped, or in `event_deliveries`';
comment on column event_endpoints.missed is 'Events that were deleted by their age before they were delivered';
comment on column event_endpoints.failures is 'Failed attempts since the last one that succeeded';
comment on column event_endpoints.resting_until is 'Nothing is sent before: its `Retry-After`';
comment on column event_endpoints.stop_reason is
  'gone: it answered 410. exhausted: an event failed for 75 h. secret_lost: it needs a new secret';
comment on column event_endpoints.notified_at is 'When operators were notified of the stop';

create table event_deliveries (
  endpoint_id text references event_endpoints (id) on delete cascade,
  position bigint,
  resource text not null,
  attempts integer not null default 0,
  next_at timestamptz not null,
  primary key (endpoint_id, position)
);
create index event_deliveries_of_resource on event_deliveries (endpoint_id, resource, position);
comment on table event_deliveries is
  'Events that an endpoint does not have yet, up to its place, and those that it gets again. An event of a resource waits for the earlier ones here.';
comment on column event_deliveries.position is 'The event, by its place in the feed';
comment on column event_deliveries.resource is 'Type and id of the resource of the event';
comment on column event_deliveries.attempts is 'Failed attempts';

create table event_attempts (
  seq bigint generated always as identity primary key,
  endpoint_id text not null references event_endpoints (id) on delete cascade,
  position bigint,
  event_id uuid,
  type text not null,
  at timestamptz not null,
  duration_ms integer not null,
  status integer,
  failure text check (failure in ('network', 'timeout', 'refused_address')),
  answer text
);
create index event_attempts_of_endpoint on event_attempts (endpoint_id, seq);
create index event_attempts_of_event on event_attempts (endpoint_id, event_id)
  where event_id is not null;
comment on table event_attempts is 'What was sent to endpoints, and what they answered. Kept for 7 days.';
comment on column event_attempts.position is 'The event, by its place in the feed; null for a ping';
comment on column event_attempts.status is 'Of the answer; null without one';
comment on column event_attempts.failure is 'Why there is no answer';
comment on column event_attempts.answer is 'The first 1,000 characters of the answer';
