-- What is old is still found by flow and time, but nobody who looks an item up by its key can take these indexes for that: a
-- planner that knew nothing of a flow yet took them, and read all that the flow has for each of a thousand keys. Every row
-- is in them.
drop index item_versions_seen;
create index item_versions_seen on item_versions (flow, seen_at) where seen_at > '-infinity';
drop index item_attempts_at;
create index item_attempts_at on item_attempts (flow, at) where at > '-infinity';
