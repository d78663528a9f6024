-- alone: the version before reads the values in the table that goes
-- What a receiver told of an item and later requests about it need, such as the id that it gave it: texts, numbers and truth
-- values by their names in the flow file. Null: nothing.
alter table deliveries add column remembered jsonb;

update deliveries set remembered = told.named
from remembered_values as told
where (deliveries.flow, deliveries.destination, deliveries.pk) = (told.flow, told.destination, told.pk);

-- An item that a flow has forgotten has its values still, in case it returns.
insert into deliveries
  (flow, destination, pk, version, change_number, kind, hash, delivered_hash, state, attempts, queued_at, finished_at,
    may_have_arrived, remembered)
select flow, destination, pk, 1, 0, 'delete', 'deleted', 'deleted', 'done', 0, at, at, false, named
from remembered_values
on conflict do nothing;

drop table remembered_values;
