-- Flows: what their sources showed, what waits for their destinations, and what operators decided.

-- Numbers of reads and changes: they grow, whatever the clocks do.
create sequence flow_reads;

create table flow_state (
  flow text primary key,
  key_name text,
  first_seen_at timestamptz not null,
  is_without_definition boolean not null default false,
  definition_hash text not null,
  item_form text,
  item_rules jsonb,
  source_identity text,
  destination_identities jsonb not null default '{}',
  destination_forms jsonb not null default '{}',
  cursor text,
  cursor_origin text,
  record_fields jsonb,
  record_fields_form text,
  read_number bigint not null default 0,
  items_stamp text,
  last_poll_at timestamptz,
  last_success_at timestamptz,
  last_full_scan_at timestamptz,
  full_scan_due boolean not null default false,
  forget_due boolean not null default false,
  resets bigint not null default 0,
  waiting_why jsonb,
  waiting_since timestamptz,
  holds_deletes boolean not null default false,
  question jsonb
);
comment on table flow_state is 'What a flow has read, by which definition, and what it asks.';
comment on column flow_state.key_name is
  'The first name of a renamed flow, which its idempotency keys contain; null: the present name';
comment on column flow_state.is_without_definition is 'state: the last load of the flow files had no definition of the flow';
comment on column flow_state.definition_hash is 'SHA-256 of the definition by which the last poll read';
comment on column flow_state.item_form is
  'The part of the definition that decides keys and hashes; stored hashes are comparable with it';
comment on column flow_state.item_rules is 'The rules that made the stored keys and hashes';
comment on column flow_state.source_identity is
  'Which source it is: type, origin, database, table, path, hashed. What another one does not have is deleted only after an answer';
comment on column flow_state.destination_identities is 'By destination, which place it is';
comment on column flow_state.destination_forms is
  'By destination, the accepted form of the definition: nothing is sent by another one before it is accepted';
comment on column flow_state.cursor is
  'plan: where the next incremental poll begins; moves only in the transaction of the poll that read it';
comment on column flow_state.cursor_origin is
  'The source and field of the cursor; in another one it would hide everything before it';
comment on column flow_state.record_fields is 'By field that the flow uses, whether all records had it so far';
comment on column flow_state.record_fields_form is
  'How those records were read; of records read otherwise record_fields says nothing';
comment on column flow_state.read_number is 'The number of the latest poll that began, from flow_reads';
comment on column flow_state.items_stamp is
  'Another one whenever the items change; a poll writes it last, and by it knows again what it has in memory';
comment on column flow_state.full_scan_due is 'plan: the next poll reads everything';
comment on column flow_state.forget_due is 'plan: the next poll forgets all items before it reads';
comment on column flow_state.resets is 'Grows with each reset, so that a poll does not take one during it for done';
comment on column flow_state.waiting_why is 'state: why the last poll left a file for a later one; null if it did not';
comment on column flow_state.waiting_since is 'state: since when';
comment on column flow_state.holds_deletes is 'state: deletes of the source before wait for an answer';
comment on column flow_state.question is 'state: what the flow asks, and the answer until it is applied; null: nothing';

create table flow_items (
  flow text,
  pk text,
  hash text not null,
  seen_as text,
  changed_at timestamptz not null,
  read_number bigint not null default 0,
  missed_scans smallint not null default 0,
  missed_since bigint,
  primary key (flow, pk)
)
-- A changed hash is written on its page, and no index changes.
with (fillfactor = 90);
create index flow_items_missed on flow_items (flow, pk)
  where missed_since is not null;
comment on table flow_items is
  'What the source showed last, by item: only a hash, so that millions fit.';
comment on column flow_items.hash is 'Of the fields that the flow uses, with the form of the definition before its colon';
comment on column flow_items.seen_as is 'The content of the hash by the present form, where only the form changed';
comment on column flow_items.read_number is 'The read that showed the item as it is stored';
comment on column flow_items.missed_scans is 'Full scans in a row that missed the item';
comment on column flow_items.missed_since is 'The number of the first of them';

create table deliveries (
  flow text,
  destination text,
  pk text,
  version bigint not null,
  change_number bigint not null default 0,
  kind text not null check (kind in ('upsert', 'delete')),
  hash text not null,
  payload jsonb,
  state text not null check (state in ('waiting', 'done', 'failed')),
  attempts integer not null default 0,
  last_error text,
  last_status integer,
  why jsonb,
  queued_at timestamptz not null,
  not_before timestamptz,
  due_at timestamptz not null default '-infinity',
  finished_at timestamptz,
  skipped text,
  told_version bigint,
  may_have_arrived boolean not null default true,
  delivered_hash text,
  delivered_digest text,
  delivered_body jsonb,
  delivered_at timestamptz,
  claim text,
  claim_exact text,
  remembered jsonb,
  asked jsonb,
  primary key (flow, destination, pk)
)
-- A new row is sent soon, and its next version is written on its page.
with (fillfactor = 50);
create index deliveries_asked on deliveries (flow, destination, pk)
  where asked is not null;
