-- When a delivery that waits is due, by the database's own clock; what is due at once stands before every time, so that no
-- clock that is set back holds it up. Whoever works a destination walks over these rows, and needs no job for each of them.
alter table deliveries add column due_at timestamptz not null default '-infinity';
update deliveries set due_at = not_before where state = 'waiting' and not_before > now();

drop index deliveries_waiting;
create index deliveries_waiting on deliveries (flow, destination, due_at, queued_at, pk)
  where state = 'waiting';

-- How many deliveries each process has in hand, for /stats.
create table delivery_hands (
  process text primary key,
  in_hand integer not null,
  at timestamptz not null
);
