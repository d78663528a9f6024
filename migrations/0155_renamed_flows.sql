-- expand: the version before makes everything of a renamed flow again
-- The first name of a renamed flow, which the idempotency keys of its deliveries contain; null for the present one.
alter table flow_state add column key_name text;
-- Whether a load of the flow files found no definition of the flow.
alter table flow_state add column is_without_definition boolean not null default false;
update flow_state set is_without_definition = true
  where flow in (select flow from flow_pause where why->>'code' = 'DEFINITION_MISSING');