create index deliveries_claims on deliveries (claim)
  where claim is not null;
create index deliveries_failed on deliveries (flow, destination, finished_at desc)
  where state = 'failed';
create index deliveries_failed_keys on deliveries (flow, destination, pk)
  where state = 'failed';
create index deliveries_skipped on deliveries (flow, finished_at desc)
  where skipped is not null;
create index deliveries_told on deliveries (flow, destination, state)
  where told_version is not null;
create index deliveries_untold on deliveries (flow, destination, pk)
  where state = 'failed' and told_version is distinct from version;
create index deliveries_waiting on deliveries (flow, destination, due_at, queued_at, pk)
  where state = 'waiting';
comment on table deliveries is
  'One row for each item and destination: what waits to be sent, and what was delivered last.';
comment on column deliveries.pk is 'The item''s key; with `\was:` and its identity for a row of a former identity';
comment on column deliveries.version is
  'state: grows with each change of the item; an outcome of an earlier version settles nothing';
comment on column deliveries.change_number is 'request: the read that found the change, part of the idempotency key';
comment on column deliveries.kind is 'request: upsert or delete';
comment on column deliveries.hash is 'request: the item''s hash';
comment on column deliveries.payload is 'request: the item as the source gave it; null once it is delivered, unless only this row has it';
comment on column deliveries.state is 'state: waiting, done, failed';
comment on column deliveries.attempts is 'state: attempts of this version';
comment on column deliveries.last_error is 'state: the sentence of the last failure';
comment on column deliveries.last_status is 'state: its HTTP status';
comment on column deliveries.why is 'state: its code and values';
comment on column deliveries.queued_at is 'plan: since when it waits';
comment on column deliveries.not_before is 'plan: not before this time: backoff, Retry-After, an open circuit';
comment on column deliveries.due_at is 'plan: the same by the database''s clock; -infinity: at once';
comment on column deliveries.skipped is
  'state: why the destination is not sent the item: its filter, or its mapping gives nothing';
comment on column deliveries.told_version is
  'plan: the version whose failure operators were notified of; null again once delivered';
comment on column deliveries.may_have_arrived is 'lease: an attempt without an answer may have arrived';
comment on column deliveries.delivered_hash is 'The item''s hash that was delivered last; null: nothing, or not known';
comment on column deliveries.delivered_digest is 'Of the mapped body that was delivered last; null: not known';
comment on column deliveries.delivered_body is
  'What a delete needs of that body: {whole}, or {part} of a body that is too large';
comment on column deliveries.claim is
  'The identity at the destination, folded: a delete looks for another living item that has it';
comment on column deliveries.claim_exact is 'The identity as it was written';
comment on column deliveries.remembered is
  'Values that the destination answered and later requests need, by their names in the flow file';
comment on column deliveries.asked is
  'Of a delivery that waits only because of the definition: its digest, body and identity; null for a change of the source';

create table item_versions (
  flow text,
  pk text,
  id bigint generated always as identity,
  seen_at timestamptz not null,
  kind text not null check (kind in ('upsert', 'delete')),
  hash text not null,
  payload jsonb,
  primary key (flow, pk, id)
);
comment on table item_versions is
  'What each item looked like when its source showed a change: for people. Trimmed by age and size.';
comment on column item_versions.payload is 'The item as the source gave it; null when it is too large';

create table item_attempts (
  flow text,
  pk text,
  id bigint generated always as identity,
  destination text not null,
  at timestamptz not null,
  kind text not null check (kind in ('upsert', 'delete')),
  hash text not null,
  attempt integer not null,
  outcome text not null check (outcome in ('delivered', 'retry', 'failed', 'skipped')),
  status integer,
  reason text,
  why jsonb,
  primary key (flow, pk, id)
);
comment on table item_attempts is 'What every destination answered: for people. Trimmed by age and size.';
comment on column item_attempts.hash is 'Of the content that was sent, as in item_versions';
comment on column item_attempts.why is 'The code and values of reason';

create table flow_errors (
  id uuid primary key,
  flow text not null,
  adapter text not null,
  pk text not null,
  error text not null,
  why jsonb,
  status integer,
  attempts integer not null,
  at timestamptz not null
);
create index flow_errors_at on flow_errors (at desc, id);
create index flow_errors_flow on flow_errors (flow, at desc);
create index flow_errors_item on flow_errors (flow, pk, at desc);
comment on table flow_errors is 'Final failures of jobs and polls that failed, for people.';
comment on column flow_errors.adapter is 'The destination''s name, or source for a poll';
comment on column flow_errors.why is 'The code and values of error';

create table flow_polls (
  id bigint generated always as identity primary key,
  flow text not null,
  kind text not null check (kind in ('full', 'incremental')),
  started_at timestamptz not null,
  duration_ms integer not null,
  rows_read bigint not null,
  changes bigint not null,
  error text,
  why jsonb,
  items_new bigint,
  items_changed bigint,
  items_deleted bigint,
  items_refused bigint
);
create index flow_polls_flow on flow_polls (flow, id desc);
comment on table flow_polls is 'The last polls. Older ones are only counted in flow_totals.';
comment on column flow_polls.why is 'The code and values of error';
comment on column flow_polls.items_new is 'Items of the poll; null when it failed';

