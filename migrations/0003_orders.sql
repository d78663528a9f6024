-- Orders and what is done with them: charges, cancels, refunds.

create table orders (
  -- The request: set at insert.
  id uuid primary key,
  client text not null,
  caja_id text not null,
  sucursal_id text not null,
  terminal_id text not null,
  mp_user_id bigint not null,
  external_reference text not null,
  mp_external_reference text not null,
  reference_attempt integer not null check (reference_attempt >= 1),
  amount_cents bigint not null check (amount_cents > 0),
  whole_amount boolean not null default false,
  description text,
  ticket_number text,
  send_ticket_number boolean not null,
  print_ticket boolean not null,
  payment_method text not null check (payment_method in ('all', 'debit_card', 'credit_card', 'qr')),
  expiration_minutes integer not null check (expiration_minutes between 1 and 180),
  request_key text,
  adopted_at timestamptz,
  created_at timestamptz not null,
  -- State.
  creation text not null check (creation in ('intent', 'unknown', 'confirmed', 'refused')),
  mp_order_id text,
  status text not null check (status in ('created', 'at_terminal', 'processed', 'canceled', 'failed',
    'expired', 'action_required', 'refunded', 'partially_refunded')),
  status_detail text,
  version integer not null default 1,
  payments jsonb not null default '[]',
  refunds jsonb not null default '[]',
  paid_cents bigint not null default 0 check (paid_cents >= 0),
  refunded_cents bigint not null default 0 check (refunded_cents >= 0),
  currency text,
  net jsonb,
  paid_after_close boolean not null default false,
  surplus text check (surplus in ('open', 'decided')),
  conflict text,
  unknown_status text,
  cancel_requested_at timestamptz,
  reopened_at timestamptz,
  denied_refunds integer not null default 0,
  refund_open boolean not null default false,
  refund_unclear text,
  refund_contradicted text,
  refund_settled boolean not null default false,
  settled_as text check (settled_as in ('paid', 'not_paid')),
  settled_at timestamptz,
  settled_reason text,
  last_updated_at timestamptz not null,
  expires_at timestamptz not null,
  standing text not null generated always as (case
    when conflict is not null and settled_as is null then 'in_doubt'
    when refund_unclear is not null or refund_contradicted is not null then 'in_doubt'
    when paid_after_close and refunded_cents < paid_cents then 'paid'
    when paid_after_close then 'refunded'
    when status in ('canceled', 'failed', 'expired') then 'not_paid'
    when status = 'processed' then 'paid'
    when status in ('refunded', 'partially_refunded') then 'refunded'
    -- It is open: the terminal may still have it.
    when settled_as is not null then settled_as
    when creation = 'unknown' or status = 'action_required' or unknown_status is not null then 'in_doubt'
    when creation = 'intent' and cancel_requested_at is not null then 'in_doubt'
    else 'under_way' end) stored,
  -- Leases.
  sender uuid,
  sender_until timestamptz,
  sent_at timestamptz,
  unanswered_at timestamptz,
  -- Plan.
  checked_at timestamptz,
  checks integer not null default 0,
  next_check_at timestamptz,
  check (mp_order_id is not null or status = 'created' or (status in ('failed', 'canceled') and creation =
    'refused')),
  check (creation <> 'confirmed' or mp_order_id is not null)
);
create index orders_adopted on orders (client, caja_id, amount_cents)
  where adopted_at is not null;
create index orders_due on orders (next_check_at)
  where next_check_at is not null;
create index orders_equal_form on orders (client, normalize(external_reference), caja_id, amount_cents);
create index orders_in_doubt on orders (client, created_at desc)
  where settled_as is null and (creation in ('intent', 'unknown') or conflict is not null);
create index orders_last_updated on orders (last_updated_at);
create unique index orders_mp_order_id_key on orders (mp_order_id)
  where mp_order_id is not null;
create unique index orders_mp_user_id_mp_external_reference_key on orders (mp_user_id, mp_external_reference, ( case when (adopted_at is null) then '' else mp_order_id end));
create index orders_newest on orders (created_at desc);
create index orders_newest_of_box on orders (client, caja_id, created_at desc);
create index orders_newest_of_client on orders (client, created_at desc);
create index orders_open on orders (terminal_id)
  where status in ('created', 'at_terminal', 'action_required') or conflict is not null;
create index orders_paid_after_close on orders (created_at desc)
  where paid_after_close;
create index orders_refund_in_doubt on orders (client, created_at desc)
  where refund_unclear is not null or refund_contradicted is not null;
