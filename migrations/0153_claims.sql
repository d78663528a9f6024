-- expand: the version before writes and reads neither, and deletes without looking at them
-- The identity under which an item stands at its destination: a delete looks whether another living item has the same.
alter table deliveries add column claim text;
alter table deliveries add column claim_exact text;
create index deliveries_claims on deliveries (claim) where claim is not null;
