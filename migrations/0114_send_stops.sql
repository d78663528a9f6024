-- expand: the version before does not read it, and goes on sending
-- Where somebody has stopped sending: '' as the flow stands for every flow, '' as the destination for every destination. A row
-- stays when its stop ends: what waited meanwhile has not waited for the destination.
create table send_stops (
  flow text not null,
  destination text not null,
  stopped_at timestamptz not null,
  stopped_by text not null,
  reason text,
  ended_at timestamptz,
  primary key (flow, destination)
);
