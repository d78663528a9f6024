-- expand: the version before does not tell a change of the source from one of the definition
-- The rules that the stored keys and hashes of items were made by.
alter table flow_state add column item_rules jsonb;
