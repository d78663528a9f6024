-- Why a person must say how the open refund of the order ended; null when none is unclear.
alter table orders add column refund_unclear text;
-- What the provider shows that contradicts a person's decision on a refund of the order.
alter table orders add column refund_contradicted text;
-- A person has decided on a refund of the order.
alter table orders add column refund_settled boolean not null default false;

create index orders_refund_in_doubt on orders (client, created_at desc)
  where refund_unclear is not null or refund_contradicted is not null;

-- Refunds of before that nobody could tell apart.
update orders set refund_unclear = 'the outcome of the refund is not known'
  where exists (select from order_operations operation where operation.order_id = orders.id and operation.kind = 'refund'
    and operation.state = 'unknown' and operation.provider_code = 'refund_unclear');

-- What a person decided on a refund of unknown outcome, and the provider's refunds that may have been it at that moment.
alter table order_operations
  add column settled_as text check (settled_as in ('refunded', 'not_refunded')),
  add column settled_at timestamptz,
  add column settled_reason text,
  add column possible_refunds jsonb;
