-- expand: the version before makes no viewer of the service, and lets one do nothing
-- A viewer of the whole service reads flows.
alter table people drop constraint people_role;
alter table people add constraint people_role check (case role
  when 'administrator' then stores is null
  when 'supervisor' then client is not null and jsonb_array_length(stores) > 0
  when 'viewer' then stores is null
  when 'flow_operator' then client is null and stores is null
  else false end);
