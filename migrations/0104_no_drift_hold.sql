-- A poll that finds a field missing fails; nothing is held, and nobody lets it through.
drop table held_drifts;
drop table held_changes;
delete from delete_approvals where subject = 'drift';
delete from flow_alerts where subject = 'drift';

-- What records have shown is kept without the kinds of values: of each field whether all records had it.
update flow_state set shape = jsonb_build_object(
  'records', shape->'records',
  'fields', coalesce((select jsonb_object_agg(key, value->'firm') from jsonb_each(shape->'fields')), '{}'))
where shape is not null;
