-- Closings of boxes and stores, settlement reports, and what charges cost.

create table closings (
  id uuid primary key,
  client text not null references clients (name),
  place text not null,
  number integer not null check (number >= 1),
  caja_id text,
  sucursal_id text not null,
  mp_user_id bigint not null,
  business_day date not null,
  time_zone text not null,
  requested_from timestamptz not null,
  requested_to timestamptz not null,
  from_at timestamptz not null,
  to_at timestamptz not null,
  follows_at timestamptz,
  declared jsonb not null default '{}',
  created_at timestamptz not null,
  state text not null check (state in ('open', 'checking', 'agreed', 'differs', 'unverified', 'signed')),
  result text check (result in ('agreed', 'differs', 'unverified')),
  reason text,
  totals jsonb,
  lines jsonb not null default '[]',
  read_at timestamptz,
  failures integer not null default 0,
  next_check_at timestamptz,
  signed_at timestamptz,
  signed_by text,
  check (to_at > from_at),
  check ((state = 'signed') = (signed_at is not null)),
  unique (client, place, number),
  check (follows_at = from_at),
  unique (client, place, to_at),
  constraint closings_follows_key unique (client, place, follows_at),
  constraint closings_follows_fkey foreign key (client, place, follows_at) references closings (client, place, to_at)
    deferrable
);
create index closings_client on closings (client, business_day desc, created_at desc, id);
create index closings_due on closings (next_check_at)
  where next_check_at is not null;
create unique index closings_first on closings (client, place)
  where follows_at is null;
comment on table closings is
  'A day or shift of a box or store, compared with the provider''s payments. Never deleted; a signed one never changes.';
comment on column closings.place is
  'request: `caja:` or `sucursal:` and the ERP''s id; its closings are numbered 1, 2, 3 without a gap';
comment on column closings.business_day is 'request: the day by the clock of the store';
comment on column closings.time_zone is 'request: the store''s time zone then';
comment on column closings.requested_from is 'request: the span as requested';
comment on column closings.requested_to is 'request: the span as requested';
comment on column closings.from_at is 'request: where the span begins: the end of the closing before it';
comment on column closings.to_at is 'request: where the span ends';
comment on column closings.follows_at is
  'request: from_at, when another closing ends there; null for the first one of a place';
comment on column closings.declared is 'request: cents by medium, as a person counted them';
comment on column closings.state is 'state: open, checking, agreed, differs, unverified, signed';
comment on column closings.result is 'state: what was signed: agreed, differs or unverified';
comment on column closings.reason is 'state: why it is unverified';
comment on column closings.totals is 'state: sums of the comparison';
comment on column closings.lines is 'state: the differences, charge by charge';
comment on column closings.read_at is 'state: when the first page of the comparison was requested';
comment on column closings.failures is 'plan: failed comparisons in a row';
comment on column closings.next_check_at is 'plan: the next comparison; null when it has one';

-- A signed closing never changes, and no closing is deleted: its number would be missing. A closing of an earlier time may be
-- added: then the first one follows it.
create function refuse_closing_change() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    raise exception 'a closing is never deleted' using errcode = 'restrict_violation';
  end if;
  if old.follows_at is null and new.follows_at = old.from_at
    and to_jsonb(new) - 'follows_at' = to_jsonb(old) - 'follows_at' then
    return new;
  end if;
  if old.state = 'signed' then
    raise exception 'closing % is signed', old.id using errcode = 'restrict_violation';
  end if;
  if new.id <> old.id or new.client <> old.client or new.place <> old.place or new.number <> old.number
    or new.business_day <> old.business_day or new.from_at <> old.from_at
    or new.follows_at is distinct from old.follows_at then
    raise exception 'closing % keeps its number, day and span', old.id using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

-- The first closing of a place follows nothing; each other one begins where another ends, and none begins twice.
create function follow_last_closing() returns trigger language plpgsql as $$
begin
  if exists (select from closings where client = new.client and place = new.place and follows_at is null) then
    new.follows_at := new.from_at;
  end if;
  return new;