create table flow_progress (
  flow text primary key,
  started_at timestamptz not null,
  rows_read bigint not null,
  changes bigint not null,
  updated_at timestamptz not null
);
comment on table flow_progress is 'The running poll, shown by other processes.';

create table flow_totals (
  flow text primary key,
  runs bigint not null default 0,
  poll_errors bigint not null default 0,
  jobs_completed bigint not null default 0,
  jobs_failed bigint not null default 0
);
comment on table flow_totals is 'Counts since the flow exists.';

create table flow_pause (
  flow text primary key,
  paused_at timestamptz not null default now(),
  paused_by text not null default current_user,
  reason text,
  why jsonb
);
comment on table flow_pause is
  'Paused flows. A name without a definition may stand here: a flow is paused before it runs.';
comment on column flow_pause.why is 'The code and values of reason';

create table flow_limits (
  flow text primary key,
  run_limit integer not null check (run_limit between 1 and 1000000),
  run_count integer not null default 0,
  set_at timestamptz not null
);
comment on table flow_limits is
  'Limits of runs. A restart deletes them; a table, so that several processes agree.';
comment on column flow_limits.run_count is 'state: polls so far';

create table send_stops (
  flow text,
  destination text,
  stopped_at timestamptz not null,
  stopped_by text not null,
  reason text,
  ended_at timestamptz,
  primary key (flow, destination)
);
comment on table send_stops is
  'Where a person has stopped sending. A row stays when its stop ends: what waited meanwhile has not waited for the destination.';
comment on column send_stops.flow is 'Empty: every flow';
comment on column send_stops.destination is 'Empty: every destination';
comment on column send_stops.ended_at is 'state: null while the stop is in force';

create table destination_states (
  flow text,
  destination text,
  state text not null check (state in ('silent', 'open', 'probing')),
  cause text,
  why jsonb,
  since timestamptz not null,
  next_attempt_at timestamptz,
  primary key (flow, destination)
);
comment on table destination_states is
  'Why a destination is sent nothing now, written by the process that sends. No row: nothing is in its way.';
comment on column destination_states.state is 'state: silent, open (the circuit) or probing';
comment on column destination_states.why is 'The code and values of cause';

create table failure_groups (
  flow text,
  channel text,
  destination text,
  pending integer not null default 0,
  first_pending_at timestamptz,
  examples jsonb not null default '[]',
  firing boolean not null default false,
  firing_since timestamptz,
  last_sent_at timestamptz,
  messages integer not null default 0,
  message_id text,
  primary key (flow, channel, destination)
);
comment on table failure_groups is 'Failed deliveries that a channel is notified of together.';
comment on column failure_groups.channel is 'The channel as the flow file names it; no secret';
comment on column failure_groups.pending is 'plan: failures since the last message';
comment on column failure_groups.first_pending_at is 'plan: the first of them';
comment on column failure_groups.examples is 'A few of them';
comment on column failure_groups.firing is 'state: the channel believes that something is wrong';
comment on column failure_groups.messages is 'Messages so far, part of their ids';
comment on column failure_groups.message_id is 'plan: the message that is being sent';

create table flow_activity (
  id bigint generated always as identity primary key,
  at timestamptz not null,
  flow text,
  action text not null,
  actor text not null,
  detail text,
  why jsonb
);
create index flow_activity_at on flow_activity (id desc);
comment on table flow_activity is 'Who did what with a flow.';
comment on column flow_activity.why is 'The code and values of detail';

create table oauth_grants (
  id text primary key,
  refresh_token text not null,
  access_token text,
  expires_at timestamptz,
  renewed_at timestamptz,
  version integer not null default 1,
  renewal_began_at timestamptz,
  unheard_since timestamptz,
  lost_at timestamptz,
  lost_reason text,
  used_by text not null,
  used_at timestamptz not null
);
create index oauth_grants_access_key on oauth_grants (split_part(access_token, '.', 2), id);
create index oauth_grants_refresh_key on oauth_grants (split_part(refresh_token, '.', 2), id);
comment on table oauth_grants is
  'The newest refresh token of each access that a destination was given. The issuer replaces it at each renewal, and there is no other copy.';
comment on column oauth_grants.id is 'SHA-256 of where it is renewed, for whom, and of the first refresh token';
comment on column oauth_grants.refresh_token is 'Encrypted (AES-256-GCM)';
comment on column oauth_grants.access_token is 'Encrypted';
comment on column oauth_grants.expires_at is 'plan: when access_token ends';
comment on column oauth_grants.version is 'Grows with each renewal';
comment on column oauth_grants.renewal_began_at is 'lease: a renewal is under way, or was when its process ended';
comment on column oauth_grants.unheard_since is
  'state: since when a renewal has no answer: it may have used this refresh token up';
comment on column oauth_grants.lost_at is 'state: nothing is renewed any more; another first token is needed';
comment on column oauth_grants.used_by is 'The flow and destination that used it last';
