-- The payment side. Times come from the service's clock, not from now(), so that one clock decides.
-- Money is whole cents in bigint: numeric would accept NaN in a check and round silently.

create table settings (
  name text primary key,
  value text not null,
  updated_at timestamptz not null
);

create table clients (
  name text primary key check (char_length(name) between 1 and 100),
  -- The provider account pinned at the first connection; another account is refused until it is unpinned.
  mp_user_id bigint,
  mp_nickname text,
  created_at timestamptz not null
);

-- Tokens are sealed (AES-256-GCM) before they get here.
create table oauth_connections (
  client text primary key references clients (name),
  mp_user_id bigint not null,
  live_mode boolean not null,
  access_token text not null,
  refresh_token text,
  public_key text,
  scope text,
  expires_at timestamptz not null,
  connected_at timestamptz not null,
  refreshed_at timestamptz not null,
  -- Set before the provider is asked for a new pair and cleared with the pair: a crash in between leaves a trace.
  refresh_started_at timestamptz,
  status text not null check (status in ('connected', 'lost')),
  lost_reason text,
  version integer not null default 1
);

create index oauth_connections_mp_user on oauth_connections (mp_user_id);

create table oauth_states (
  state_hash text primary key,
  client text not null,
  code_verifier text not null,
  target_url text,
  browser_hash text,
  created_at timestamptz not null,
  expires_at timestamptz not null
);

create index oauth_states_expiry on oauth_states (expires_at);

create table invitations (
  id uuid primary key,
  client text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  used_at timestamptz
);

create table api_keys (
  id uuid primary key,
  client text not null references clients (name),
  key_hash text not null unique,
  key_mask text not null,
  description text,
  active boolean not null,
  created_at timestamptz not null,
  last_used_at timestamptz,
  revoked_at timestamptz
);

create index api_keys_client on api_keys (client, created_at desc);

create table stores (
  id uuid primary key,
  client text not null references clients (name),
  external_id text not null,
  -- What the provider is told instead: it takes letters and digits only.
  mp_external_id text not null,
  name text not null,
  location jsonb not null,
  mp_store_id text,
  state text not null check (state in ('creating', 'active', 'deleting')),
  created_at timestamptz not null,
  unique (client, external_id),
  unique (client, mp_external_id)
);

create table pos (
  -- Also the provider's idempotency key of the creation.
  id uuid primary key,
  client text not null references clients (name),
  store_id uuid not null references stores (id),
  external_id text not null,
  mp_external_id text not null,
  name text not null,
  mp_pos_id text,
  state text not null check (state in ('creating', 'active', 'deleting')),
  created_at timestamptz not null,
  unique (client, external_id),
  unique (client, mp_external_id)
);

create index pos_store on pos (store_id);
create index pos_mp on pos (client, mp_pos_id);

create table orders (
  -- Also the idempotency key that the provider gets: one per logical attempt, for ever.
  id uuid primary key,
  client text not null references clients (name),
  caja_id text not null,
  sucursal_id text not null,
  terminal_id text not null,
  mp_user_id bigint not null,
  external_reference text not null,
  mp_external_reference text not null,
  reference_attempt integer not null check (reference_attempt >= 1),
  amount_cents bigint not null check (amount_cents > 0),
  description text,
  ticket_number text,
  send_ticket_number boolean not null,
  print_ticket boolean not null,
  payment_method text not null check (payment_method in ('all', 'debit_card', 'credit_card', 'qr')),
  expiration_minutes integer not null check (expiration_minutes between 1 and 180),
  -- How far the creation at the provider got: 'intent' before the call, 'unknown' after an ambiguous answer.
  creation text not null check (creation in ('intent', 'unknown', 'confirmed', 'refused')),
  mp_order_id text unique,
  status text not null check (status in ('created', 'at_terminal', 'processed', 'canceled', 'failed',
    'expired', 'action_required', 'refunded', 'partially_refunded')),
  status_detail text,
  version integer not null default 1,
  payments jsonb not null default '[]',
  refunds jsonb not null default '[]',
  paid_cents bigint not null default 0 check (paid_cents >= 0),
  refunded_cents bigint not null default 0 check (refunded_cents >= 0),
  paid_after_close boolean not null default false,
  -- Why evidence about this order was refused (another amount, reference or account); shown to the operator.
  conflict text,
  cancel_requested_at timestamptz,
  sent_at timestamptz,
  created_at timestamptz not null,
  last_updated_at timestamptz not null,
  expires_at timestamptz not null,
  checked_at timestamptz,
  checks integer not null default 0,
  -- When the sweeper looks at it again; null when nothing can change any more.
  next_check_at timestamptz,
  unique (mp_user_id, mp_external_reference),
  -- A state other than the first can only come from the provider, or from proof that it never had the order.
  check (mp_order_id is not null or status = 'created' or (status in ('failed', 'canceled') and creation = 'refused')),
  check (creation <> 'confirmed' or mp_order_id is not null)
);

