-- Orders that the provider has and no row here stood for, as after a restored backup: when each was taken in. Its reference may
-- also be that of another row, since the provider keeps both orders.
alter table orders add column adopted_at timestamptz;
alter table orders drop constraint orders_mp_user_id_mp_external_reference_key;
create unique index orders_mp_user_id_mp_external_reference_key on orders
  (mp_user_id, mp_external_reference, (case when adopted_at is null then '' else mp_order_id end));
create index orders_adopted on orders (client, caja_id, amount_cents) where adopted_at is not null;

-- How far the search for such orders has got at each account of the provider: every order made before `searched_until` has
-- been looked at, and it ends at `ends_at`, when the process began that wanted it.
create table order_searches (
  mp_user_id bigint primary key,
  searched_until timestamptz not null,
  ends_at timestamptz not null,
  finished_at timestamptz
);
