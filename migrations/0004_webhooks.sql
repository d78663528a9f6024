-- Webhooks of the provider.

create table webhook_log (
  id uuid primary key,
  mp_user_id bigint,
  request_id text,
  topic text,
  action text,
  resource_id text,
  live_mode boolean,
  signature_valid boolean not null,
  signature_form text,
  signed_at timestamptz,
  payload jsonb,
  received_at timestamptz not null,
  -- What is known once it is processed: last, so that the log of that update has only these.
  client text,
  order_id uuid,
  status text not null check (status in ('received', 'processed', 'duplicate', 'ignored', 'failed',
    'rejected')),
  error_message text,
  deliveries integer not null default 1,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  processed_at timestamptz,
  duration_ms integer
)
-- The row as it is processed stays on its page.
with (fillfactor = 70);
create index webhook_log_due on webhook_log (next_attempt_at)
  where next_attempt_at is not null;
create index webhook_log_of_client on webhook_log (client, received_at desc)
  where client is not null;
create index webhook_log_order on webhook_log (order_id, received_at)
  where order_id is not null;
create index webhook_log_received on webhook_log (received_at desc);
create index webhook_log_rejected on webhook_log (received_at)
  where status = 'rejected';
comment on table webhook_log is 'Webhooks, each once, with what became of it.';
comment on column webhook_log.id is
  'request: from the SHA-256 of the signed parts (resource, request id, time), so a repeated webhook is found; random for rejected ones';
comment on column webhook_log.client is 'state: found when the webhook is processed';
comment on column webhook_log.signature_form is 'request: which way of signing matched';
comment on column webhook_log.status is 'state: received, processed, duplicate, ignored, failed, rejected';
comment on column webhook_log.error_message is 'state: why it failed or was rejected';
comment on column webhook_log.payload is 'request: the body; null once it is not needed';
comment on column webhook_log.deliveries is 'state: how often the provider sent it';
comment on column webhook_log.attempts is 'plan: attempts to process it';
comment on column webhook_log.next_attempt_at is 'plan: the next attempt; null when there is none';
