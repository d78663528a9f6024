-- What receivers are told of how things fare: one row for each thing in trouble, until they know that it is well again.
create table alert_troubles (
  kind text not null,
  scope text not null,
  name text not null,
  cause text not null,
  state text not null,
  since timestamptz,
  about jsonb not null default '{}',
  raised_at timestamptz not null,
  -- Null until a message tells of it.
  told_at timestamptz,
  -- It is well again, which is still to be told.
  well_since timestamptz,
  primary key (kind, scope, name)
);

-- Messages on their way, one row for each receiver; written with what they tell of, sent afterwards under their id.
create table alert_messages (
  channel text not null,
  id text not null,
  message jsonb not null,
  created_at timestamptz not null,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  sent_at timestamptz,
  primary key (channel, id)
);

create index alert_messages_waiting on alert_messages (channel, created_at) where sent_at is null;
create index alert_messages_sent on alert_messages (sent_at) where sent_at is not null;
