-- Who is sending to the provider under a row's key at this moment, and until when that counts. One at a time: a refusal
-- proves that nothing was made only if nobody else was sending under the same key.
alter table orders add column sender uuid, add column sender_until timestamptz;
alter table order_operations add column sender uuid, add column sender_until timestamptz;

-- What the one function that moves orders promises, promised by the table too: an ended order stays as it ended, and no
-- move happens without a new version.
create function refuse_order_move() returns trigger language plpgsql as $$
begin
  if old.status in ('canceled', 'failed', 'expired', 'refunded') then
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
