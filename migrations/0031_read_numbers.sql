-- Reads of sources are put in order by a counter of the database: clocks are set back, processes stand still.
create sequence flow_reads;

-- Of the read that showed the item as it is stored.
alter table flow_items add column read_number bigint not null default 0;
-- Of the latest poll that began.
alter table flow_state add column read_number bigint not null default 0;
-- Of the read that found the change that is owed, or was delivered last: it makes the idempotency key one per change.
alter table deliveries add column change_number bigint not null default 0;