create index orders_client_created on orders (client, created_at desc, id);
create index orders_created on orders (created_at desc, id);
create index orders_equal on orders (client, external_reference, caja_id, amount_cents);
create index orders_terminal_open on orders (terminal_id)
  where status in ('created', 'at_terminal', 'action_required');
create index orders_due on orders (next_check_at) where next_check_at is not null;

-- Cancels and refunds: the intent row whose id is the provider's idempotency key.
create table order_operations (
  id uuid primary key,
  order_id uuid not null references orders (id),
  client text not null references clients (name),
  kind text not null check (kind in ('cancel', 'refund')),
  refund_type text check (refund_type in ('total', 'partial')),
  amount_cents bigint check (amount_cents > 0),
  state text not null check (state in ('intent', 'unknown', 'done', 'refused')),
  mp_refund_id text,
  provider_code text,
  attempts integer not null default 0,
  -- When the sweeper takes an open one up again.
  next_attempt_at timestamptz,
  created_at timestamptz not null,
  finished_at timestamptz,
  check ((kind = 'refund') = (refund_type is not null and amount_cents is not null))
);

-- Two refunds (or two cancels) of one order can never be under way together.
create unique index order_operations_one_open on order_operations (order_id, kind)
  where state in ('intent', 'unknown');
create index order_operations_due on order_operations (next_attempt_at)
  where state in ('intent', 'unknown');
create index order_operations_order on order_operations (order_id, created_at);

create table idempotency_keys (
  client text not null references clients (name),
  route text not null,
  key text not null,
  fingerprint text not null,
  order_id uuid not null references orders (id),
  operation_id uuid references order_operations (id),
  created_at timestamptz not null,
  primary key (client, route, key)
);

create index idempotency_keys_age on idempotency_keys (created_at);

-- Every move of an order, in the order it happened.
create table order_events (
  id bigint generated always as identity primary key,
  order_id uuid not null references orders (id),
  client text not null,
  at timestamptz not null,
  source text not null,
  from_status text,
  to_status text,
  status_detail text,
  version integer not null,
  note text
);

create index order_events_order on order_events (order_id, id);

create table webhook_log (
  id uuid primary key,
  -- Made of the signed parts only (resource id, request id, time); null for rejected ones.
  delivery_key text unique,
  client text,
  mp_user_id bigint,
  request_id text,
  topic text,
  action text,
  resource_id text,
  order_id uuid,
  live_mode boolean,
  signature_valid boolean not null,
  signature_form text,
  signed_at timestamptz,
  status text not null check (status in ('received', 'processed', 'duplicate', 'ignored', 'failed', 'rejected')),
  error_message text,
  payload jsonb,
  deliveries integer not null default 1,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  received_at timestamptz not null,
  processed_at timestamptz,
  duration_ms integer
);

create index webhook_log_received on webhook_log (received_at desc);
create index webhook_log_client on webhook_log (client, received_at desc);
create index webhook_log_due on webhook_log (next_attempt_at) where next_attempt_at is not null;
create index webhook_log_resource on webhook_log (upper(resource_id));
create index webhook_log_rejected on webhook_log (received_at) where status = 'rejected';

-- The audit log: append-only, each row's hash covers the row and the hash before it.
create table activity_log (
  seq bigint primary key,
  id uuid not null unique,
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
  previous_hash text not null,
  hash text not null
);

create index activity_log_created on activity_log (created_at desc);
create index activity_log_client on activity_log (client_name, seq desc);
create index activity_log_action on activity_log (action, seq desc);

-- The tail of the chain; its row lock puts writers in line.
create table activity_head (
  one boolean primary key default true check (one),
  seq bigint not null,
  hash text not null
);

insert into activity_head (one, seq, hash) values (true, 0, '');

create function refuse_activity_change() returns trigger language plpgsql as $$
begin
  raise exception 'the activity log is append-only' using errcode = 'restrict_violation';
end
$$;

create trigger activity_log_append_only before update or delete on activity_log
  for each row execute function refuse_activity_change();
create trigger activity_log_no_truncate before truncate on activity_log
  for each statement execute function refuse_activity_change();

-- Work that only one process may do: an owner, a deadline, and a token that grows with each new owner.
create table leases (
  name text primary key,
  owner text not null,
  deadline timestamptz not null,
  token bigint not null
);
