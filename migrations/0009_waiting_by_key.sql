-- The rows that wait are walked in pages, by the time since when they wait and their key.
drop index deliveries_waiting;
create index deliveries_waiting on deliveries (flow, destination, queued_at, pk) where state = 'waiting';
