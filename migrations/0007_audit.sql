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
  mac text not null
);
create index activity_log_action on activity_log (action, seq desc);
create index activity_log_client on activity_log (client_name, seq desc);
create index activity_log_failed on activity_log (seq desc)
  where status = 'failed';
create index activity_log_order on activity_log (resource_id, seq desc)
  where resource_type = 'order' and action <> 'order.created';
create index activity_log_person on activity_log (((metadata ->> 'person_id')), seq desc)
  where (metadata ->> 'person_id') is not null;
create index activity_log_seq on activity_log (seq);
create index activity_log_time on activity_log using brin (created_at);
comment on table activity_log is
  'The audit log: who did what and when. Append-only. An entry is committed with what it is about, and authenticated by itself; a seal gives it its place in the chain afterwards.';
comment on column activity_log.seq is 'The order of writing, with gaps; the place in the chain is activity_seals.seq';
comment on column activity_log.mac is 'HMAC of the entry with the audit key (settings.audit_key)';

-- The audit log is append-only.
create function refuse_activity_change() returns trigger language plpgsql as $$
begin
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

create table activity_seals (
  seq bigint primary key,
  entry_id uuid not null,
  hash text not null
);
create index activity_seals_entry on activity_seals (entry_id, seq);
comment on table activity_seals is
  'The chain of the audit log. One process at a time adds the seals of committed entries.';
comment on column activity_seals.seq is 'The place in the chain: 1, 2, 3 without a gap';
comment on column activity_seals.hash is 'SHA-256 of the hash before, the entry''s mac, its seq and the place';

create table activity_unsealed (
  entry_id uuid primary key
);
comment on table activity_unsealed is
  'Entries that wait for their seal: committed with the entry, deleted with its seal.';

create table activity_head (
  one boolean default true check (one) primary key,
  start_seq bigint not null,
  start_hash text not null,
  lost_seq bigint not null,
  seq bigint not null,
  hash text not null,
  mac text
);
comment on table activity_head is
  'Start and end of the chain, one row. Its row lock lets one process change the chain at a time.';
comment on column activity_head.start_seq is
  'The place of the last entry that was deleted for its age; 0: none was. The check starts after it';
comment on column activity_head.start_hash is 'The hash of that entry''s seal';
comment on column activity_head.lost_seq is
  'The contents of entries up to this place cannot be checked: their audit key was lost';
comment on column activity_head.seq is 'The last place in the chain';
comment on column activity_head.hash is 'The hash of the last seal';
comment on column activity_head.mac is 'HMAC of the row with the audit key; null until the first start';

insert into activity_head (start_seq, start_hash, lost_seq, seq, hash) values (0, '', 0, 0, '');

-- An entry may leave the log when the chain starts after it.
create function refuse_kept_entry() returns trigger language plpgsql as $$
begin
  if exists (select from activity_seals where entry_id = old.id
      and seq between 1 and (select start_seq from activity_head)) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

-- So may its seal, and a row beyond the end of the chain, which the service has not written.
create function refuse_kept_seal() returns trigger language plpgsql as $$
begin
  if exists (select from activity_head where old.seq not between start_seq + 1 and seq) then
    return old;
  end if;
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

create trigger activity_log_no_truncate before truncate on activity_log
  for each statement execute function refuse_activity_change();

create trigger activity_log_append_only before update on activity_log
  for each row execute function refuse_activity_change();

create trigger activity_log_kept before delete on activity_log
  for each row execute function refuse_kept_entry();

create trigger activity_seals_no_truncate before truncate on activity_seals
  for each statement execute function refuse_activity_change();

create trigger activity_seals_append_only before update on activity_seals
  for each row execute function refuse_activity_change();

create trigger activity_seals_kept before delete on activity_seals
  for each row execute function refuse_kept_seal();
