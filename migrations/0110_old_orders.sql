-- expand: the version before works without the two references
-- A key lives for 30 days and an order for a year at least. So the references guard nothing, and with them all keys would be read for
-- each order that is deleted.
alter table idempotency_keys drop constraint idempotency_keys_order_id_fkey;
alter table idempotency_keys drop constraint idempotency_keys_operation_id_fkey;

-- What belongs to an order is found without reading all of it.
create index orphans_order on orphans (order_id) where order_id is not null;
create index orphans_surplus_of on orphans (surplus_of) where surplus_of is not null;