create index orders_request on orders (left(request_key, 16))
  where request_key is not null;
create index orders_settled_unpaid on orders (client, caja_id, created_at)
  where settled_as = 'paid' and status in ('canceled', 'failed', 'expired') and not paid_after_close;
create index orders_undecided on orders (client, caja_id, created_at)
  where (paid_after_close or (paid_cents > 0 and paid_cents < amount_cents)) and settled_as is distinct from
    'paid';
comment on table orders is
  'A sale to be paid at a terminal. src/payments/orders/state.ts alone moves it; refuse_order_move refuses what goes around it.';
comment on column orders.id is 'request: the order''s number in the API, and the provider''s idempotency key of the charge';
comment on column orders.caja_id is 'request: the ERP''s id of the box';
comment on column orders.sucursal_id is 'request: the ERP''s id of the store';
comment on column orders.terminal_id is 'request: the terminal that was chosen';
comment on column orders.mp_user_id is 'request: the provider account';
comment on column orders.external_reference is 'request: the ERP''s number of the sale';
comment on column orders.mp_external_reference is
  'request: the reference that the provider gets, derived from the sale and reference_attempt';
comment on column orders.reference_attempt is 'request: 1 for the first order of this sale, 2 for the next one';
comment on column orders.amount_cents is 'request: what is to be paid, in cents';
comment on column orders.whole_amount is 'request: sent without decimals, because the account''s currency has no cents';
comment on column orders.description is 'request: text on the terminal';
comment on column orders.ticket_number is 'request: the ERP''s ticket';
comment on column orders.send_ticket_number is
  'request: ticket_number is sent to the provider; fixed, since a repeated request must have the same content';
comment on column orders.print_ticket is 'request: the terminal prints a ticket';
comment on column orders.payment_method is 'request: what the terminal accepts';
comment on column orders.expiration_minutes is 'request: how long the terminal waits for the customer';
comment on column orders.request_key is
  'request: SHA-256 of what a repeated request has in common with this one: the sale, or the Idempotency-Key';
comment on column orders.adopted_at is
  'request: when the order was found at the provider without a row here; null for orders of requests';
comment on column orders.created_at is 'request: when the intent was committed';
comment on column orders.creation is
  'state: intent before the call, unknown after an answer that proves nothing, confirmed, refused';
comment on column orders.mp_order_id is 'state: the provider''s number of the order';
comment on column orders.status is 'state: docs/reference/order-states.md';
comment on column orders.status_detail is 'state: the provider''s reason, as it gives it';
comment on column orders.version is 'state: grows with each change; a write names the version that it read';
comment on column orders.payments is 'state: payments of the order, as the provider shows them';
comment on column orders.refunds is 'state: refunds of the order, as the provider shows them';
comment on column orders.paid_cents is 'state: what the shop received (docs/reference/amounts.md)';
comment on column orders.refunded_cents is 'state: what the customer got back';
comment on column orders.currency is 'state: as the provider first named it (ARS)';
comment on column orders.net is 'state: what the seller receives, as far as known';
comment on column orders.paid_after_close is 'state: paid after the order counted as not paid';
comment on column orders.surplus is
  'state: open while a person must decide about a further payment, then decided; null: there was none';
comment on column orders.conflict is
  'state: why what the provider shows cannot be this order (another amount, reference or account)';
comment on column orders.unknown_status is 'state: the provider''s status, when it is none that is known here';
comment on column orders.cancel_requested_at is 'state: when the cancel was requested';
comment on column orders.reopened_at is 'state: when the provider showed an order that counted as refused';
comment on column orders.denied_refunds is
  'state: refunds that were answered as not made; a request that began before such an answer is not sent after it';
comment on column orders.refund_open is 'state: a refund has an unknown outcome';
comment on column orders.refund_unclear is 'state: why a person must decide how the open refund ended';
comment on column orders.refund_contradicted is 'state: what contradicts a person''s decision on a refund';
comment on column orders.refund_settled is 'state: a person has decided on a refund of the order';
comment on column orders.settled_as is
  'state: a person''s decision on an order in doubt: paid or not_paid; what the provider shows later still counts';
comment on column orders.settled_at is 'state: when the person decided';
comment on column orders.settled_reason is 'state: the person''s reason';
comment on column orders.last_updated_at is 'state: when the row last changed, for readers of changes';
comment on column orders.expires_at is 'state: when the terminal stops waiting';
comment on column orders.standing is
  'state: the group of the order for people, from the other columns; under_way becomes in_doubt when expires_at has passed';
