-- Orders that may still end, newest first: few of all there are, and the ones that people look for when something is wrong.
create index orders_not_ended on orders (created_at desc, id)
  where status in ('created', 'at_terminal', 'action_required') or conflict is not null;