end
$$;

create table closing_amendments (
  id uuid primary key,
  closing_id uuid not null references closings (id),
  client text not null references clients (name),
  number integer not null check (number >= 1),
  reason text not null,
  result text not null check (result in ('agreed', 'differs', 'unverified')),
  totals jsonb not null,
  lines jsonb not null,
  created_at timestamptz not null,
  created_by text,
  unique (closing_id, number)
);
comment on table closing_amendments is 'What changed in a day after its closing was signed. Never changed.';
comment on column closing_amendments.number is '1, 2, 3 within the closing';
comment on column closing_amendments.totals is 'The day as it was compared then';

-- What was signed stays as it was signed, and so does each amendment.
create function refuse_amendment_change() returns trigger language plpgsql as $$
begin
  raise exception 'an amendment never changes' using errcode = 'restrict_violation';
end
$$;

create table closing_changes (
  closing_id uuid primary key references closings (id),
  client text not null,
  changed_at timestamptz not null
);
create index closing_changes_at on closing_changes (changed_at, closing_id);
comment on table closing_changes is
  'When each closing, or an amendment of it, last changed: for flows that send closings. Apart from closings, since a signed one never changes.';
comment on column closing_changes.changed_at is 'In whole milliseconds, as cursors have them';

-- For readers of changes: a signed closing cannot have a column for it.
create function note_closing_change() returns trigger language plpgsql as $$
begin
  insert into closing_changes (closing_id, client, changed_at)
    values (case when tg_table_name = 'closings' then new.id else (to_jsonb(new) ->> 'closing_id')::uuid end, new.client,
      date_trunc('milliseconds', clock_timestamp()))
    on conflict (closing_id) do update set changed_at = excluded.changed_at;
  return null;
end
$$;

create trigger closings_signed before delete or update on closings
  for each row execute function refuse_closing_change();

create trigger closings_noted after insert or update on closings
  for each row execute function note_closing_change();

create trigger closings_follow before insert on closings
  for each row execute function follow_last_closing();

create trigger closing_amendments_fixed before delete or update on closing_amendments
  for each row execute function refuse_amendment_change();

create trigger closing_amendments_noted after insert on closing_amendments
  for each row execute function note_closing_change();

create table charge_classes (
  name text,
  entity text default '',
  class text not null check (class in ('fee', 'financing', 'tax', 'payer')),
  origin text not null default 'operator' check (origin in ('built_in', 'operator')),
  updated_at timestamptz not null default now(),
  applied boolean not null default false,
  primary key (name, entity)
);
comment on table charge_classes is
  'What the names of the provider''s charges mean. An operator adds rows, since the provider adds names without notice.';
comment on column charge_classes.name is 'The provider''s name of the charge; * at its end matches any text';
comment on column charge_classes.entity is 'The provider''s entity; empty: any, or none';
comment on column charge_classes.class is 'fee, financing, tax or payer';
comment on column charge_classes.applied is 'Every net amount has been computed with the row';

insert into charge_classes (name, class, origin, applied) values
  ('mp_processing_fee', 'fee', 'built_in', true),
  ('meli_percentage_fee', 'fee', 'built_in', true),
  ('mp_financing_fee', 'financing', 'built_in', true),
  ('financing_add_on_fee', 'financing', 'built_in', true),
  ('tax_withholding_sirtac-*', 'tax', 'built_in', true),
  ('tax_withholding_sirtac_sobretasa-*', 'tax', 'built_in', true),
  ('tax_withholding-*', 'tax', 'built_in', true),
  ('tax_withholding_collector', 'tax', 'built_in', true),
  ('tax_withholding_collector-*', 'tax', 'built_in', true),
  ('tax_withholding_payout', 'tax', 'built_in', true),
  ('tax_withholding_payer-*', 'payer', 'built_in', true);