comment on column orders.sender is 'lease: who sends to the provider under this order''s key';
comment on column orders.sender_until is 'lease: until when';
comment on column orders.sent_at is 'lease: when the first byte of the charge may have left';
comment on column orders.unanswered_at is
  'lease: when the latest attempt without an answer began; a refusal proves absence only while this is null';
comment on column orders.checked_at is 'plan: the last status check';
comment on column orders.checks is 'plan: status checks so far';
comment on column orders.next_check_at is 'plan: the next status check; null when nothing can change any more';

-- An ended order stays as it ended, and no move happens without a new version. Two ends are none when the provider says so:
-- an order that it had refused shows up, and a refund that it had taken fails.
create function refuse_order_move() returns trigger language plpgsql as $$
begin
  if old.status in ('canceled', 'failed', 'expired', 'refunded')
    and not (old.creation = 'refused' and new.creation = 'confirmed')
    and not (old.status = 'refunded' and new.status in ('processed', 'partially_refunded')
      and new.refunded_cents < old.refunded_cents) then
    raise exception 'order % has ended as %', old.id, old.status using errcode = 'restrict_violation';
  end if;
  if new.version <= old.version then
    raise exception 'order % moves without a new version', old.id using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

create trigger orders_moves before update on orders
  for each row when (old.status is distinct from new.status) execute function refuse_order_move();

-- What figures, lists and the state of a box count. A query reads it as if it had the conditions itself, so the partial indexes
-- above serve it. Lists of states are those of src/domain/order-state.ts.
create view order_figures as
select orders.*,
  status in ('created', 'at_terminal', 'action_required') and settled_as is null as is_open,
  settled_as is null and creation in ('intent', 'unknown') as is_charge_unclear,
  settled_as is null and conflict is not null as is_contradicted,
  refund_unclear is not null or refund_contradicted is not null as is_refund_unclear,
  status in ('processed', 'partially_refunded', 'refunded') or paid_after_close as was_paid,
  status in ('processed', 'partially_refunded') or (paid_after_close and refunded_cents < paid_cents) as is_charged,
  status = 'failed' and not paid_after_close and jsonb_array_length(payments) > 0 as is_declined,
  (paid_after_close or (paid_cents > 0 and paid_cents < amount_cents)) and settled_as is distinct from 'paid'
    and refunded_cents < paid_cents and (paid_after_close or status in ('processed', 'partially_refunded'))
    as is_money_undecided,
  settled_as = 'paid' and status in ('canceled', 'failed', 'expired') and not paid_after_close as is_settled_unpaid,
  net is not null as has_net,
  (net ->> 'grossCents')::bigint - (net ->> 'netCents')::bigint as fee_cents
from orders;
comment on view order_figures is 'Orders with what is counted of them.';
comment on column order_figures.is_open is 'Not ended at the provider, and no person has decided about it';
comment on column order_figures.is_charge_unclear is
  'The provider may or may not have the charge, and no person has decided';
comment on column order_figures.is_contradicted is
  'What the provider shows contradicts the order, and no person has decided';
comment on column order_figures.is_refund_unclear is 'A person must decide how a refund ended';
comment on column order_figures.was_paid is 'The customer paid, with or without a later refund';
comment on column order_figures.is_charged is 'Paid, and not refunded in full since';
comment on column order_figures.is_declined is 'It ended without money, after a payment was tried';
comment on column order_figures.is_money_undecided is
  'Paid late or in part, not refunded in full, and no person has decided: paid_late and paid_less of decisionOf';
comment on column order_figures.is_settled_unpaid is
  'A person decided that it was paid, and it ended without a payment: settled_unpaid of decisionOf';
comment on column order_figures.has_net is 'The net is known';
comment on column order_figures.fee_cents is 'What the provider keeps; null while the net is not known';

create table order_operations (
  -- The request: set at insert.
  id uuid primary key,
  order_id uuid not null references orders (id),
  client text not null references clients (name),
  kind text not null check (kind in ('cancel', 'refund')),
  refund_type text check (refund_type in ('total', 'partial')),
  amount_cents bigint check (amount_cents > 0),
  request_key text,
  refunds_before jsonb,
  asked_by jsonb,
  created_at timestamptz not null,
  -- State.
  state text not null check (state in ('intent', 'unknown', 'done', 'refused')),
  mp_refund_id text,
  provider_code text,
  possible_refunds jsonb,
  settled_as text check (settled_as in ('refunded', 'not_refunded')),
  settled_at timestamptz,
  settled_reason text,
  finished_at timestamptz,
  -- Leases and plan.
  sender uuid,
  sender_until timestamptz,
  unanswered_at timestamptz,
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  check ((kind = 'refund') = (refund_type is not null and amount_cents is not null))
);
create index order_operations_due on order_operations (next_attempt_at)
  where state in ('intent', 'unknown');
