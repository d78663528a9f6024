-- A hash counts the fields that destinations use; its form (before the colon) says which. What forms stand for, by flow.
alter table flow_state add column hash_forms jsonb not null default '{}';
-- The content of `hash` by the present form, where that is another: an item must not count as changed when only the form did.
alter table flow_items add column seen_as text;
