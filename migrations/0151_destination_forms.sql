-- expand: the version before sends by any definition
-- By destination, the form of the definition that was accepted last: nothing is sent by another one before it is accepted.
alter table flow_state add column destination_forms jsonb not null default '{}';
