-- The webhooks about one order, for its timeline: else every look reads the log of all orders.
create index webhook_log_order on webhook_log (order_id, received_at) where order_id is not null;

-- What failed, of all that was ever done: few, and what people look for.
create index activity_log_failed on activity_log (seq desc) where status = 'failed';
