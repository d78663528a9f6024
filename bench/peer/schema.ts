/** The tables of the hand-written program. */
export const schema = `
create table shops (
  client text primary key,
  key_hash text not null unique,
  access_token text not null
);
create table boxes (
  client text not null references shops (client),
  caja_id text not null,
  mp_pos_id text not null,
  primary key (client, caja_id)
);
create table orders (
  id uuid primary key,
  client text not null references shops (client),
  caja_id text not null,
  external_reference text not null,
  amount_cents bigint not null,
  state text not null,
  mp_order_id text unique,
  payload jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (client, external_reference)
);
create index orders_client_created on orders (client, created_at desc);
create table order_events (
  id bigint primary key generated always as identity,
  order_id uuid not null references orders (id),
  at timestamptz not null default now(),
  from_state text,
  to_state text not null
);
create index order_events_order on order_events (order_id, at);
create table audit (
  id bigint primary key generated always as identity,
  at timestamptz not null default now(),
  client text not null,
  action text not null,
  resource_id text not null,
  detail jsonb not null
);
create index audit_client on audit (client, id desc);
create table webhook_log (
  id uuid primary key,
  request_id text not null unique,
  resource_id text not null,
  status text not null,
  payload jsonb not null,
  received_at timestamptz not null default now(),
  processed_at timestamptz
);
create index webhook_log_received on webhook_log (received_at);
`
