-- Webhooks of the provider.

create table webhook_log (
  id uuid primary key,
  delivery_key text unique,
  client text,
  mp_user_id bigint,
  request_id text,
  topic text,
  action text,
  resource_id text,
  order_id uuid,
  live_mode boolean,
  signature_valid boolean not null,
  signature_form text,
  signed_at timestamptz,
  status text not null check (status in ('received', 'processed', 'duplicate', 'ignored', 'failed',
    'rejected')),
  error_message text,
  payload jsonb,
  deliveries integer not null default 1,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  received_at timestamptz not null,
  processed_at timestamptz,
  duration_ms integer
);
create index webhook_log_due on webhook_log (next_attempt_at)
  where next_attempt_at is not null;
create index webhook_log_of_client on webhook_log (client, received_at desc)
  where client is not null;
create index webhook_log_order on webhook_log (order_id, received_at)
  where order_id is not null;
create index webhook_log_processed on webhook_log (upper(resource_id))
  where status = 'processed';
create index webhook_log_received on webhook_log (received_at desc);
create index webhook_log_rejected on webhook_log (received_at)
  where status = 'rejected';
comment on table webhook_log is 'Webhooks, each once, with what became of it.';
comment on column webhook_log.delivery_key is
  'request: SHA-256 of the signed parts (resource, request id, time), so a repeated webhook is found; null for rejected ones';
comment on column webhook_log.client is 'state: found when the webhook is processed';
comment on column webhook_log.signature_form is 'request: which way of signing matched';
comment on column webhook_log.status is 'state: received, processed, duplicate, ignored, failed, rejected';
comment on column webhook_log.error_message is 'state: why it failed or was rejected';
comment on column webhook_log.payload is 'request: the body; null once it is not needed';
comment on column webhook_log.deliveries is 'state: how often the provider sent it';
comment on column webhook_log.attempts is 'plan: attempts to process it';
comment on column webhook_log.next_attempt_at is 'plan: the next attempt; null when there is none';
