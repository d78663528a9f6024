-- When each closing, or what was amended to it, last changed: for flows that tell the ERP. Apart from the closing itself, since
-- a signed one never changes.
create table closing_changes (
  closing_id uuid primary key references closings (id),
  client text not null,
  -- In whole milliseconds, as positions of readers have them.
  changed_at timestamptz not null
);

create index closing_changes_at on closing_changes (changed_at, closing_id);

insert into closing_changes
  select id, client, date_trunc('milliseconds', coalesce(signed_at, read_at, created_at)) from closings;

create function note_closing_change() returns trigger language plpgsql as $$
begin
  insert into closing_changes (closing_id, client, changed_at)
    values (case when tg_table_name = 'closings' then new.id else (to_jsonb(new) ->> 'closing_id')::uuid end, new.client,
      date_trunc('milliseconds', clock_timestamp()))
    on conflict (closing_id) do update set changed_at = excluded.changed_at;
  return null;
end
$$;

create trigger closings_noted after insert or update on closings
  for each row execute function note_closing_change();
create trigger closing_amendments_noted after insert on closing_amendments
  for each row execute function note_closing_change();
