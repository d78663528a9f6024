-- expand: the version before neither reads nor writes it
-- Of the body that was delivered, and of `delivered_hash`, so that a delivery which left this as it was does not count: a destination whose
-- next body is the same is not called. Null: not known.
alter table deliveries add column delivered_body text;
