-- How boxes, connections, kinds of calls to the provider, flows and destinations fare. The first two tables hold what no
-- other row tells, written in batches a moment later; the others what is derived from it all, by one process at a time.

-- Attempts of calls to the provider, counted by kind and by stretches of 10 seconds; forgotten after an hour.
create table provider_tallies (
  operation text not null,
  slot timestamptz not null,
  answered integer not null default 0,
  failed integer not null default 0,
  -- Answers that asked for fewer calls (429).
  throttled integer not null default 0,
  last_code text,
  primary key (operation, slot)
);

create index provider_tallies_slot on provider_tallies (slot);

-- The last refused charges of a box, which may leave no order, and what was last read about its terminals.
create table box_sightings (
  client text not null,
  caja_id text not null,
  refused_code text,
  refused_since timestamptz,
  refused_at timestamptz,
  refusals integer not null default 0,
  found text check (found in ('pdv', 'standalone', 'missing')),
  terminal_id text,
  found_since timestamptz,
  found_at timestamptz,
  primary key (client, caja_id)
);

-- The state that each thing was last told to have.
create table fleet_states (
  kind text not null check (kind in ('box', 'connection', 'provider', 'flow', 'destination')),
  scope text not null,
  name text not null,
  state text not null check (state in ('ok', 'attention', 'down', 'unknown')),
  cause text,
  since timestamptz,
  about jsonb not null default '{}',
  primary key (kind, scope, name)
);

-- Every change of a state. Ids grow in the order of the changes: they are written under a lease.
create table fleet_changes (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  kind text not null,
  scope text not null,
  name text not null,
  from_state text,
  from_cause text,
  -- 'gone' when there is no such thing any more.
  state text not null check (state in ('ok', 'attention', 'down', 'unknown', 'gone')),
  cause text,
  since timestamptz,
  about jsonb not null default '{}'
);

create index fleet_changes_of on fleet_changes (kind, scope, name, id desc);
create index fleet_changes_at on fleet_changes (at);
