-- How the records of a source look, as the polls that were let through have shown them: by field the kinds of its values.
-- Of another shape_form (how the source is read, and what is made of a record) it says nothing.
alter table flow_state add column shape jsonb;
alter table flow_state add column shape_form text;

-- A source that does not look as it did: nothing of the flow is sent until somebody lets it through, or it looks as before.
create table held_drifts (
  flow text primary key,
  -- For people.
  reason text not null,
  findings jsonb not null,
  since timestamptz not null,
  held_at timestamptz not null,
  -- Of the poll that found this.
  read_number bigint not null
);

-- The changes that were too many at once, as they were found: what is approved are these.
create table held_changes (
  flow text not null,
  pk text not null,
  hash text not null,
  primary key (flow, pk)
);

-- What an operator lets through once: deletes, or a drift.
alter table delete_approvals add column subject text not null default 'deletes'
  check (subject in ('deletes', 'drift'));
alter table delete_approvals drop constraint delete_approvals_pkey;
alter table delete_approvals add primary key (flow, subject, pk);
