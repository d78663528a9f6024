-- Whether the amount is sent without decimals, as currencies without cents want it. Fixed with the order: a repeated request
-- must have the same content under its key. Orders from before this column were sent with two decimals.
alter table orders add column whole_amount boolean not null default false;
