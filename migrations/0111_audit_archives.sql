-- expand: the version before writes and seals entries as before; its check finds the archived ones missing
-- Sealed entries that were moved to a file, 1,000 in each: which places of the chain a file holds, and which keys signed them.
create table activity_archives (
  first_seq bigint primary key,
  last_seq bigint not null,
  -- The seal of the last entry in the file: the next entry links to it.
  last_hash text not null,
  key_ids text[] not null,
  archived_at timestamptz not null
);
create index activity_archives_last on activity_archives (last_seq);

create trigger activity_archives_append_only before update or delete on activity_archives
  for each row execute function refuse_activity_change();
create trigger activity_archives_no_truncate before truncate on activity_archives
  for each statement execute function refuse_activity_change();

-- An entry and its seal may leave the log when a file holds them.
create function refuse_unarchived_entry() returns trigger language plpgsql as $$
begin
  if exists (select from activity_seals where entry_id = old.id
      and seq between 1 and (select max(last_seq) from activity_archives)) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;
create function refuse_unarchived_seal() returns trigger language plpgsql as $$
begin
  if old.seq between 1 and (select max(last_seq) from activity_archives) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;
drop trigger activity_log_append_only on activity_log;
create trigger activity_log_append_only before update on activity_log
  for each row execute function refuse_activity_change();
create trigger activity_log_archived before delete on activity_log
  for each row execute function refuse_unarchived_entry();
drop trigger activity_seals_append_only on activity_seals;
create trigger activity_seals_append_only before update on activity_seals
  for each row execute function refuse_activity_change();
create trigger activity_seals_archived before delete on activity_seals
  for each row execute function refuse_unarchived_seal();
