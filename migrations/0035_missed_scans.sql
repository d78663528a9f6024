-- In how many full scans, one after the other, an item was missing, and the number of the first of them. A page that
-- drifts leaves an item out once; one that is gone stays out.
alter table flow_items add column missed_scans smallint not null default 0;
alter table flow_items add column missed_since bigint;
create index flow_items_missed on flow_items (flow, pk) where missed_scans > 0;

-- Deletes that the guard holds back, as the last full scan found them; gone when there are none any more.
create table held_deletes (
  flow text primary key,
  items bigint not null,
  known bigint not null,
  reason text not null,
  since timestamptz not null,
  held_at timestamptz not null,
  -- Of the scan that found them.
  read_number bigint not null
);

-- What an operator lets through once: what was missing in that read or before, of one item or (pk '') of all.
create table delete_approvals (
  flow text not null,
  pk text not null,
  read_number bigint not null,
  approved_by text not null,
  approved_at timestamptz not null,
  primary key (flow, pk)
);