create table settlement_files (
  id uuid primary key,
  client text not null references clients (name),
  report text not null check (report in ('settlement', 'release')),
  origin text not null check (origin in ('handed_in', 'fetched')),
  name text,
  digest text not null,
  rows integer not null,
  added integer not null,
  totals jsonb not null,
  from_at timestamptz,
  to_at timestamptz,
  readings integer not null default 1,
  created_at timestamptz not null,
  last_read_at timestamptz not null,
  unique (client, report, digest)
);
create index settlement_files_newest on settlement_files (client, created_at desc, id);
comment on table settlement_files is
  'Reports of the provider that were read, each content once for a client.';
comment on column settlement_files.origin is 'handed_in by a person, or fetched';
comment on column settlement_files.digest is 'SHA-256 of the content';
comment on column settlement_files.added is 'Rows that the first read of it added';
comment on column settlement_files.from_at is 'The first movement in it';
comment on column settlement_files.to_at is 'The last movement in it';
comment on column settlement_files.readings is 'How often it was read';

create table settlement_rows (
  id uuid primary key,
  client text not null references clients (name),
  report text not null check (report in ('settlement', 'release')),
  source_id text not null,
  type text not null,
  detail text not null,
  at timestamptz,
  order_id uuid references orders (id),
  mp_order_id text,
  external_reference text,
  gross_cents bigint,
  fee_cents bigint not null,
  financing_cents bigint not null,
  taxes_cents bigint not null,
  taxes jsonb not null,
  net_cents bigint not null,
  release_on text,
  is_released boolean,
  installments integer,
  others jsonb not null,
  seen_in uuid not null,
  created_at timestamptz not null,
  last_updated_at timestamptz not null
);
create index settlement_rows_changes on settlement_rows (last_updated_at, id);
create index settlement_rows_of_client on settlement_rows (client, last_updated_at, id);
create index settlement_rows_order on settlement_rows (order_id)
  where order_id is not null;
create index settlement_rows_source on settlement_rows (client, source_id);
comment on table settlement_rows is
  'Movements of the account, each once, whichever report has it. Amounts have the sign of the seller''s account: a fee is negative.';
comment on column settlement_rows.source_id is 'The provider''s number of the payment or refund';
comment on column settlement_rows.detail is 'Together with type what the movement is, in the provider''s words';
comment on column settlement_rows.taxes is 'Each tax by its name';
comment on column settlement_rows.release_on is 'When the money becomes available, as the report has it';
comment on column settlement_rows.others is 'Columns of the report that have no column here';
comment on column settlement_rows.seen_in is 'The file that had it last';

create table settlement_fetches (
  id uuid primary key,
  client text not null references clients (name),
  report text not null check (report in ('settlement', 'release')),
  from_day text not null,
  to_day text not null,
  state text not null check (state in ('waiting', 'ordered', 'taken_in', 'refused')),
  task_id text,
  file_name text,
  file_id uuid references settlement_files (id),
  reason text,
  failures integer not null default 0,
  next_look_at timestamptz,
  created_at timestamptz not null,
  ended_at timestamptz
);
create index settlement_fetches_due on settlement_fetches (next_look_at)
  where next_look_at is not null;
create unique index settlement_fetches_open on settlement_fetches (client, report, from_day, to_day)
  where ended_at is null;
comment on table settlement_fetches is
  'Reports that are ordered from the provider, with the shop''s own configuration of them.';
comment on column settlement_fetches.state is 'state: waiting, ordered, taken_in, refused';
comment on column settlement_fetches.task_id is 'state: the provider''s task';
comment on column settlement_fetches.file_name is 'state: the report''s file, once it is made';
comment on column settlement_fetches.file_id is 'state: the row of settlement_files';
comment on column settlement_fetches.reason is 'state: why it is refused, for people';
comment on column settlement_fetches.failures is 'plan: failed attempts in a row';
comment on column settlement_fetches.next_look_at is 'plan: the next attempt; null when it has ended';
