-- What a charge leaves to the seller: computed when its payment or a report of it is read, so that an answer about the
-- order costs no further statement.
alter table orders add column net jsonb;

-- What the names of the provider's charges mean. A * at the end of a name or an entity stands for any text; an empty
-- entity for any or none. The operator adds rows, since the provider's list of names grows without notice.
create table charge_classes (
  name text not null,
  entity text not null default '',
  class text not null check (class in ('fee', 'financing', 'tax', 'payer')),
  origin text not null default 'operator' check (origin in ('built_in', 'operator')),
  updated_at timestamptz not null default now(),
  -- Whether every net has been computed by it.
  applied boolean not null default false,
  primary key (name, entity)
);

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

-- Reports of the provider that were read, each content once for a client.
create table settlement_files (
  id uuid primary key,
  client text not null references clients (name),
  report text not null check (report in ('settlement', 'release')),
  origin text not null check (origin in ('handed_in', 'fetched')),
  name text,
  digest text not null,
  rows integer not null,
  -- What the first reading of it added.
  added integer not null,
  totals jsonb not null,
  -- From the first of its movements to the last.
  from_at timestamptz,
  to_at timestamptz,
  readings integer not null default 1,
  created_at timestamptz not null,
  last_read_at timestamptz not null,
  unique (client, report, digest)
);

create index settlement_files_newest on settlement_files (client, created_at desc, id);

-- Movements of the account by its reports, each once, whichever of them has it. Amounts are signed as the seller's account
-- moves: a fee is negative. Texts are the provider's own.
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
  -- The reading that saw it last: a row of a file is one row here, also when two of them are alike.
  seen_in uuid not null,
  created_at timestamptz not null,
  last_updated_at timestamptz not null
);

create index settlement_rows_source on settlement_rows (client, source_id);
create index settlement_rows_order on settlement_rows (order_id) where order_id is not null;
create index settlement_rows_changes on settlement_rows (last_updated_at, id);
create index settlement_rows_of_client on settlement_rows (client, last_updated_at, id);
