-- Charge-backs: disputes that a buyer opened at the own bank about a payment. The sale stays a sale; its case has a state of its own.
-- A row without a case number stands for a payment that the provider shows as charged back, and whose case it does not name.
create table chargebacks (
  id uuid primary key,
  client text not null references clients (name),
  mp_user_id bigint not null,
  -- The provider's number of the case, as text: it has more digits than a JSON number is exact.
  case_id text,
  -- The payment of the client that is disputed, and all numbers that the case names.
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
  -- Decides: true, the shop keeps the money; false, the buyer has it; null, not decided.
  coverage_applied boolean,
  documentation_status text,
  documents_due_at timestamptz,
  state text not null check (state in ('open', 'won', 'lost', 'unknown')),
  -- As the provider dates them; null when it does not.
  opened_at timestamptz,
  updated_at timestamptz,
  found_at timestamptz not null,
  read_at timestamptz,
  decided_at timestamptz,
  -- When the case is read again; null when it is decided.
  next_read_at timestamptz,
  failures integer not null default 0,
  -- Which of its alerts were written.
  told_at timestamptz,
  deadline_told_at timestamptz,
  end_told_at timestamptz
);

create unique index chargebacks_case on chargebacks (client, case_id) where case_id is not null;
create unique index chargebacks_without_case on chargebacks (client, payment_id) where case_id is null;
create index chargebacks_payment on chargebacks (client, payment_id);
create index chargebacks_order on chargebacks (order_id) where order_id is not null;
create index chargebacks_list on chargebacks (client, found_at desc, id);
create index chargebacks_undecided on chargebacks (client, documents_due_at) where state in ('open', 'unknown');
create index chargebacks_due on chargebacks (client, next_read_at) where next_read_at is not null;
create index chargebacks_to_tell on chargebacks (found_at) where told_at is null;
create index chargebacks_end_to_tell on chargebacks (decided_at) where end_told_at is null and state in ('won', 'lost');
create index provider_payments_charged_back on provider_payments (client, payment_id) where status = 'charged_back';
