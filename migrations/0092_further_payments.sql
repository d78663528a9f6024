-- A payment beside the one that its order was paid with: it is not the order's, and a person decides what becomes of it.
alter table provider_payments add column surplus_of uuid references orders (id);
alter table orphans add column surplus_of uuid references orders (id);
-- Whether a person still has to decide about such a payment of this order. Null: there was none.
alter table orders add column surplus text check (surplus in ('open', 'decided'));

create index provider_payments_surplus on provider_payments (surplus_of) where surplus_of is not null;
create index orphans_surplus on orphans (surplus_of) where state = 'open' and surplus_of is not null;
-- Orders that were paid after they counted as not paid, and orders that were paid in part.
create index orders_undecided on orders (client, caja_id, created_at)
  where (paid_after_close or (paid_cents > 0 and paid_cents < amount_cents)) and settled_as is distinct from 'paid';
