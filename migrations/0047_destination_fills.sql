-- Destinations that are to get every item once more, or for the first time, without the others: from the read of this
-- number on. Gone when a full scan has seen to it.
create table destination_fills (
  flow text not null,
  destination text not null,
  asked bigint not null,
  primary key (flow, destination)
);

-- The destinations of the definition that is accepted, so that one that was added is known as such.
alter table flow_state add column destinations jsonb;
