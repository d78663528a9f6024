-- The chain of the audit log is made after the commit. Until now every write waited for the row of the chain's end; from now
-- on an entry is committed with what it tells of, signed by itself, and one process at a time seals what was committed: it
-- gives each entry its place in the chain. What is still to be sealed stands in a table of its own, so an entry whose
-- transaction ends late is sealed late and never passed over.

-- From here on `seq` is the order of writing, with gaps where a transaction was rolled back; the place in the chain stands in
-- activity_seals. Nobody can foresee an id, so no row put in the way of the next one makes a write fail.
alter table activity_log drop constraint activity_log_pkey;
alter table activity_log drop constraint activity_log_id_key;
alter table activity_log add primary key (id);
alter table activity_log alter column seq set not null;
alter table activity_log alter column seq add generated always as identity;
select setval(pg_get_serial_sequence('activity_log', 'seq'), (select coalesce(max(seq), 0) + 1 from activity_log), false);
create index activity_log_seq on activity_log (seq);
-- Null for entries that are sealed apart from their row; then `hash` covers the entry alone.
alter table activity_log alter column previous_hash drop not null;

create table activity_seals (
  -- The place in the chain: 1, 2, 3 and so on, without gaps.
  seq bigint not null,
  entry_id uuid not null,
  previous_hash text not null,
  hash text not null,
  -- With the hash, which nobody can foresee either: rows beyond the end do not stop the chain.
  primary key (seq, hash)
);

-- Entries from before keep their places, hashes and links, and are verified by the rule they were made with; the first new
-- seal links to the last of them.
insert into activity_seals (seq, entry_id, previous_hash, hash)
  select seq, id, previous_hash, hash from activity_log order by seq;
create index activity_seals_entry on activity_seals (entry_id, seq);

create trigger activity_seals_append_only before update or delete on activity_seals
  for each row execute function refuse_activity_change();
create trigger activity_seals_no_truncate before truncate on activity_seals
  for each statement execute function refuse_activity_change();

-- Committed with the entry, gone with its seal.
create table activity_unsealed (entry_id uuid primary key);

-- The end of the chain is signed with a key that the database does not hold. Null until the next start, which has the key.
alter table activity_head add column key_id text, add column mac text;
