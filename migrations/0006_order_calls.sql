-- Who asked us about an order, and what we asked the provider about it: for the person who looks at what happened. Rows
-- come in batches a moment later and are forgotten after a month, mere looks sooner; no rule about money reads them. There is no foreign key:
-- its check would wait for whoever has locked the order, and make others wait.

create table order_calls (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  client text not null,
  kind text not null check (kind in ('request', 'provider')),
  -- Somebody only looked, and was answered. A till that asks every second makes nearly all rows of this kind.
  is_look boolean not null,
  -- When the call began.
  at timestamptz not null,
  duration_ms integer not null,
  operation text not null,
  -- Of a request who sent it: 'key', 'admin' or 'page'. Of a call to the provider why: 'api', 'webhook' or 'sweeper'.
  caller text not null,
  -- Null: there was no answer.
  status integer,
  code text,
  attempt integer not null,
  request_id text
);

create index order_calls_order on order_calls (order_id, id);
create index order_calls_at on order_calls using brin (at);
create index order_calls_looks on order_calls (at) where is_look;
