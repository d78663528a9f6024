-- expand: the version before finds the same orders, some of them by reading more rows
-- Each step of an order writes all its indexes again. Their keys end where the rows are few: equal times are sorted when they are
-- read, and the first 16 digits of a request's key are enough to find its orders.
create index orders_newest on orders (created_at desc);
create index orders_newest_of_client on orders (client, created_at desc);
create index orders_newest_of_box on orders (client, caja_id, created_at desc);
create index orders_last_updated on orders (last_updated_at);
create index orders_request on orders (left(request_key, 16)) where request_key is not null;
drop index orders_created;
drop index orders_client_created;
drop index orders_box;
drop index orders_changed;
drop index orders_request_key;

-- An intent has no id at the provider yet.
alter table orders drop constraint orders_mp_order_id_key;
create unique index orders_mp_order_id_key on orders (mp_order_id) where mp_order_id is not null;

-- Events are read by order only.
alter table order_events drop constraint order_events_pkey;
alter table order_events add primary key (order_id, id);
drop index order_events_order;

-- Webhooks get their client when they are processed, and a repetition is looked for among the processed ones.
create index webhook_log_of_client on webhook_log (client, received_at desc) where client is not null;
create index webhook_log_processed on webhook_log (upper(resource_id)) where status = 'processed';
drop index webhook_log_client;
drop index webhook_log_resource;

-- Both were checked with each step of a sale, by a statement of their own that locks the row it finds. An intent is inserted from its
-- box, whose client exists, and an event from its order in the same statement; clients are never deleted, and orders with their events.
alter table orders drop constraint orders_client_fkey;
alter table order_events drop constraint order_events_order_id_fkey;
