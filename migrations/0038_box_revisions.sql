-- Grows with each charge that is begun on the box and each order that is found at the provider for it. A charge that looked
-- for an equal one before is begun only while this is as it was then, so of equal charges one becomes an order.
alter table pos add column revision integer not null default 0;
