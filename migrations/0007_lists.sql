-- For lists and figures that must not slow down with the number of orders, errors and items there are.

-- The newest order of each box, and the orders of one box.
create index orders_box on orders (client, caja_id, created_at desc, id);

-- When the money of a span came in, for the median of a charge.
create index order_events_paid on order_events (at) where to_status = 'processed';

-- What went wrong with one item.
create index flow_errors_item on flow_errors (flow, pk, at desc);

-- Money that came after a close: hardly ever any, looked for in every span.
create index orders_paid_after_close on orders (created_at desc) where paid_after_close;
