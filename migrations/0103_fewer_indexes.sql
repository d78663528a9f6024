-- expand: orders_open serves the questions of the version before too
-- One index of the few orders that may still end serves the terminals and the lists. Each order stood in both while it was open, and
-- every index of orders is written again with nearly every step of an order.
create index orders_open on orders (terminal_id)
  where status in ('created', 'at_terminal', 'action_required') or conflict is not null;
drop index orders_not_ended;
drop index orders_terminal_open;

-- Entries are stored in the order of their time, so the ranges of a summary index are enough.
create index activity_log_time on activity_log using brin (created_at);
drop index activity_log_created;
