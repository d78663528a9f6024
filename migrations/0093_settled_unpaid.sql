-- Orders that a person settled as paid, and that ended without a payment.
create index orders_settled_unpaid on orders (client, caja_id, created_at)
  where settled_as = 'paid' and status in ('canceled', 'failed', 'expired') and not paid_after_close;
