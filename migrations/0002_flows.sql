-- The flow side: what was seen at a source, what is owed to whom, and how the flows are doing.

-- Kept for names that no file defines (yet): a flow can be paused before it exists.
create table flow_pause (
  flow text primary key,
  paused_at timestamptz not null,
  paused_by text not null,
  reason text
);

-- Run limits end with a restart, which clears this table; it is a table so that several processes agree.
create table flow_limits (
  flow text primary key,
  run_limit integer not null check (run_limit between 1 and 1000000),
  run_count integer not null default 0,
  set_at timestamptz not null
);

create table flow_state (
  flow text primary key,
  -- Of the parts of the definition that decide what an item looks like; another value is a change of definition.
  definition_hash text not null,
  -- Set while a change of definition waits for the operator (onDefinitionChange: ask).
  pending_definition_hash text,
  -- Where an incremental read goes on; moves only with the transaction of the poll that earned it.
  cursor text,
  last_full_scan_at timestamptz,
  -- The next poll reads everything from the beginning; cleared by the poll that did.
  full_scan_due boolean not null default false,
  -- Grows with each reset, so that one in the middle of a poll is not taken for done by it.
  resets bigint not null default 0,
  first_seen_at timestamptz not null,
  last_poll_at timestamptz,
  last_success_at timestamptz
);

-- What the source showed last, by item: only a hash, so that millions fit.
create table flow_items (
  flow text not null,
  pk text not null,
  hash text not null,
  changed_at timestamptz not null,
  primary key (flow, pk)
);

-- What is owed to a destination. The row is the truth; a job in the queue only wakes a worker for it.
create table deliveries (
  flow text not null,
  destination text not null,
  pk text not null,
  -- Grows with each change of the item; an answer about an older version settles nothing.
  version bigint not null,
  kind text not null check (kind in ('upsert', 'delete')),
  hash text not null,
  -- The item as the source gave it, canonical; null once it is delivered.
  payload jsonb,
  delivered_hash text,
  delivered_at timestamptz,
  state text not null check (state in ('waiting', 'done', 'failed')),
  attempts integer not null default 0,
  last_error text,
  last_status integer,
  queued_at timestamptz not null,
  -- Not before this time: back-off, Retry-After, an open breaker.
  not_before timestamptz,
  finished_at timestamptz,
  primary key (flow, destination, pk)
);

create index deliveries_waiting on deliveries (flow, destination, queued_at) where state = 'waiting';
create index deliveries_failed on deliveries (flow, destination, finished_at desc) where state = 'failed';
create index deliveries_open on deliveries (state) where state <> 'done';

-- Final failures of jobs, and polls that failed, for people; retries and dead letters work on deliveries.
create table flow_errors (
  id uuid primary key,
  flow text not null,
  -- The destination's name, or 'source' for a poll that failed.
  adapter text not null,
  pk text not null,
  error text not null,
  status integer,
  attempts integer not null,
  at timestamptz not null
);

create index flow_errors_at on flow_errors (at desc, id);
create index flow_errors_flow on flow_errors (flow, at desc);

-- The last polls, for durations; older ones are only counted.
create table flow_polls (
  id bigint generated always as identity primary key,
  flow text not null,
  kind text not null check (kind in ('full', 'incremental')),
  started_at timestamptz not null,
  duration_ms integer not null,
  rows_read bigint not null,
  changes bigint not null,
  error text
);

create index flow_polls_flow on flow_polls (flow, id desc);

-- Lifetime counts; they outlive restarts and the rows they counted.
create table flow_totals (
  flow text primary key,
  runs bigint not null default 0,
  poll_errors bigint not null default 0,
  jobs_completed bigint not null default 0,
  jobs_failed bigint not null default 0
);

-- The progress of a poll under way, for whoever watches from another process.
create table flow_progress (
  flow text primary key,
  started_at timestamptz not null,
  rows_read bigint not null,
  changes bigint not null,
  updated_at timestamptz not null
);

-- Who did what to a flow, and why.
create table flow_activity (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  flow text,
  action text not null,
  actor text not null,
  detail text
);

create index flow_activity_at on flow_activity (id desc);

-- Failures that are still to be told, and what was told when: grouping survives a restart.
create table flow_alerts (
  flow text not null,
  destination text not null,
  -- Failed jobs since the last message.
  pending integer not null,
  first_pending_at timestamptz,
  sample_pk text,
  sample_error text,
  last_sent_at timestamptz,
  -- Set while the receivers believe that something is wrong; a recovery message clears it.
  firing boolean not null default false,
  primary key (flow, destination)
);

-- Orders in the sequence of their changes, for flows that tell the ERP about them.
create index orders_changed on orders (last_updated_at, id);
