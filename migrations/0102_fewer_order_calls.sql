-- expand: the version before writes is_look itself
-- Calls that succeed at once and stand in their order anyway are not logged any more, so looks need no time of their own. A process of
-- the version before still writes is_look.
drop index order_calls_looks;
alter table order_calls alter column is_look set default false;
