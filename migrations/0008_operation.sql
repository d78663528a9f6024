-- Leases, the health of boxes, connections and flows, and notifications about it.

create table leases (
  name text primary key,
  owner text not null,
  deadline timestamptz not null,
  token bigint not null,
  in_hand integer not null default 0
);
comment on table leases is 'Work that one process does at a time.';
comment on column leases.owner is 'lease: a random id of the process';
comment on column leases.deadline is 'lease: until when';
comment on column leases.token is 'lease: grows with each new owner; a write of an earlier owner is refused';
comment on column leases.in_hand is 'Deliveries that the leader of the flows is sending, for the figures of other processes';

create table fleet_states (
  kind text check (kind in ('box', 'connection', 'flow', 'destination')),
  scope text,
  name text,
  state text not null check (state in ('ok', 'attention', 'down', 'unknown')),
  cause text,
  since timestamptz,
  about jsonb not null default '{}',
  primary key (kind, scope, name)
);
comment on table fleet_states is
  'The present state of each box, connection, flow and destination. src/fleet/fleet-health.ts derives it.';
comment on column fleet_states.scope is 'The client, or the flow of a destination; empty for the whole service';
comment on column fleet_states.state is 'state: ok, attention, down, unknown';
comment on column fleet_states.cause is 'state: docs/reference/alerts.md';
comment on column fleet_states.since is 'state: since when';
comment on column fleet_states.about is 'Values of the cause''s sentence';

create table fleet_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  kind text not null,
  scope text not null,
  name text not null,
  from_state text,
  from_cause text,
  state text not null check (state in ('ok', 'attention', 'down', 'unknown', 'gone')),
  cause text,
  since timestamptz,
  about jsonb not null default '{}'
);
create index fleet_changes_at on fleet_changes (at);
create index fleet_changes_of on fleet_changes (kind, scope, name, id desc);
comment on table fleet_changes is 'Every change of fleet_states. Ids grow in the order of the changes.';
comment on column fleet_changes.state is 'As in fleet_states, or gone when the thing no longer exists';

create table alert_troubles (
  kind text,
  scope text,
  name text,
  cause text not null,
  state text not null,
  since timestamptz,
  about jsonb not null default '{}',
  raised_at timestamptz not null,
  told_at timestamptz,
  well_since timestamptz,
  primary key (kind, scope, name)
);
comment on table alert_troubles is
  'What operators are notified of: one row for each thing in trouble, until they were notified of its end.';
comment on column alert_troubles.raised_at is 'When it became a notification';
comment on column alert_troubles.told_at is 'plan: when operators were notified; null until then';
comment on column alert_troubles.well_since is 'plan: since when it is well again; operators are still to be notified of it';

create table alert_messages (
  channel text,
  id text,
  message jsonb not null,
  created_at timestamptz not null,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  sent_at timestamptz,
  primary key (channel, id)
);
create index alert_messages_sent on alert_messages (sent_at)
  where sent_at is not null;
create index alert_messages_waiting on alert_messages (channel, created_at)
  where sent_at is null;
comment on table alert_messages is
  'Messages to operators, one row for each channel: written with what they are about, sent afterwards.';
comment on column alert_messages.id is 'The receiver can tell a repeated message by it';
comment on column alert_messages.attempts is 'plan: attempts so far';
comment on column alert_messages.next_attempt_at is 'plan: the next attempt';
comment on column alert_messages.sent_at is 'state: null until the channel took it';
