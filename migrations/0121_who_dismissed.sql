-- expand: the version before leaves it empty
-- Who decided about an unclaimed payment: {"kind": "person", "name": "Ana"}. Null: not decided, or decided before this was stored.
alter table orphans add column settled_by jsonb;
