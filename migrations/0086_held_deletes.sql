-- A scan that met records which nobody could read counts for no delete, and what it missed is told all the same.
drop index flow_items_missed;
create index flow_items_missed on flow_items (flow, pk) where missed_since is not null;

-- How many of what vanished at once were let through one by one. They stay among those that the guard counts, or the approval of
-- one would bring the others below what it holds back.
alter table held_deletes add column let_through bigint not null default 0;
