-- What a poll made of the items that it read; null for polls of before.
alter table flow_polls
  add column items_new bigint,
  add column items_changed bigint,
  add column items_deleted bigint,
  add column items_refused bigint;
