-- Reports that are to be fetched from the provider, with the shop's own configuration of them, which is never changed.
create table settlement_fetches (
  id uuid primary key,
  client text not null references clients (name),
  report text not null check (report in ('settlement', 'release')),
  from_day text not null,
  to_day text not null,
  state text not null check (state in ('waiting', 'ordered', 'taken_in', 'refused')),
  -- The provider's task, and the name of its file once it is made.
  task_id text,
  file_name text,
  file_id uuid references settlement_files (id),
  -- Why it is refused, for people.
  reason text,
  failures integer not null default 0,
  next_look_at timestamptz,
  created_at timestamptz not null,
  ended_at timestamptz
);

-- Asked for again, the open one is answered.
create unique index settlement_fetches_open on settlement_fetches (client, report, from_day, to_day) where ended_at is null;
create index settlement_fetches_due on settlement_fetches (next_look_at) where next_look_at is not null;
