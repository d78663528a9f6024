-- Charges of a shop's boxes that no order of ours stands for, found by comparing all the time: each once, with what became of it.
create table orphans (
  id uuid primary key,
  client text not null references clients (name),
  payment_id text not null,
  caja_id text,
  sucursal_id text,
  amount_cents bigint not null,
  sold_at timestamptz not null,
  state text not null check (state in ('open', 'adopted', 'refunded', 'dismissed')),
  reason text,
  -- The order that it was taken in as.
  order_id uuid references orders (id),
  found_at timestamptz not null,
  settled_at timestamptz,
  unique (client, payment_id),
  foreign key (client, payment_id) references provider_payments (client, payment_id)
);

create index orphans_client on orphans (client, sold_at desc, id);
create index provider_payments_alone on provider_payments (client, sold_at) where order_id is null;
