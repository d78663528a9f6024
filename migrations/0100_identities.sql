-- What a flow remembers belongs to the source and the destinations that it was learnt from: type, origin, database, table, path, hashed.
-- Null, or no entry: from before, or of a flow that is new; the next start takes what it finds.
alter table flow_state add column source_identity text;
alter table flow_state add column destination_identities jsonb not null default '{}';
-- What an operator was asked about: the new identities, by destination.
alter table flow_state add column asked_identities jsonb;
-- The source is another one: what it does not have is deleted only when that is approved.
alter table flow_state add column holds_deletes boolean not null default false;

alter table flow_pause add column code text;

alter table delete_approvals drop constraint delete_approvals_subject_check;
alter table delete_approvals add constraint delete_approvals_subject_check
  check (subject in ('deletes', 'drift', 'destination'));
