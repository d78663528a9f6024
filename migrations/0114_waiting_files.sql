-- expand: the version before records a failed poll instead, and leaves what it finds here
-- While a poll leaves a file that is still written, or whose marker is missing: why, and since when.
alter table flow_state add column waiting_why jsonb;
alter table flow_state add column waiting_since timestamptz;
