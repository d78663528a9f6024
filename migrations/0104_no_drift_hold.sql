-- expand: the version before goes on holding flows by tables and columns that are left as they are
-- Of each field that a flow uses, whether all records of its source had it so far; of records that are read and made into items in
-- another way (record_fields_form) it says nothing. A poll fails when such a field is gone; no flow is held any more.
alter table flow_state add column record_fields jsonb;
alter table flow_state add column record_fields_form text;
update flow_state set record_fields_form = shape_form, record_fields = jsonb_build_object(
  'records', shape->'records',
  'fields', coalesce((select jsonb_object_agg(key, value->'firm') from jsonb_each(shape->'fields')), '{}'))
where shape is not null;
delete from flow_alerts where subject = 'drift';
