-- Payments as the provider has them, payments without an order, charge-backs.

create table payment_reads (
  client text references clients (name),
  name text,
  mp_user_id bigint not null,
  range text not null check (range in ('date_created', 'date_last_updated')),
  begins_at timestamptz not null,
  ends_at timestamptz not null,
  mp_pos_id text,
  mp_store_id text,
  part_begins_at timestamptz,
  part_ends_at timestamptz,
  next_offset integer not null default 0,
  total integer,
  began_at timestamptz,
  finished_at timestamptz,
  restarts integer not null default 0,
  primary key (client, name)
);
comment on table payment_reads is
  'How far a read of the provider''s payments has come, page by page, so that it continues after a crash.';
comment on column payment_reads.name is 'request: `changes` for the read that never ends, else the closing that it is for';
comment on column payment_reads.range is 'request: the date that the search goes by';
comment on column payment_reads.begins_at is 'request: from';
comment on column payment_reads.ends_at is 'request: to';
comment on column payment_reads.mp_pos_id is 'request: only this box; null: all';
comment on column payment_reads.mp_store_id is 'request: only this store; null: all';
comment on column payment_reads.part_begins_at is
  'state: the part of the span that is being read, when the span has more payments than a search pages through';
comment on column payment_reads.next_offset is 'state: the next page';
comment on column payment_reads.total is 'state: payments of the part, as its first page said';
comment on column payment_reads.began_at is 'state: when the first page was requested';
comment on column payment_reads.finished_at is 'state: null while it is read';
comment on column payment_reads.restarts is 'state: how often the list changed during the read and it began again';

create table provider_payments (
  client text references clients (name),
  payment_id text,
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
  sold_at timestamptz not null,
  made_at timestamptz,
  updated_at timestamptz,
  release_at timestamptz,
  release_status text,
  order_id uuid references orders (id),
  surplus_of uuid references orders (id),
  fingerprint text not null,
  first_read_at timestamptz not null,
  changed_at timestamptz not null,
  primary key (client, payment_id)
);
create index provider_payments_alone on provider_payments (client, sold_at)
  where order_id is null;
create index provider_payments_changed on provider_payments (client, changed_at, payment_id);
create index provider_payments_charged_back on provider_payments (client, payment_id)
  where status = 'charged_back';
create index provider_payments_order on provider_payments (order_id)
  where order_id is not null;
create index provider_payments_sold on provider_payments (client, caja_id, sold_at);
create index provider_payments_surplus on provider_payments (surplus_of)
  where surplus_of is not null;
create index provider_payments_unreadable on provider_payments (client, sold_at)
  where status = 'unreadable';
comment on table provider_payments is
  'The provider''s own payments, one row for each client whose box, store or order they belong to. Words are the provider''s.';
comment on column provider_payments.payment_id is 'The number that an order''s payment names as its reference';
comment on column provider_payments.status is 'The provider''s status; unreadable when its answer could not be read';
comment on column provider_payments.caja_id is 'The ERP''s id of the box when the payment was first read';
comment on column provider_payments.sucursal_id is 'The ERP''s id of the store when the payment was first read';
comment on column provider_payments.amount_cents is 'Null when the amount could not be read; amount_text has it then';
comment on column provider_payments.paid_cents is 'What the shop received';
comment on column provider_payments.net_cents is
  'What the seller receives, as the payment says; null when it could not be read';
comment on column provider_payments.sold_at is 'When the money became the shop''s: the approval, else the creation';
comment on column provider_payments.made_at is 'The provider''s date of creation';
comment on column provider_payments.order_id is 'The order that it paid, once known';
comment on column provider_payments.surplus_of is 'The order that it is a further payment of';
comment on column provider_payments.fingerprint is 'SHA-256 of what was read; equal content is not written again';
comment on column provider_payments.changed_at is 'When the row last changed, for readers of changes';

create table orphans (
  id uuid primary key,
  client text not null references clients (name),
  payment_id text not null,
  caja_id text,
  sucursal_id text,
  amount_cents bigint not null,
  sold_at timestamptz not null,
  found_at timestamptz not null,
  state text not null check (state in ('open', 'adopted', 'refunded', 'dismissed')),
  reason text,
  order_id uuid references orders (id),
  surplus_of uuid references orders (id),
  refund_asked boolean not null default false,
  settled_by jsonb,
  settled_at timestamptz,
  told_at timestamptz,
  end_told_at timestamptz,
  unique (client, payment_id),
  foreign key (client, payment_id) references provider_payments (client, payment_id)
);
create index orphans_client on orphans (client, sold_at desc, id);
create index orphans_end_to_tell on orphans (settled_at)
  where end_told_at is null and state <> 'open';
