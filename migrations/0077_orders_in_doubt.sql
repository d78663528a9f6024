-- The overview tells of every order in doubt at each look, and hardly any order is in doubt for longer than its call.
create index orders_in_doubt on orders (client, created_at desc)
  where settled_as is null and (creation in ('intent', 'unknown') or conflict is not null);
