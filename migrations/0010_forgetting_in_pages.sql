-- What is old is found by flow and time, without reading what other flows keep for longer. The block indexes before these
-- were of no use until something had cleaned the table.
drop index item_versions_seen;
create index item_versions_seen on item_versions (flow, seen_at);
drop index item_attempts_at;
create index item_attempts_at on item_attempts (flow, at);
