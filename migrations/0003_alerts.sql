-- Alerts are grouped per receiver, and every final failure is counted exactly once, whatever happens in between.

-- The version whose final failure the alerts have counted; null again once the item is delivered.
alter table deliveries add column told_version bigint;

-- Final failures that no alert has counted: empty nearly always.
create index deliveries_untold on deliveries (flow, destination, pk)
  where state = 'failed' and told_version is distinct from version;

-- What failed and was not seen delivered since.
create index deliveries_told on deliveries (flow, destination, state)
  where told_version is not null;

drop table flow_alerts;

-- What each receiver was told and is still to be told: grouping survives a restart, and processes share it.
create table flow_alerts (
  flow text not null,
  -- Of the receiver as the flow file names it; no secret.
  channel text not null,
  kind text not null check (kind in ('failures', 'degraded')),
  -- The destination whose deliveries fail, or the condition of the flow.
  subject text not null,
  -- Failures since the last message was written, the first of them, and a few examples.
  pending integer not null default 0,
  first_pending_at timestamptz,
  examples jsonb not null default '[]',
  -- Set while the receiver believes that something is wrong.
  firing boolean not null default false,
  firing_since timestamptz,
  last_sent_at timestamptz,
  -- Messages written so far; part of their ids.
  messages integer not null default 0,
  -- The message that is being sent; it stays as it is until the receiver has it.
  message jsonb,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  primary key (flow, channel, kind, subject)
);
