-- The audit log.

create table activity_log (
  seq bigint generated always as identity,
  id uuid primary key,
  client_name text,
  ip_address text,
  action text not null,
  resource_type text not null,
  resource_id text,
  status text not null check (status in ('success', 'failed')),
  error_message text,
  metadata jsonb not null,
  duration_ms integer not null,
  created_at timestamptz not null,
  key_id text not null,
  previous_hash text,
  hash text not null
);
create index activity_log_action on activity_log (action, seq desc);
create index activity_log_client on activity_log (client_name, seq desc);
create index activity_log_failed on activity_log (seq desc)
  where status = 'failed';
create index activity_log_key on activity_log (key_id, seq);
create index activity_log_order on activity_log (resource_id, seq desc)
  where resource_type = 'order' and action <> 'order.created';
create index activity_log_person on activity_log (((metadata ->> 'person_id')), seq desc)
  where (metadata ->> 'person_id') is not null;
create index activity_log_seq on activity_log (seq);
create index activity_log_time on activity_log using brin (created_at);
comment on table activity_log is
  'The audit log: who did what and when. Append-only. An entry is committed with what it is about, and authenticated by itself; a seal gives it its place in the chain afterwards.';
comment on column activity_log.seq is 'The order of writing, with gaps; the place in the chain is activity_seals.seq';
comment on column activity_log.key_id is 'The audit key of the hash';
comment on column activity_log.previous_hash is 'Null: entries are linked by their seals';
comment on column activity_log.hash is 'HMAC of the entry';

-- The audit log is append-only.
create function refuse_activity_change() returns trigger language plpgsql as $$
begin
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

create table activity_seals (
  seq bigint,
  entry_id uuid not null,
  previous_hash text not null,
  hash text,
  primary key (seq, hash)
);
create index activity_seals_entry on activity_seals (entry_id, seq);
comment on table activity_seals is
  'The chain of the audit log. One process at a time adds the seals of committed entries.';
comment on column activity_seals.seq is 'The place in the chain: 1, 2, 3 without a gap';
comment on column activity_seals.previous_hash is 'The hash of the seal before';
comment on column activity_seals.hash is 'HMAC of the place, the hash before and the entry''s hash';

create table activity_unsealed (
  entry_id uuid primary key
);
comment on table activity_unsealed is
  'Entries that wait for their seal: committed with the entry, deleted with its seal.';

create table activity_head (
  one boolean default true check (one) primary key,
  seq bigint not null,
  hash text not null,
  key_id text,
  mac text
);
comment on table activity_head is
  'The end of the chain, one row. Its row lock lets one process seal at a time.';
comment on column activity_head.seq is 'The last place in the chain';
comment on column activity_head.hash is 'The hash of the last seal';
comment on column activity_head.mac is
  'HMAC of the row with a key that the database does not have; null until the first start';

insert into activity_head (seq, hash) values (0, '');

create table activity_archives (
  first_seq bigint primary key,
  last_seq bigint not null,
  last_hash text not null,
  key_ids text[] not null,
  archived_at timestamptz not null
);
create index activity_archives_last on activity_archives (last_seq);
comment on table activity_archives is 'Sealed entries that were moved to a file.';
comment on column activity_archives.last_hash is 'The seal of the last entry in the file: the next entry links to it';
comment on column activity_archives.key_ids is 'The audit keys of its entries';

-- An entry may leave the log when a file has it.
create function refuse_unarchived_entry() returns trigger language plpgsql as $$
begin
  if exists (select from activity_seals where entry_id = old.id
      and seq between 1 and (select max(last_seq) from activity_archives)) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

-- So may its seal.
create function refuse_unarchived_seal() returns trigger language plpgsql as $$
begin
  if old.seq between 1 and (select max(last_seq) from activity_archives) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

create trigger activity_log_no_truncate before truncate on activity_log
  for each statement execute function refuse_activity_change();

create trigger activity_log_append_only before update on activity_log
  for each row execute function refuse_activity_change();

create trigger activity_log_archived before delete on activity_log
  for each row execute function refuse_unarchived_entry();

create trigger activity_seals_no_truncate before truncate on activity_seals
  for each statement execute function refuse_activity_change();

create trigger activity_seals_append_only before update on activity_seals
  for each row execute function refuse_activity_change();

create trigger activity_seals_archived before delete on activity_seals
  for each row execute function refuse_unarchived_seal();

create trigger activity_archives_append_only before delete or update on activity_archives
  for each row execute function refuse_activity_change();

create trigger activity_archives_no_truncate before truncate on activity_archives
  for each statement execute function refuse_activity_change();
