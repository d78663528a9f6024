-- Of which charges without an order receivers were told, and of which that somebody did something about them.
alter table orphans
  add column told_at timestamptz,
  add column end_told_at timestamptz;

-- What was done before is news to nobody.
update orphans set told_at = found_at, end_told_at = coalesce(settled_at, found_at) where state <> 'open';

create index orphans_open on orphans (client) where state = 'open';
create index orphans_to_tell on orphans (found_at) where told_at is null;
create index orphans_end_to_tell on orphans (settled_at) where end_told_at is null and state <> 'open';
