-- Set by a reset: the next poll forgets all items before it reads, in pieces, since a million at once would take seconds.
alter table flow_state add column forget_due boolean not null default false;