create unique index order_operations_one_open on order_operations (order_id, kind)
  where state in ('intent', 'unknown');
create index order_operations_order on order_operations (order_id, created_at);
comment on table order_operations is
  'Cancels and refunds. The row is committed before the provider is called.';
comment on column order_operations.id is 'request: the operation''s number, and the provider''s idempotency key';
comment on column order_operations.kind is 'request: cancel or refund';
comment on column order_operations.refund_type is 'request: total or partial';
comment on column order_operations.amount_cents is
  'request: the amount to refund; afterwards what was refunded, since a total refund may return less';
comment on column order_operations.request_key is 'request: SHA-256 of what a repeated request has in common with this one';
comment on column order_operations.refunds_before is
  'request: the provider''s ids of the order''s refunds when the intent was written; null when its list was not read';
comment on column order_operations.asked_by is 'request: who asked; null for operations of the service itself';
comment on column order_operations.state is
  'state: intent before the call, unknown after an answer that proves nothing, done, refused';
comment on column order_operations.mp_refund_id is 'state: the provider''s id of the refund';
comment on column order_operations.provider_code is 'state: the provider''s code of the refusal';
comment on column order_operations.possible_refunds is
  'state: the provider''s refunds that may be this one, when a person must decide';
comment on column order_operations.settled_as is 'state: a person''s decision: refunded or not_refunded';
comment on column order_operations.settled_reason is 'state: the person''s reason';
comment on column order_operations.sender is 'lease: who sends to the provider under this operation''s key';
comment on column order_operations.sender_until is 'lease: until when';
comment on column order_operations.unanswered_at is
  'lease: when the latest attempt without an answer began; a refusal proves absence only while this is null';
comment on column order_operations.attempts is 'plan: attempts so far';
comment on column order_operations.next_attempt_at is 'plan: when the sweeper takes it up again; null when it has ended';

create table idempotency_keys (
  client text references clients (name),
  route text,
  key text,
  fingerprint text not null,
  order_id uuid not null,
  operation_id uuid,
  created_at timestamptz not null,
  primary key (client, route, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
comment on table idempotency_keys is
  'Idempotency-Key headers of requests, for 30 days. No reference to orders: the key lives shorter.';
comment on column idempotency_keys.route is 'The operation that the key was sent to';
comment on column idempotency_keys.fingerprint is
  'SHA-256 of the request''s content; the same key with another content is refused';
comment on column idempotency_keys.operation_id is 'The cancel or refund; null for a charge';

create table order_events (
  id bigint generated always as identity,
  order_id uuid,
  client text not null,
  at timestamptz not null,
  source text not null,
  from_status text,
  to_status text,
  status_detail text,
  version integer not null,
  note text,
  primary key (order_id, id)
);
create index order_events_paid on order_events (at)
  where to_status = 'processed';
comment on table order_events is 'Every move of an order, in the order in which it happened.';
comment on column order_events.source is 'What moved it: the request, a webhook, a status check, a person';
comment on column order_events.version is 'The order''s version after the move';
comment on column order_events.note is 'What changed without a move';

create table order_calls (
  id bigint generated always as identity primary key,
  order_id uuid not null,
  client text not null,
  kind text not null check (kind in ('request', 'provider')),
  at timestamptz not null,
  duration_ms integer not null,
  operation text not null,
  caller text not null,
  status integer,
  code text,
  attempt integer not null,
  request_id text
);
create index order_calls_at on order_calls using brin (at);
create index order_calls_order on order_calls (order_id, id);
comment on table order_calls is
  'Requests about an order, and calls to the provider for it: for people who look at what happened. Written in batches, kept for a month, read by no rule. No reference to orders: its check would wait for the lock of the order.';
comment on column order_calls.kind is 'request: to this service; provider: by this service';
comment on column order_calls.at is 'When the call began';
comment on column order_calls.caller is
  'Of a request who sent it: key, admin or page. Of a call to the provider why: api, webhook or sweeper';
comment on column order_calls.status is 'HTTP status; null: no answer';
