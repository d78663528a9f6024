-- What is old is forgotten by a walk over the items, which looked at all of them anyway. These indexes were written for each new item
-- and each delivery, and read once an hour.
drop index item_versions_seen;
drop index item_attempts_at;
