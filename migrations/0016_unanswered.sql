-- When the latest attempt that is still without an answer was begun; null while every attempt was answered. A refusal proves
-- that nothing was made only when this is null.
alter table orders
  add column unanswered_at timestamptz,
  -- What a repetition of the request has in common with it: the sale, or the till's key. Numbers its orders.
  add column request_key text,
  -- When the provider showed an order that had counted as refused.
  add column reopened_at timestamptz,
  -- A refund whose outcome nobody knows yet is open, so what the customer has paid in the end is not known either.
  add column refund_open boolean not null default false;
alter table order_operations
  add column unanswered_at timestamptz,
  add column request_key text;

create index orders_request_key on orders (request_key) where request_key is not null;

-- Every row of before may have been sent, and nobody noted whether it was answered.
update orders set unanswered_at = coalesce(sent_at, created_at) where creation in ('intent', 'unknown');
update order_operations set unanswered_at = created_at where state in ('intent', 'unknown');
update orders set refund_open = true where id in
  (select order_id from order_operations where kind = 'refund' and state in ('intent', 'unknown'));

-- Two ends are none when the provider says so: an order that it had refused shows up after all, and a refund that it had
-- taken fails, which gives its amount back.
create or replace function refuse_order_move() returns trigger language plpgsql as $$
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
