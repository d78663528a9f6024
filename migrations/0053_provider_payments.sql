-- The provider's own payments, as its search and its single reading show them: once each, and for each client those of its
-- boxes, its stores or its orders. Sales of a web shop at the same account stay out. Words are the provider's, unchanged;
-- an amount that could not be read is null beside its text. Facts come from public sources, none was tried live.
create table provider_payments (
  client text not null references clients (name),
  -- The number that an order's payment names as its reference.
  payment_id text not null,
  mp_user_id bigint not null,
  status text not null,
  status_detail text,
  operation_type text,
  channel text,
  currency text,
  external_reference text,
  mp_order_id text,
  mp_pos_id text,
  mp_store_id text,
  -- The ERP's ids as they were when the payment was first read: a box may stand elsewhere tomorrow.
  caja_id text,
  sucursal_id text,
  amount_cents bigint,
  amount_text text,
  refunded_cents bigint not null default 0,
  paid_cents bigint,
  net_cents bigint,
  net_text text,
  method_type text,
  method_id text,
  installments integer,
  fees jsonb not null default '[]',
  charges jsonb not null default '[]',
  refunds jsonb not null default '[]',
  -- When the money was the shop's: its approval, or its making where that is not told.
  sold_at timestamptz not null,
  made_at timestamptz,
  updated_at timestamptz,
  release_at timestamptz,
  release_status text,
  -- The order of ours that it paid, once that is known.
  order_id uuid references orders (id),
  fingerprint text not null,
  first_read_at timestamptz not null,
  -- When what is written here last changed; for whoever reads what is new.
  changed_at timestamptz not null,
  primary key (client, payment_id)
);

create index provider_payments_sold on provider_payments (client, caja_id, sold_at);
create index provider_payments_changed on provider_payments (client, changed_at, payment_id);
create index provider_payments_order on provider_payments (order_id) where order_id is not null;

-- How far a reading of the provider's payments has got: page by page, so that it goes on after a crash.
create table payment_reads (
  client text not null references clients (name),
  -- What it is read for: `changes` for what is read all the time, else a closing.
  name text not null,
  mp_user_id bigint not null,
  range text not null check (range in ('date_created', 'date_last_updated')),
  begins_at timestamptz not null,
  ends_at timestamptz not null,
  mp_pos_id text,
  mp_store_id text,
  next_offset integer not null default 0,
  total integer,
  -- When its first page was asked for: what was made less than a minute before may be missing.
  began_at timestamptz,
  finished_at timestamptz,
  -- How often the list changed while it was read, and was begun again.
  restarts integer not null default 0,
  primary key (client, name)
);