create index orphans_open on orphans (client)
  where state = 'open';
create index orphans_order on orphans (order_id)
  where order_id is not null;
create index orphans_surplus on orphans (surplus_of)
  where state = 'open' and surplus_of is not null;
create index orphans_surplus_of on orphans (surplus_of)
  where surplus_of is not null;
create index orphans_to_tell on orphans (found_at)
  where told_at is null;
comment on table orphans is
  'Payments at a box without an order (unclaimed payments), each once, with what a person decided.';
comment on column orphans.state is 'state: open, adopted, refunded, dismissed';
comment on column orphans.reason is 'state: the person''s reason';
comment on column orphans.order_id is 'state: the order that it was adopted as';
comment on column orphans.surplus_of is 'The order that it is a further payment of';
comment on column orphans.refund_asked is 'state: adopted in order to be refunded';
comment on column orphans.settled_by is 'state: who decided; null while open';
comment on column orphans.told_at is 'plan: when operators were notified that it exists';
comment on column orphans.end_told_at is 'plan: when operators were notified that it was decided';

create table chargebacks (
  id uuid primary key,
  client text not null references clients (name),
  mp_user_id bigint not null,
  case_id text,
  payment_id text not null,
  payment_ids jsonb not null default '[]',
  order_id uuid references orders (id),
  caja_id text,
  sucursal_id text,
  amount_cents bigint,
  amount_text text,
  currency text,
  reason text,
  coverage_eligible boolean,
  coverage_applied boolean,
  documentation_status text,
  documents_due_at timestamptz,
  state text not null check (state in ('open', 'won', 'lost', 'unknown')),
  opened_at timestamptz,
  updated_at timestamptz,
  found_at timestamptz not null,
  read_at timestamptz,
  decided_at timestamptz,
  next_read_at timestamptz,
  failures integer not null default 0,
  told_at timestamptz,
  deadline_told_at timestamptz,
  end_told_at timestamptz
);
create unique index chargebacks_case on chargebacks (client, case_id)
  where case_id is not null;
create index chargebacks_due on chargebacks (client, next_read_at)
  where next_read_at is not null;
create index chargebacks_end_to_tell on chargebacks (decided_at)
  where end_told_at is null and state in ('won', 'lost');
create index chargebacks_list on chargebacks (client, found_at desc, id);
create index chargebacks_order on chargebacks (order_id)
  where order_id is not null;
create index chargebacks_payment on chargebacks (client, payment_id);
create index chargebacks_to_tell on chargebacks (found_at)
  where told_at is null;
create index chargebacks_undecided on chargebacks (client, documents_due_at)
  where state in ('open', 'unknown');
create unique index chargebacks_without_case on chargebacks (client, payment_id)
  where case_id is null;
comment on table chargebacks is
  'Charge-backs: a buyer disputes a payment at the own bank. A row without a case number stands for a payment that the provider shows as charged back without naming the case.';
comment on column chargebacks.case_id is 'The provider''s number, as text: it has more digits than a JSON number is exact';
comment on column chargebacks.payment_id is 'The client''s payment that is disputed';
comment on column chargebacks.payment_ids is 'All payments that the case names';
comment on column chargebacks.amount_cents is 'Null when the amount could not be read; amount_text has it then';
comment on column chargebacks.coverage_applied is
  'The decision: true, the shop keeps the money; false, the buyer has it; null, none yet';
comment on column chargebacks.state is 'state: open, won, lost, unknown';
comment on column chargebacks.opened_at is 'The provider''s date; null when it gives none';
comment on column chargebacks.updated_at is 'The provider''s date; null when it gives none';
comment on column chargebacks.read_at is 'state: when the case was last read';
comment on column chargebacks.next_read_at is 'plan: the next read; null when the case is decided';
comment on column chargebacks.failures is 'plan: failed reads in a row';
comment on column chargebacks.told_at is 'plan: when operators were notified of the case';
comment on column chargebacks.deadline_told_at is 'plan: when operators were notified of its deadline';
comment on column chargebacks.end_told_at is 'plan: when operators were notified of its end';
