-- alone: a question is answered in another way, and the tables of the former ways go
-- The open question about a changed definition: what was compared, the number of the read, what would be sent, and the answer
-- until it is applied. Null when nothing is asked.
alter table flow_state add column question jsonb;
-- Of a delivery that waits only because of the definition: the digest of its body, and what a later delete needs, as though it
-- had been delivered. Null for a change of the source.
alter table deliveries add column asked jsonb;
create index deliveries_asked on deliveries (flow, destination, pk) where asked is not null;

-- The destinations of the accepted definition are those with a form. One without must get all items.
update flow_state set destination_forms = coalesce((
  select jsonb_object_agg(key, value) from jsonb_each(destination_forms) where destinations is null or destinations ? key
), '{}');
update flow_state set destination_forms = destination_forms - coalesce((
  select array_agg(destination) from destination_fills where destination_fills.flow = flow_state.flow
), '{}'::text[]);
alter table flow_state drop column destinations;
alter table flow_state drop column pending_definition_hash;
alter table flow_state drop column asked_identities;
alter table flow_state drop column hash_forms;
alter table flow_pause drop column code;
drop table destination_fills;
delete from delete_approvals where subject = 'destination';
delete from flow_pause where why->>'code' in ('DEFINITION_CHANGED', 'DESTINATION_CHANGED');
