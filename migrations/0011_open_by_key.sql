-- What is open, and what failed, is walked in pages by key.
drop index deliveries_open;
create index deliveries_open on deliveries (flow, destination, pk) where state <> 'done';
create index deliveries_failed_keys on deliveries (flow, destination, pk) where state = 'failed';
